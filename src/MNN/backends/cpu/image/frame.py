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
    those at ``x_places`` of it, or of ``blank`` where the slot ``foreign`` is not 0; its pixels are all the same.

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
        # the blank's row ends with as many of its pixels as there are on the right
        behind = b.gep(blank, I8, inner - slot("right") * self.size)
        most = b.intrinsic("smax", slot("left"), slot("right")) * self.size + width
        uniform = b.and_(b.icmp("ne", slot("foreign"), 0), b.icmp("sle", most, inner))
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

                def one_by_one(out: Value = out, right: Value = right) -> None:
                    with b.loop(0, slot("left")) as each:
                        pick(each.index, b.gep(out, I8, each.index * self.size))
                    with b.loop(0, slot("right")) as each:
                        pick(slot("left") + each.index, b.gep(right, I8, each.index * self.size))

                def copy(at: Value, source: Value, to: Value) -> None:
                    b.store(b.load(I8.vec(width), b.gep(source, I8, at), 1), b.gep(to, I8, at), 1)

                def by_vectors(out: Value = out, right: Value = right) -> None:
                    with b.loop(0, slot("left") * self.size, width) as each:
                        copy(each.index, blank, out)
                    with b.loop(0, slot("right") * self.size, width) as each:
                        copy(b.index_sub(slot("right") * self.size, each.index + width), behind, right)

                def remaining(source: Value = source, middle: Value = middle) -> None:
                    with b.loop(b.and_(inner, -width), inner) as each:
                        b.store(b.load(I8, b.gep(source, I8, each.index)), b.gep(middle, I8, each.index))

                def last(source: Value = source, middle: Value = middle) -> None:
                    copy(inner - width, source, middle)

                # vectors of the sides reach into the middle, which comes after them
                b.choose(uniform, by_vectors, one_by_one)
                with b.loop(0, b.and_(inner, -width), width) as each:
                    copy(each.index, source, middle)
                b.choose(b.icmp("slt", inner, width), remaining, last)
        return k.finish()


__all__ = ["FrameSpec"]
