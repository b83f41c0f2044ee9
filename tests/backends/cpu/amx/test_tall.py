"""Tall sums on tiles against numpy in float64: heights, blocks, tails, windows, with and without an epilogue."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.layout import HEIGHT, rows_layout, tall_layout, window_layout
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu.amx.test_tiles import BOUNDS, TARGETS, WINDOWS, assert_close, contract, windows

F32 = DType.F32


@TARGETS
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k", "mb", "nb"),
    [
        (1, 1, 1, 16, 32),
        (20, 40, 33, 64, 64),
        (49, 70, 288, 64, 96),
        (100, 33, 200, 48, 32),
        (131, 300, 150, 64, 160),
        (208, 64, 130, 32, 64),
        (64, 96, 260, 64, 96),
    ],
)
def test_tall_sums(target: Target, overlap: bool, m: int, n: int, k: int, mb: int, nb: int) -> None:
    rng = np.random.default_rng(m + n)
    a, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((2, m, k + 3), (2, k, n)))
    rows = rng.permutation(m) * (k + 3)
    layout = tall_layout(rows_layout(rows, np.zeros(1, np.int64), k, mb), 3)
    body = body_of([F32, F32], lambda s, x, y: s("max", s("add", x, y), x))
    spec = AmxSpec(F32, F32, 2, body, ("n",), overlap=overlap, passing=True, tall=True)
    bias = rng.uniform(-1, 1, (2, n)).astype(np.float32)
    found = contract(spec, target, layout, a, b, m, nb, (bias,), checked=True)
    left, right = a[:, rows // (k + 3), :k].astype(np.float64), b.astype(np.float64)
    want = np.maximum(left @ right + bias[:, None], left @ right)
    allowed = (BOUNDS[2] + 1e-7) * (np.abs(left) @ np.abs(right) + np.abs(bias[:, None]))
    assert (np.abs(found - want) <= allowed).all()


@TARGETS
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_tall_sums_of_windows(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 1)
    plain = [window_layout(w, rows) for rows in range(int(case[-1]), 0, -1)]  # type: ignore[call-overload]
    low = next((layout for layout in plain if layout.tiles <= HEIGHT), None)
    if low is None:
        with pytest.raises(ValueError, match="row tiles at most"):
            tall_layout(plain[-1], 4)
        return
    spec = AmxSpec(F32, F32, 2, ahead=8, passing=True, tall=True)
    found = contract(spec, target, tall_layout(low, 4), a[None], b, left.shape[1], 64, checked=True)
    assert_close(found, left, b.astype(np.float64), 2)


def test_blocks_of_many_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="row tiles at most"):
        tall_layout(rows_layout(np.arange(80) * 64, np.zeros(1, np.int64), 64, 80), 4)
    with pytest.raises(ValueError, match="tall sums"):
        AmxSpec(F32, F32, 3, tall=True)
