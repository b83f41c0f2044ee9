"""Bilateral smoothing against the same sums in numpy: types, channels, tails of rows, blocks; checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.filtering.bilateral import BilateralSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [DType.U8, DType.F32], ids=["u8", "f32"])
@pytest.mark.parametrize("planes", [1, 3])
def test_bilateral(planes: int, dtype: DType, target: Target, checked: bool) -> None:
    random = np.random.default_rng(planes)
    for height, width in ((1, 1), (7, 45)):
        source = (random.random((planes, height + 2, width + 2)) * 255).astype(dtype.numpy)
        if dtype is DType.F32 and height > 1:
            source[0, 4, 9] = 3e38  # what stands for no number at all in many depth maps: nothing of it is in others
        taps, factor = [(0, 1, 0.5), (1, 1, 1.0), (2, 0, 0.25), (1, 2, 0.7)], -1 / 900
        parts = [source[:, y : y + height, x : x + width].astype(np.float64) for y, x, _ in taps]
        weights = [
            2 ** (np.abs(p - parts[1]).sum(0) ** 2 * factor) * w for p, (_, _, w) in zip(parts, taps, strict=True)
        ]
        want = sum(p * w for p, w in zip(parts, weights, strict=True)) / sum(weights)
        out = np.full((planes, height * width + 1), 7, dtype.numpy)
        offsets = np.array([y * (width + 2) + x for y, x, _ in taps])
        near = np.log2(np.array([w for _, _, w in taps], np.float32))
        slots = {
            "src_row": width + 2, "width": width, "height": height, "band": 3, "taps": len(taps),
            "offsets": offsets.ctypes.data, "weights": near.ctypes.data, "centre": width + 3,
            "factor": int(np.float32(factor).view(np.int32)),
            **{f"in{i}": plane.ctypes.data for i, plane in enumerate(source)},
            **{f"out{i}": plane.ctypes.data for i, plane in enumerate(out)},
        }  # fmt: skip
        call(BilateralSpec(dtype, planes), target, slots, -(-height // 3), [source, out, offsets, near], checked)
        apart = np.abs(out[:, :-1].reshape(want.shape) - want)
        assert (apart <= (0.501 if dtype is DType.U8 else 1e-3 + 1e-6 * want)).all()
        assert (out[:, -1] == 7).all()
