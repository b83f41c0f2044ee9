"""Transposing copies against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import TARGETS, call, element_strides


def run_transpose(x: np.ndarray, out: np.ndarray, target: Target, band: int, checked: bool = False) -> None:
    """``out[b.., j, i] = x[b.., i, j]``."""
    spec = TransposeSpec(x.itemsize, x.ndim - 2)
    xs, outs = element_strides(x), element_strides(out)
    assert xs[-1] == outs[-1] == 1
    slots = {f"batch{d}": e for d, e in enumerate(x.shape[:-2])}
    slots |= {"rows": x.shape[-2], "cols": x.shape[-1], "band": band, "in": x.ctypes.data, "out": out.ctypes.data}
    slots |= {"in_row": xs[-2], "out_row": outs[-2]}
    for d in range(x.ndim - 2):
        slots |= {f"in_s{d}": xs[d], f"out_s{d}": outs[d]}
    blocks = int(np.prod(x.shape[:-2])) * -(-x.shape[-1] // band)
    call(spec, target, slots, blocks, [x, out], checked)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_transpose(dtype: type, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(1, 1), (3, 70), (70, 3), (16, 16), (17, 33), (64, 48), (130, 21), (2, 5, 9, 40), (3, 1, 31)]
    for shape in shapes:
        x = rng.integers(0, 200, shape).astype(dtype)
        out = np.zeros((*shape[:-2], shape[-1], shape[-2]), dtype)
        run_transpose(x, out, target, 32, checked)
        np.testing.assert_array_equal(out, x.swapaxes(-1, -2))
        padded = rng.integers(0, 200, (*shape[:-1], shape[-1] + 5)).astype(dtype)
        wide = np.zeros((*shape[:-2], shape[-1], shape[-2] + 3), dtype)
        run_transpose(padded[..., 2 : 2 + shape[-1]], wide[..., 1 : 1 + shape[-2]], target, 16, checked)
        want = np.zeros_like(wide)
        want[..., 1 : 1 + shape[-2]] = padded[..., 2 : 2 + shape[-1]].swapaxes(-1, -2)
        np.testing.assert_array_equal(wide, want)
