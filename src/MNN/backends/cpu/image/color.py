"""Colours: every pixel of a result from the channels of the same pixel of a picture."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.numbers import limited, rounded, widened
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.math.scalar_code import emit_body
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

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
    COMPUTED = "computed"
    """What a scalar program makes of them, in f32 or in i32."""


@dataclass(frozen=True)
class ColorSpec(KernelSpec):
    """Pixels of type ``dtype`` (u8, or f32 from 0 to 1), ``order[c]`` of whose channels is what the conversion calls
    channel c. With ``TAKEN``, the result has the channels ``order``; ``NEW`` among them is an opaque alpha.

    ``body``, with ``COMPUTED``: from the channels, all of them f32 or i32, to those of the result, rounded where they
    are f32 and bytes are wanted.

    Slots: ``src``, ``out``, ``pixels``, ``band`` (pixels of a block), ``weights`` (f32; for each channel of the result
    the weight of each in ``order``, then an offset).
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    inputs: int
    outputs: int
    order: tuple[int, ...]
    how: Conversion
    body: Body | None = None

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
        kind = self.body.args[0] if self.body is not None else DType.F32
        channels = []
        for c in self.order:
            own = b.shuffle(x, None, range(c, lanes * self.inputs, self.inputs)) if x.type.lanes > 1 else x
            channels.append(widened(b, own, self.dtype, kind))
        found = emit_body(b, self.body, channels, lanes) if self.body is not None else self._weighted(k, channels)
        finish = rounded if kind is DType.F32 else lambda b, v, to: limited(b, v, DType.I32, to)
        put_pixels(b, [finish(b, v, self.dtype) for v in found], out)

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
