"""Conversions of colours against the same in numpy: channels, orders, types, tails of rows; checked builds."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from MNN.backends.cpu.image.color import NEW, ColorSpec, Conversion
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call

U8, F32 = DType.U8, DType.F32
SPECS = [
    ColorSpec(U8, 3, 3, (2, 1, 0), Conversion.TAKEN),
    ColorSpec(U8, 4, 3, (0, 1, 2), Conversion.TAKEN),
    ColorSpec(F32, 1, 4, (0, 0, 0, NEW), Conversion.TAKEN),
    ColorSpec(U8, 1, 4, (0, 0, 0, NEW), Conversion.TAKEN),
    ColorSpec(U8, 4, 1, (2, 1, 0), Conversion.FLOORED),
    ColorSpec(U8, 3, 3, (2, 1, 0), Conversion.WEIGHTED),
    ColorSpec(F32, 3, 2, (0, 2), Conversion.WEIGHTED),
    ColorSpec(U8, 3, 3, (0, 1, 2), Conversion.HSV, 256),
    ColorSpec(F32, 3, 3, (2, 1, 0), Conversion.HSV),
]


def _want(spec: ColorSpec, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if spec.how is Conversion.TAKEN:
        opaque = np.full(len(x), 255 if spec.dtype is U8 else 1)
        return np.stack([opaque if c == NEW else x[:, c] for c in spec.order], 1)
    channels = x[:, spec.order].astype(np.float64)
    if spec.how is Conversion.HSV:
        top = 255 if spec.dtype is U8 else 1
        found = np.array([colorsys.rgb_to_hsv(*(pixel / top)) for pixel in channels])
        found = found * ((spec.hues, 255, 255) if spec.dtype is U8 else (360, 1, 1))
        if spec.dtype is U8:
            found[:, 0] = np.rint(found[:, 0]) % spec.hues
    else:
        found = channels @ weights[:, :-1].T + weights[:, -1]
        found = np.floor(found) if spec.how is Conversion.FLOORED else found
    return np.clip(np.rint(found), 0, 255) if spec.dtype is U8 else found


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.key())
def test_color(spec: ColorSpec, target: Target, checked: bool) -> None:
    random = np.random.default_rng(spec.inputs)
    for pixels in (1, 16, 77):
        source = random.random((pixels, spec.inputs))
        source[: pixels // 4] = source[: pixels // 4, :1]  # gray
        source[0] = 0
        source = (source * 255.99).astype(np.uint8) if spec.dtype is U8 else source.astype(np.float32)
        weights = (np.round(random.normal(size=(spec.outputs, len(spec.order) + 1)) * 64) / 64).astype(np.float32)
        want = _want(spec, source, weights)
        out = np.full((pixels + 3, spec.outputs), 7, spec.dtype.numpy)
        arrays = {"src": source, "out": out, "weights": weights}
        slots = {"pixels": pixels, "band": 30, **{name: a.ctypes.data for name, a in arrays.items()}}
        call(spec, target, slots, -(-pixels // 30), list(arrays.values()), checked)
        assert np.abs(out[:pixels] - want).max() <= (1e-4 if spec.dtype is F32 else spec.how is Conversion.HSV)
        assert (out[pixels:] == 7).all()
