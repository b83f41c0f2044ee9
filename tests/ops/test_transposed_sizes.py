"""Transposed convolutions whose result is to be larger than what their taps reach: zeros are put on at the end."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


@pytest.mark.parametrize("seed", range(12))
def test_given_sizes(seed: int) -> None:
    rng = np.random.default_rng([seed, 28])
    spatial = 2 + seed % 2
    kernel, strides, given = (rng.integers(1, 4, spatial), rng.integers(1, 5, spatial), rng.integers(1, 5, spatial))
    out = [int(n * s - rng.integers(0, s)) for n, s in zip(given, strides, strict=True)]
    x = rng.standard_normal((2, 3, *given)).astype(np.float32)
    w = rng.standard_normal((3, 2, *kernel)).astype(np.float32)
    full = [(n - 1) * s + k for n, s, k in zip(given, strides, kernel, strict=True)]
    begins = [max(f - n, 0) // 2 for f, n in zip(full, out, strict=True)]
    whole = np.zeros((2, 2, *(max(f, b + n) for f, b, n in zip(full, begins, out, strict=True))), np.float32)
    for at in np.ndindex(*given):
        where = tuple(slice(a * s, a * s + k) for a, s, k in zip(at, strides, kernel, strict=True))
        whole[(..., *where)] += np.tensordot(x[(..., *at)], w, 1)
    wanted = whole[(..., *(slice(b, b + n) for b, n in zip(begins, out, strict=True)))]
    sizes = np.asarray([2, *out, 2] if spatial == 2 else out, np.int32)
    attrs: dict[str, object] = {
        "padMode": "SAME",
        "hasOutputShape": True,
        "outputCount": 2,
        "inputCount": 3,
        "group": 1,
    }
    if spatial == 2:
        attrs |= dict(zip(("kernelY", "kernelX", "strideY", "strideX"), map(int, (*kernel, *strides)), strict=True))
    else:
        attrs |= {"kernels": [int(k) for k in kernel], "strides": [int(s) for s in strides], "dilates": [1, 1, 1]}
    given_x, y = Value("x", None, x.shape), Value("y")
    operands = [given_x, Value("w", data=w), None, Value("sizes", data=sizes)]
    node = Node("Deconvolution" if spatial == 2 else "ConvTranspose3D", "n", operands, [y], attrs)
    found = Session(Graph(nodes=[node], inputs=[given_x], outputs=[y])).run({"x": x})["y"]
    assert np.abs(np.asarray(found) - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1e-3)
