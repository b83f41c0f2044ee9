"""Depthwise windows of bytes two taps at a time against int64: all kinds of windows, groups and ends, largest sums."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.targets import Target, named_target
from MNN.backends.cpu.window.cost import choose_tap_pixels
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.window.tap_pairs import groups_of, has_tap_pairs, pack_tap_pairs, shift_of, tap_pairs
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from tests.backends.cpu import util
from tests.backends.cpu.window.test_window import requantised, run

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32
TARGETS = pytest.mark.parametrize("target", [t for t in util.TARGETS if has_tap_pairs(t)], ids=lambda t: t.name)
PLAIN = body_of([I32, I32], lambda b, total, bias: b("add", total, bias))
"""An end that packing does not bound."""


def drawn(rng: np.random.Generator, kh: int, kw: int, c: int, most: int) -> np.ndarray:
    """Weights of up to ``most``, the last channels the largest there are of one sign, of the other, and of both."""
    weights = rng.integers(-most, most + 1, (kh, kw, c)).astype(np.int16)
    if most > 100:
        weights[..., -1], weights[..., -2], weights[..., -3] = 127, -128, np.where(weights[..., -3] > 0, 127, -128)
    return weights


def spec_of(dtype: DType, body: Body, kinds: tuple[str, ...], weights: np.ndarray, sx: int, dx: int, pixels: int,
            target: Target) -> WindowSpec:  # fmt: skip
    kh, kw, c = weights.shape
    shift = shift_of(weights[None], dtype)
    assert shift is not None
    cut = c % (4 * target.lanes(F32)) != 0
    return WindowSpec(dtype, I32, body.result_dtypes[0], "dot", kw, sx, dx, pixels, body, kinds,
                      taps=True, shift=shift, odd=kh % 2 == 1, cut=cut)  # fmt: skip


@TARGETS
@pytest.mark.parametrize("seed", range(24))
def test_windows_of_bytes(target: Target, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kh, kw = (int(rng.integers(1, 8)) for _ in range(2))
    sx, dx, sy, pixels, ow = (int(rng.integers(1, n)) for n in (4, 4, 3, 5, 10))
    c = int(rng.choice([16, 17, 31, 32, 33, 48, 60, 64, 79]))
    weights = drawn(rng, kh, kw, c, int(rng.choice([7, 60, 127])))
    dtype, out = (U8, I8)[seed % 2], (U8, I8)[seed // 2 % 2]
    single = bool(rng.integers(2))
    body, kinds = (requantised(out, 7, single), ("c",) if single else ("c", "c"))
    if seed % 3 == 0:
        body, kinds = PLAIN, ("1" if seed % 2 else "c",)
    spec = spec_of(dtype, body, kinds, weights, sx, dx, min(pixels, ow), target)
    found, expected = run(spec, target, 2, kh, sy, 3, ow, c, given=weights)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 10


@TARGETS
@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize("most", [7, 127])
def test_the_largest_sums(target: Target, dtype: DType, most: int) -> None:
    """Bytes at both ends of their range, under weights at theirs: the sums of a row of pixels are the largest."""
    kh = kw = 3
    c, info = 48, np.iinfo(dtype.numpy)
    signs = np.random.default_rng(1).integers(0, 2, (kh, kw, c))
    signs[..., 0], signs[..., 1] = 0, 1
    weights = np.where(signs, most, -most - (most == 127)).astype(np.int16)
    spec = spec_of(dtype, PLAIN, ("1",), weights, 1, 1, 2, target)
    assert (spec.shift == 0) == (most == 7)
    x = np.zeros((3, 4, c), dtype.numpy)
    for ends in range(16):
        x[...] = np.where(weights[:, :1] > 0, info.max, info.min)  # the largest for the first column
        flipped = [bool(ends >> bit & 1) for bit in range(4)]
        for column, other in enumerate(flipped):
            if other:
                x[:, column] = info.min + info.max - x[:, column].astype(np.int32)
        y, zero = np.zeros((2, c), np.int32), np.zeros(1, np.int32)
        taps = pack_tap_pairs(weights[None], dtype, 4 * target.lanes(F32), spec.shift)
        arrays = {"x": x, "w": weights, "y": y, "lines_x": zero, "lines_y": zero, "taps": taps, "op0": zero}
        slots = {"n_lines": 1, "kh": kh, "row_x": 4 * c, "step_x": c, "step_y": c, "ow": 2, "c": c}
        slots |= {"lines_per_block": 1, "tap_bytes": taps.size // c} | {n: a.ctypes.data for n, a in arrays.items()}
        util.call(spec, target, slots, 1, list(arrays.values()), True)
        for pixel in (0, 1):
            wanted = (x[:, pixel : pixel + 3].astype(np.int64) * weights).sum(axis=(0, 1))
            np.testing.assert_array_equal(y[pixel], wanted)


def test_pairs_and_groups() -> None:
    for kh in range(1, 8):
        for kw in range(1, 8):
            taken = [tap for pair in tap_pairs(kh, kw) for tap in pair if tap is not None]
            assert sorted(taken) == [(y, x) for y in range(kh) for x in range(kw)]
    assert list(groups_of(80, 32)) == [(0, 32), (32, 32), (64, 16)]
    assert list(groups_of(50, 32)) == [(0, 32), (32, 16), (34, 16)]
    assert shift_of(np.ones((40, 3, 3, 16), np.int8), I8) is None
    for sums in (1, 2):
        for ow in (1, 2, 7, 100):
            assert 1 <= choose_tap_pixels(named_target("avx2"), 1, 1, 3, 5, ow, sums) <= min(ow, 6)
