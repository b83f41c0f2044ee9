"""Pictures with a frame of their own pixels, or of one pixel, around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.lines import move
from MNN.backends.cpu.lang.module import I8, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target


@dataclass(frozen=True)
class FrameSpec(KernelSpec):
    """Rows of the source, or of ``blank`` where ``y_places`` is below 0, with pixels of ``size`` bytes to both sides:
    those at ``x_places`` of the row, or of ``blank`` where the slot ``foreign`` is not 0.

    Slots: ``src``, ``src_row`` (bytes of a row), ``blank``, ``foreign``, ``out``, ``left``, ``right`` (pixels),
    ``height`` (of the result), ``band`` (rows of a block), ``y_places`` (i32) and ``x_places`` (i32, in bytes; first
    those of the left).
    """

    shaped: ClassVar[bool] = True

    size: int

    def slots(self) -> tuple[str, ...]:
        return (
            "src", "src_row", "blank", "foreign", "out", "left", "right", "height", "band", "y_places", "x_places",
        )  # fmt: skip

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        width = target.vector_bytes
        blank, inner = k.pointer("blank"), slot("src_row")
        sides = slot("left") + slot("right")
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                place = b.entry(k.pointer("y_places"), row.index)
                source = b.select(b.icmp("slt", place, 0), blank, b.gep(k.pointer("src"), I8, place * inner))
                side = b.select(b.icmp("ne", slot("foreign"), 0), blank, source)
                out = b.gep(k.pointer("out"), I8, row.index * (inner + sides * self.size))
                middle = b.gep(out, I8, slot("left") * self.size)
                right = b.gep(middle, I8, inner)

                def pick(x: Value, to: Value, side: Value = side) -> None:
                    move(b, self.size, b.gep(side, I8, b.entry(k.pointer("x_places"), x)), to)

                with b.loop(0, slot("left")) as each:
                    pick(each.index, b.gep(out, I8, each.index * self.size))
                whole = b.and_(inner, -width)
                with b.loop(0, whole, width) as each:
                    v = b.load(I8.vec(width), b.gep(source, I8, each.index), 1)
                    b.store(v, b.gep(middle, I8, each.index), 1)
                with b.loop(whole, inner) as each:
                    b.store(b.load(I8, b.gep(source, I8, each.index)), b.gep(middle, I8, each.index))
                with b.loop(0, slot("right")) as each:
                    pick(slot("left") + each.index, b.gep(right, I8, each.index * self.size))
        return k.finish()


__all__ = ["FrameSpec"]
