"""Convolutions whose windows lie in their border in part, against float64 in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.gemm.contraction import ContractSpec

ROUNDING = 2.0**-24
Attributes = dict[str, Any]


def _given(rng: np.random.Generator) -> tuple[Attributes, np.ndarray, np.ndarray]:
    """Attributes, an input and weights: windows much larger than what is convolved, in a border almost as wide."""
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
    kernel, strides = rng.integers(2, 5, rank), rng.integers(1, 4, rank)
    dilations = rng.integers(1, 7, rank)
    spans = (kernel - 1) * dilations + 1
    size = rng.integers(1, 9, rank)
    pads = rng.integers(0, np.maximum(spans, 2), (2, rank))
    pads[1] += np.maximum(spans - size - pads.sum(0), 0)  # one window at least
    attributes = {
        "group": groups, "pads": pads.reshape(-1).tolist(), "strides": strides.tolist(),
        "dilations": dilations.tolist(),
    }  # fmt: skip
    channels, results = (groups * int(n) for n in rng.integers(1, 22, 2))
    x = rng.standard_normal((int(rng.integers(1, 3)), channels, *size)).astype(np.float32)
    w = rng.standard_normal((results, channels // groups, *kernel)).astype(np.float32)
    return attributes, x, w


def _made(attributes: Attributes, x: np.ndarray, w: np.ndarray) -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], "borders",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def _expected(attributes: Attributes, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    rank, groups = x.ndim - 2, attributes["group"]
    pads, strides, dilations = attributes["pads"], attributes["strides"], attributes["dilations"]
    wide = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    sizes = zip(wide.shape[2:], dilations, w.shape[2:], strides, strict=True)
    out = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in sizes]
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, *out))
    split = w.reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, w.shape[2:])):
        steps = zip(tap, dilations, strides, out, strict=True)
        places = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in steps]
        part = wide[(slice(None), slice(None), *places)].reshape(x.shape[0], groups, -1, *out)
        total += np.einsum("ngc...,goc->ngo...", part, split[(..., *tap)])
    return total.reshape(x.shape[0], -1, *out)


def _run(made: bytes, x: np.ndarray) -> tuple[np.ndarray, int]:
    """What comes out, and how many commands look up taps."""
    with restricted("implicit GEMM"):
        loaded = model.load(made, cache=False, precision="high")
        (found,) = loaded.run({"x": x}).values()
    commands = [c for p in loaded.plans_used() for c in p.bound.program.commands]
    return found, sum(isinstance(c.kernel, ContractSpec) and c.kernel.spans for c in commands)


@pytest.mark.parametrize("target", ["", "sse4.1", "avx512,+avx512vnni"])
def test_convolutions(target: str, weaker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows, steps and borders are drawn; memory is poisoned. No error is larger than that of sums in f32."""
    weaker(target)
    monkeypatch.setenv("MNN_POISON", "1")
    rng, used = np.random.default_rng(12), 0
    for _ in range(6):
        attributes, x, w = _given(rng)
        found, looked_up = _run(_made(attributes, x, w), x)
        exact = _expected(attributes, x.astype(np.float64), w.astype(np.float64))
        most = _expected(attributes, np.abs(x).astype(np.float64), np.abs(w).astype(np.float64))
        assert (np.abs(found - exact) <= (w[0].size + 2) * ROUNDING * most).all(), attributes
        used += looked_up
    assert used >= 3


def test_zeros_times_infinite_weights_count() -> None:
    attributes = {"group": 1, "pads": [16, 16], "strides": [1], "dilations": [16]}
    x, w = np.ones((1, 3, 40), np.float32), np.ones((2, 3, 3), np.float32)
    _, looked_up = _run(_made(attributes, x, w), x)
    assert looked_up
    w[1, 0, 0] = np.inf
    found, looked_up = _run(_made(attributes, x, w), x)
    assert not looked_up
    assert np.isfinite(found[0, 0]).all()
    assert np.isnan(found[0, 1, :16]).all()
