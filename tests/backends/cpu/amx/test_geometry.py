"""Windows on tiles with seeded random geometry: what a tile takes is always written, and by whom it is meant to be."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.layout import turned_layout, window_layout
from MNN.backends.cpu.amx.lines import has_lines, line_layout, lines_of
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.amx.test_tiles import TARGETS, assert_close, contract, windows

CASES = 40


def drawn(rng: np.random.Generator, lines: bool) -> tuple[tuple[int, ...], ...]:
    """Outputs, kernel, strides, dilations, channels and rows of a block."""
    dims = int(rng.integers(2, 4)) if lines else int(rng.integers(1, 4))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, dims, endpoint=True))

    outputs, kernel, strides, dilations = each(1, 12 if dims < 3 else 6), each(1, 4), each(1, 3), each(1, 2)
    if lines:
        kernel, dilations = (*kernel[:-1], max(2, kernel[-1])), (*dilations[:-1], 1)
    channels = int(rng.integers(1, 40))
    return outputs, kernel, strides, dilations, channels, int(rng.integers(1, outputs[0], endpoint=True))  # type: ignore[return-value]


@TARGETS
@pytest.mark.parametrize("lines", [False, True], ids=["pixels", "lines"])
def test_random_windows(target: Target, lines: bool) -> None:
    rng = np.random.default_rng(11 + lines)
    for _ in range(CASES):
        case = drawn(rng, lines)
        w, a, left, b = windows(case, 0)
        assert has_lines(w) or not lines
        layout = line_layout(lines_of(w), int(case[-1])) if lines else window_layout(w, int(case[-1]))  # type: ignore[call-overload]
        spec = AmxSpec(DType.F32, DType.F32, 2, lines=lines)
        found = contract(spec, target, layout, a[None], b, left.shape[1], 64)
        assert_close(found, left, b.astype(np.float64), 2)


@TARGETS
def test_regions_are_cut_along_any_dimension(target: Target) -> None:
    rng = np.random.default_rng(13)
    for _ in range(CASES // 4):
        case = drawn(rng, lines=True)
        w, a, left, b = windows(case, 0)
        dims = len(w.outputs)
        first = int(rng.integers(1, dims))
        order = [first, *[d for d in range(dims) if d != first]]
        layout = turned_layout(w, order, int(rng.integers(1, w.outputs[first], endpoint=True)))
        found = contract(AmxSpec(DType.F32, DType.F32, 2), target, layout, a[None], b, left.shape[1], 64)
        turned = left.reshape(w.images, *w.outputs, -1).transpose(0, *[1 + d for d in order], dims + 1)
        assert_close(found, turned.reshape(left.shape), b.astype(np.float64), 2)
