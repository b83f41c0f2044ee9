"""Conversions of colours against the same in numpy: channels, orders, types, tails of rows; checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.color import NEW, ColorSpec, Conversion
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder
from MNN.reference.scalar import evaluate
from tests.backends.cpu.util import TARGETS, call

U8, F32, I32 = DType.U8, DType.F32, DType.I32


def _floats(top: float) -> Body:
    """Halves that must become even, numbers beyond both ends of bytes, and a constant."""
    b = BodyBuilder()
    x, y, z = (b.arg(F32) for _ in range(3))
    scaled = b("sub", b("mul", x, b.const(1.5, F32)), y)
    root = b("sqrt", b("max", z, b.const(0.0, F32)))
    return b.build(scaled, b("select", b("gt", x, y), root, z), b.const(0.5 * top, F32))


def _words() -> Body:
    b = BodyBuilder()
    x, y = (b.arg(I32) for _ in range(2))
    word = b("or", x, b("shl", y, b.const(8, I32)))
    return b.build(b("and", word, b.const(255, I32)), b("shr", b("mul", word, word), b.const(9, I32)))


SPECS = [
    ColorSpec(U8, 3, 3, (2, 1, 0), Conversion.TAKEN),
    ColorSpec(U8, 4, 3, (0, 1, 2), Conversion.TAKEN),
    ColorSpec(F32, 1, 4, (0, 0, 0, NEW), Conversion.TAKEN),
    ColorSpec(U8, 1, 4, (0, 0, 0, NEW), Conversion.TAKEN),
    ColorSpec(U8, 4, 1, (2, 1, 0), Conversion.FLOORED),
    ColorSpec(U8, 3, 3, (2, 1, 0), Conversion.WEIGHTED),
    ColorSpec(F32, 3, 2, (0, 2), Conversion.WEIGHTED),
    ColorSpec(U8, 3, 3, (0, 1, 2), Conversion.COMPUTED, _floats(255)),
    ColorSpec(F32, 4, 3, (2, 1, 0), Conversion.COMPUTED, _floats(1)),
    ColorSpec(U8, 3, 2, (2, 0), Conversion.COMPUTED, _words()),
]


def _want(spec: ColorSpec, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if spec.how is Conversion.TAKEN:
        opaque = np.full(len(x), 255 if spec.dtype is U8 else 1)
        return np.stack([opaque if c == NEW else x[:, c] for c in spec.order], 1)
    channels = x[:, spec.order].astype(np.float64)
    if spec.body is not None:
        kind = spec.body.args[0].numpy
        found = np.stack(evaluate(spec.body, list(channels.astype(kind).T)), 1).astype(np.float64)
    else:
        found = channels @ weights[:, :-1].T + weights[:, -1]
        found = np.floor(found) if spec.how is Conversion.FLOORED else found
    return np.clip(np.rint(found), 0, 255) if spec.dtype is U8 else found


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.dtype.value} {s.inputs} {s.outputs} {s.how.value}")
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
        assert np.abs(out[:pixels] - want).max() <= (1e-4 if spec.dtype is F32 else 0)
        assert (out[pixels:] == 7).all()
