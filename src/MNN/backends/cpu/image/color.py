"""Colours: every pixel of a result from the channels of the same pixel of a picture."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.numbers import rounded, widened
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LANES = 16
"""Pixels at a time."""
NEW = -1
"""In place of a channel of the picture: an opaque alpha."""


class Conversion(enum.Enum):
    """How channels become others, in f32."""

    TAKEN = "taken"
    """They are channels of the picture."""
    WEIGHTED = "weighted"
    """Sums of channels times weights, and an offset; rounded to the nearest, halves to the even one."""
    FLOORED = "floored"
    """The same, rounded down."""
    HSV = "hsv"
    """Hue, saturation and value (Smith, 1978) of red, green and blue."""


@dataclass(frozen=True)
class ColorSpec(KernelSpec):
    """Pixels of type ``dtype`` (u8, or f32 from 0 to 1), ``order[c]`` of whose channels is what the conversion calls
    channel c. With ``TAKEN``, the result has the channels ``order``; ``NEW`` among them is an opaque alpha.

    ``hues``, of u8: how many there are in a circle, which f32 have in degrees.

    Slots: ``src``, ``out``, ``pixels``, ``band`` (pixels of a block), ``weights`` (f32; for each channel of the result
    the weight of each in ``order``, then an offset).
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    inputs: int
    outputs: int
    order: tuple[int, ...]
    how: Conversion
    hues: int = 0

    def slots(self) -> tuple[str, ...]:
        return ("src", "out", "pixels", "band", "weights")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        element = storage_type(self.dtype)
        with b.loop(k.begin, k.end) as block:
            start = block.index * k.slot("band")
            end = minimum(k, k.slot("pixels"), start + k.slot("band"))
            whole = start + b.and_(end - start, -_LANES)
            for first, last, lanes in ((start, whole, _LANES), (whole, end, 1)):
                with b.loop(first, last, lanes) as each:
                    source = b.gep(k.pointer("src"), element, each.index * self.inputs)
                    self._several(k, source, b.gep(k.pointer("out"), element, each.index * self.outputs), lanes)
        return k.finish()

    def _several(self, k: Kernel, source: Value, out: Value, lanes: int) -> None:
        b = k.b
        x = b.load(storage_type(self.dtype, lanes * self.inputs), source)
        if self.how is Conversion.TAKEN:
            opaque = b.const(x.type, 255 if self.dtype is DType.U8 else 1.0)
            places = [
                lanes * self.inputs if c == NEW else pixel * self.inputs + c
                for pixel in range(lanes)
                for c in self.order
            ]
            if x.type.lanes == 1:
                values = [x if c != NEW else opaque for c in self.order]
                put_pixels(b, values, out)
            else:
                b.store(b.shuffle(x, opaque, places), out)
            return
        channels = []
        for c in self.order:
            own = b.shuffle(x, None, range(c, lanes * self.inputs, self.inputs)) if x.type.lanes > 1 else x
            channels.append(widened(b, own, self.dtype, DType.F32))
        found = _hsv(b, channels, self.hues) if self.how is Conversion.HSV else self._weighted(k, channels)
        put_pixels(b, [rounded(b, v, self.dtype) for v in found], out)

    def _weighted(self, k: Kernel, channels: list[Value]) -> list[Value]:
        b, lanes = k.b, channels[0].type.lanes
        each = len(channels) + 1

        def number(place: int) -> Value:
            return b.splat(b.load(F32, b.gep(k.pointer("weights"), F32, place)), lanes)

        found = []
        for c in range(self.outputs):
            total = number(c * each + len(channels))
            for i, channel in enumerate(channels):
                total = b.fma(channel, number(c * each + i), total)
            found.append(b.intrinsic("floor", total) if self.how is Conversion.FLOORED else total)
        return found


def _hsv(b: Builder, channels: list[Value], hues: int) -> list[Value]:
    red, green, blue = channels
    t = red.type

    def larger(x: Value, y: Value) -> Value:
        return b.select(b.fcmp("ogt", x, y), x, y)

    def smaller(x: Value, y: Value) -> Value:
        return b.select(b.fcmp("olt", x, y), x, y)

    value = larger(larger(red, green), blue)
    spread = b.sub(value, smaller(smaller(red, green), blue))
    gray = b.fcmp("oeq", spread, 0.0)
    safe = b.select(gray, 1.0, spread)
    of_green = b.add(b.fdiv(b.sub(blue, red), safe), 2.0)
    of_blue = b.add(b.fdiv(b.sub(red, green), safe), 4.0)
    hue = b.select(b.fcmp("oeq", value, green), of_green, of_blue)
    hue = b.select(b.fcmp("oeq", value, red), b.fdiv(b.sub(green, blue), safe), hue)
    hue = b.select(gray, 0.0, hue)
    hue = b.select(b.fcmp("olt", hue, 0.0), b.add(hue, 6.0), hue)
    none = b.fcmp("oeq", value, 0.0)
    saturation = b.select(none, 0.0, b.fdiv(spread, b.select(none, 1.0, value)))
    if not hues:
        return [b.mul(hue, 60.0), saturation, value]
    steps = b.intrinsic("rint", b.mul(hue, b.const(t, hues / 6)))
    steps = b.select(b.fcmp("oge", steps, float(hues)), b.sub(steps, float(hues)), steps)
    return [steps, b.mul(saturation, 255.0), value]


def put_pixels(b: Builder, channels: list[Value], out: Value) -> None:
    """Pixels of these channels, beside each other."""
    lanes, element = channels[0].type.lanes, channels[0].type.element
    if lanes == 1:
        for c, value in enumerate(channels):
            b.store(value, b.gep(out, element, c))
        return
    if len(channels) == 1:
        b.store(channels[0], out)
        return
    parts = [*channels, *([channels[0]] if len(channels) == 3 else [])]
    pairs = [b.shuffle(parts[i], parts[i + 1], range(2 * lanes)) for i in range(0, len(parts), 2)]
    places = [c * lanes + pixel for pixel in range(lanes) for c in range(len(channels))]
    b.store(b.shuffle(pairs[0], pairs[1] if len(pairs) > 1 else None, places), out)


__all__ = ["NEW", "ColorSpec", "Conversion", "put_pixels"]
