"""The largest or smallest elements of rows, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.lang.element import load, storage_type
from MNN.backends.cpu.lang.module import I1, I32, I64, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

FLOATS = (DType.F32, DType.F16, DType.BF16)
INTEGERS = (DType.I32, DType.I64)
_LOWEST = -(1 << 40)
"""Below the keys of all numbers."""


@dataclass(frozen=True)
class TopKSpec(KernelSpec):
    """Of each row of ``n`` contiguous floats the ``k`` largest (or smallest) and where they are, in order; equals keep
    theirs, NaN counts as the largest.

    Elements go one by one into a sorted list of ``k``, which most of them do not enter: meant for few out of many.
    Slots: ``extent0..`` of the ``rank`` dimensions of rows, ``n``, ``k``; ``x``, ``values``, ``places``, each with its
    strides ``_s0..``. A block is a row.
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    places: DType
    rank: int
    largest: bool

    def operands(self) -> tuple[Operand, Operand, Operand]:
        return Operand("x", self.dtype, "1"), Operand("values", self.dtype, "1"), Operand("places", self.places, "1")

    def slots(self) -> tuple[str, ...]:
        names = [*(f"extent{d}" for d in range(self.rank)), "n", "k"]
        return (*names, *(slot for operand in self.operands() for slot in operand.slots(self.rank, None)))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """The list: keys i64, then places i64."""
        return 16 * args["k"]

    def traffic(self, args: Arguments) -> dict[str, int]:
        rows = 1
        for d in range(self.rank):
            rows *= number(args, f"extent{d}")
        each = rows * number(args, "k")
        return {
            "x": rows * number(args, "n") * self.dtype.size,
            "values": each * self.dtype.size,
            "places": each * self.places.size,
        }

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)

        def row(pointers: list[Value], chunk: Value | None) -> None:
            _row(k, self, pointers)

        for_rows(k, [k.slot(f"extent{d}") for d in range(self.rank)], None, self.operands(), row)
        return k.finish()


def _row(k: Kernel, spec: TopKSpec, pointers: list[Value]) -> None:
    b, count = k.b, k.slot("k")
    keys, places = k.scratch, b.gep(k.scratch, I64, count)
    x, values, results = spec.operands()
    with b.loop(0, count) as empty:
        b.store(b.const(I64, _LOWEST), b.gep(keys, I64, empty.index))
        b.store(b.const(I64, 0), b.gep(places, I64, empty.index))
    with b.loop(0, k.slot("n")) as each:
        key = _key(b, load(b, spec.dtype, x.move(k, pointers[0], each.index), 1), spec.largest)
        enters = b.icmp("sgt", key, b.load(I64, b.gep(keys, I64, count - 1)))
        b.if_(enters, lambda: _insert(b, (keys, places), count, key, each.index))
    with b.loop(0, count) as found:
        place = b.load(I64, b.gep(places, I64, found.index))
        raw = storage_type(spec.dtype)
        b.store(b.load(raw, x.move(k, pointers[0], place)), values.move(k, pointers[1], found.index))
        told = place if spec.places is DType.I64 else b.convert("trunc", place, I32)
        b.store(told, results.move(k, pointers[2], found.index))


def _key(b: Builder, x: Value, largest: bool) -> Value:
    """A whole number i64 that is larger for what comes first. Both zeros are equal, and so is all that is no number."""
    bits = b.bitcast(x, I32)
    bits = b.select(b.icmp("eq", bits, -(1 << 31)), b.const(I32, 0), bits)
    ordered = b.xor(bits, b.and_(b.ashr(bits, 31), 0x7FFFFFFF))
    ordered = b.select(b.fcmp("uno", x, x), b.const(I32, 0x7FFFFFFF), ordered)
    return b.convert("sext", ordered if largest else b.xor(ordered, -1), I64)


def _insert(b: Builder, lists: tuple[Value, Value], count: Value, key: Value, place: Value) -> None:
    """Puts a number before the first that is smaller, and moves all behind it on."""
    keys, places = lists
    with b.loop(0, count, carry=[key, place, b.const(I1, 0)]) as slot:
        here, there = b.gep(keys, I64, slot.index), b.gep(places, I64, slot.index)
        mine, at, moving = slot.carried
        held, held_at = b.load(I64, here), b.load(I64, there)
        moving = b.or_(moving, b.icmp("sgt", mine, held))
        b.store(b.select(moving, mine, held), here)
        b.store(b.select(moving, at, held_at), there)
        slot.next(b.select(moving, held, mine), b.select(moving, held_at, at), moving)


__all__ = ["FLOATS", "INTEGERS", "TopKSpec"]
