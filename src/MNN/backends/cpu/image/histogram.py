"""How many pixels of a picture have each value, of one channel or of several together."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F64, I8, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

COPIES = 4
"""Counts are kept so often, so that equal neighbours do not wait for each other."""
NOWHERE = 1 << 24
"""A place that is no bin, more than all of them together are."""


@dataclass(frozen=True)
class HistogramSpec(KernelSpec):
    """Counts pixels by ``channels`` of type ``dtype`` (u8 or f32), where bytes of a mask are not 0 if it is ``masked``.

    Slots: ``width``, ``height``, ``counts`` (i32, ``bins`` and one more for what is in none, :data:`COPIES` times
    ``spread`` apart), and for each channel ``img``, ``row`` and ``step`` (bytes to the next row and pixel); for bytes a
    ``table`` (i32) of what each adds to the place of its bin; for f32 ``low`` and ``high``, ``scale`` (bins in 1) and
    ``shift`` (the place of 0; all f64), ``size`` (bins) and ``stride`` (from bin to bin). ``mask`` and ``mask_row`` are
    bytes.
    """

    channels: int
    dtype: DType
    masked: bool

    def slots(self) -> tuple[str, ...]:
        names = ("img", "row", "step", *(("table",) if self.dtype is DType.U8 else _NUMBERS))
        each = tuple(f"{name}{i}" for i in range(self.channels) for name in names)
        return ("width", "height", "counts", "bins", "spread", "mask", "mask_row", *each)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, bins = k.b, k.slot("bins")

        def count() -> None:
            with b.loop(0, k.slot("height")) as row:
                y = row.index
                rows = [b.gep(k.pointer(f"img{i}"), I8, y * k.slot(f"row{i}")) for i in range(self.channels)]
                mask = b.gep(k.pointer("mask"), I8, y * k.slot("mask_row")) if self.masked else None
                with b.loop(0, k.slot("width"), unroll=COPIES) as each:
                    place = minimum(k, self._place(k, rows, each.index), bins)
                    if mask is not None:
                        kept = b.icmp("ne", b.load(I8, b.gep(mask, I8, each.index)), 0)
                        place = b.select(kept, place, bins)
                    place = place + b.and_(each.index, COPIES - 1) * k.slot("spread")
                    counter = b.gep(k.pointer("counts"), I32, place)
                    b.store(b.add(b.load(I32, counter), 1), counter)

        b.if_(b.icmp("slt", k.begin, k.end), count)
        return k.finish()

    def _place(self, k: Kernel, rows: list[Value], x: Value) -> Value:
        """The sum of what the channels add: at least :data:`NOWHERE` if one is in no bin."""
        b, total = k.b, k.b.const(I64, 0)
        for i, row in enumerate(rows):
            value = b.load(storage_type(self.dtype), b.gep(row, I8, x * k.slot(f"step{i}")), 1)
            if self.dtype is DType.U8:
                total = total + b.entry(k.pointer(f"table{i}"), b.convert("zext", value, I64))
                continue
            wide = b.convert("fpext", value, F64)
            low, high, scale, shift = (k.slot(f"{name}{i}", F64) for name in _NUMBERS[:4])
            exact = b.add(b.mul(wide, scale), shift)
            inside = b.and_(b.fcmp("oge", wide, low), b.fcmp("olt", wide, high))
            inside = b.and_(inside, b.fcmp("oge", exact, b.const(F64, 0.0)))
            near = b.select(inside, b.convert("fptosi", exact, I64), b.const(I64, NOWHERE))
            there = b.icmp("slt", near, k.slot(f"size{i}"))
            total = total + b.select(there, near * k.slot(f"stride{i}"), b.const(I64, NOWHERE))
        return total


@dataclass(frozen=True)
class LevelSpec(KernelSpec):
    """Counts the bytes of one channel, where those of a mask are not 0 if it is ``masked``.

    Slots: ``width``, ``height``, ``img``, ``row`` and ``step`` (bytes to the next row and pixel), ``mask``,
    ``mask_row`` and ``counts`` (i32: :data:`COPIES` times 256)."""

    masked: bool

    def slots(self) -> tuple[str, ...]:
        return ("width", "height", "img", "row", "step", "mask", "mask_row", "counts")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, width, step = k.b, k.slot("width"), k.slot("step")

        def count() -> None:
            with b.loop(0, k.slot("height")) as row:
                first = b.gep(k.pointer("img"), I8, row.index * k.slot("row"))
                mask = b.gep(k.pointer("mask"), I8, row.index * k.slot("mask_row"))

                def pixels(x: Value, place: Value, number: int, mask: Value = mask) -> Value:
                    for i in range(number):
                        level = b.convert("zext", b.load(I8, place), I64)
                        one = b.const(I32, 1)
                        if self.masked:
                            one = b.convert("zext", b.icmp("ne", b.load(I8, b.gep(mask, I8, x + i)), 0), I32)
                        counter = b.gep(b.gep(k.pointer("counts"), I32, 256 * i), I32, level)
                        b.store(b.add(b.load(I32, counter), one), counter)
                        place = b.gep(place, I8, step)
                    return place

                many = b.and_(width, -COPIES)
                with b.loop(0, many, COPIES, carry=(first,)) as each:
                    each.next(pixels(each.index, each.carried[0], COPIES))
                with b.loop(many, width, carry=(each.results[0],)) as each:
                    each.next(pixels(each.index, each.carried[0], 1))

        b.if_(b.icmp("slt", k.begin, k.end), count)
        return k.finish()


_NUMBERS = ("low", "high", "scale", "shift", "size", "stride")
__all__ = ["COPIES", "NOWHERE", "HistogramSpec", "LevelSpec"]
