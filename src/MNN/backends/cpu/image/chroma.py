"""Pictures whose chroma is shared by two pixels of a row, or four of two rows: to and from red, green and blue.

ITU-R BT.601 with luminance from 16 to 235, in fixed point of 20 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.color import NEW, put_pixels
from MNN.backends.cpu.image.numbers import limited, widened
from MNN.backends.cpu.lang.module import I8, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

SHIFT = 20
"""Bits behind the point."""
DARK, MIDDLE = 16, 128
"""Luminance of black, and chroma of grey."""
LUMA = 1220542
FROM_CHROMA = ((0, 1673527), (-409993, -852492), (2116026, 0))
"""What luminance above black, and u and v, add to red, green and blue."""
TO_YUV = ((269484, 528482, 102760), (-155188, -305135, 460324), (460324, -385875, -74448))
"""Red, green and blue to luminance, u and v."""
_LANES = 16
"""Pixels at a time."""


@dataclass(frozen=True)
class FromChromaSpec(KernelSpec):
    """Red, green and blue of luminance and of chroma at half the width, in the order that ``order`` says (0, 1, 2;
    ``NEW`` is an opaque alpha); u8.

    ``luma``: the first byte of luminance and how many from one to the next. ``chroma``: the same of u and v in one
    memory, (u, v, step); a step of 1 means planes of their own.

    Slots: ``luma``, ``luma_row`` (bytes from one row to the next), ``u``, ``v`` (with a step of 1), ``chroma_row``,
    ``shift`` (1 where two rows share chroma, else 0), ``out``, ``out_row``, ``width`` (even), ``height``, ``band``
    (rows of a block).
    """

    shaped: ClassVar[bool] = True

    luma: tuple[int, int]
    chroma: tuple[int, int, int]
    order: tuple[int, ...]

    def slots(self) -> tuple[str, ...]:
        return (
            "luma", "luma_row", "u", "v", "chroma_row", "shift", "out", "out_row", "width", "height", "band",
        )  # fmt: skip

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        planes = self.chroma[2] == 1
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                luma = b.gep(k.pointer("luma"), I8, row.index * slot("luma_row"))
                apart = b.ashr(row.index, slot("shift")) * slot("chroma_row")
                chroma = [b.gep(k.pointer(name), I8, apart) for name in ("u", "v")[: 1 + planes]]
                out = b.gep(k.pointer("out"), I8, row.index * slot("out_row"))
                for first, last, lanes in _spans(b, slot("width")):
                    with b.loop(first, last, lanes) as each:
                        x = each.index
                        self._several(b, x, lanes, luma, chroma, b.gep(out, I8, x * len(self.order)))
        return k.finish()

    def _several(self, b: Builder, x: Value, lanes: int, luma: Value, chroma: Sequence[Value], out: Value) -> None:
        first, step = self.luma
        y = _picked(b, b.gep(luma, I8, x * step), first, step, lanes)
        y = b.mul(b.intrinsic("smax", b.sub(y, DARK), b.const(y.type, 0)), LUMA)
        y = b.add(y, 1 << (SHIFT - 1))
        *places, step = self.chroma
        half = b.ashr(x, 1) * step
        both = [b.gep(pointer, I8, half) for pointer in chroma]
        u, v = (
            b.sub(_picked(b, both[i % len(both)], place, step, lanes // 2), MIDDLE) for i, place in enumerate(places)
        )
        twice = [i // 2 for i in range(lanes)]
        found = []
        for of_u, of_v in FROM_CHROMA:
            parts = [b.mul(value, weight) for value, weight in ((u, of_u), (v, of_v)) if weight]
            share = b.add(*parts) if len(parts) == 2 else parts[0]
            share = b.shuffle(share, None, twice) if lanes > 2 else b.splat(share, 2)
            found.append(limited(b, b.ashr(b.add(y, share), SHIFT), DType.I32, DType.U8))
        put_pixels(b, [b.const(I8.vec(lanes), 255) if c == NEW else found[c] for c in self.order], out)


@dataclass(frozen=True)
class ToChromaSpec(KernelSpec):
    """Planes of luminance, u and v of pixels of u8, ``order`` saying which of their ``inputs`` channels are red, green
    and blue: chroma is that of the upper left one of four pixels.

    Slots: ``src``, ``src_row`` (bytes from one row to the next), ``luma``, ``u``, ``v`` (without gaps between rows),
    ``width`` (even), ``pairs`` (of rows), ``band`` (pairs of a block).
    """

    shaped: ClassVar[bool] = True

    inputs: int
    order: tuple[int, int, int]

    def slots(self) -> tuple[str, ...]:
        return ("src", "src_row", "luma", "u", "v", "width", "pairs", "band")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        width = slot("width")
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("pairs"), start + slot("band"))) as pair:
                chroma = [b.gep(k.pointer(name), I8, b.ashr(pair.index * width, 1)) for name in ("u", "v")]
                for below in (0, 1):
                    row = pair.index * 2 + below
                    source = b.gep(k.pointer("src"), I8, row * slot("src_row"))
                    luma = b.gep(k.pointer("luma"), I8, row * width)
                    for first, last, lanes in _spans(b, width):
                        with b.loop(first, last, lanes) as each:
                            x = each.index
                            pixels = b.load(I8.vec(lanes * self.inputs), b.gep(source, I8, x * self.inputs))
                            b.store(self._sum(b, pixels, lanes, 1, 0, DARK), b.gep(luma, I8, x))
                            for i, plane in enumerate(chroma if not below else [], 1):
                                found = self._sum(b, pixels, lanes, 2, i, MIDDLE)
                                b.store(found, b.gep(plane, I8, b.ashr(x, 1)))
        return k.finish()

    def _sum(self, b: Builder, pixels: Value, lanes: int, step: int, number: int, offset: int) -> Value:
        """One of luminance, u and v of every ``step``-th pixel."""
        parts = []
        for c, weight in zip(self.order, TO_YUV[number], strict=True):
            places = range(c, lanes * self.inputs, step * self.inputs)
            own = b.shuffle(pixels, None, places) if len(places) > 1 else b.extract(pixels, c)
            parts.append(b.mul(widened(b, own, DType.U8, DType.I32), weight))
        total = b.add(b.add(b.add(*parts[:2]), parts[2]), (1 << (SHIFT - 1)) + (offset << SHIFT))
        return limited(b, b.ashr(total, SHIFT), DType.I32, DType.U8)


def _spans(b: Builder, width: Value) -> list[tuple[Value | int, Value, int]]:
    """A row as whole vectors of pixels, then pairs of them."""
    whole = b.and_(width, -_LANES)
    return [(0, whole, _LANES), (whole, width, 2)]


def _picked(b: Builder, pointer: Value, first: int, step: int, count: int) -> Value:
    """Every ``step``-th byte from the one at ``first`` on, as i32; what is read are whole steps."""
    raw = b.load(I8.vec(count * step), pointer)
    places = range(first, count * step, step)
    own = raw if step == 1 else b.shuffle(raw, None, places) if count > 1 else b.extract(raw, first)
    return widened(b, own, DType.U8, DType.I32)


__all__ = ["DARK", "FROM_CHROMA", "LUMA", "MIDDLE", "SHIFT", "TO_YUV", "FromChromaSpec", "ToChromaSpec"]
