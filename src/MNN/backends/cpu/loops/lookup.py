"""Functions of one byte, by a table of all 256 results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import load, make_tail, store
from MNN.backends.cpu.lang.module import I8, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

ENTRIES = 256
_AT_ONCE = 8
"""Bytes in a turn of the loop where they are looked up one by one."""


@dataclass(frozen=True)
class LookupSpec(KernelSpec):
    """``out[i] = table[in[i]]`` for bytes over ``rank`` dimensions, contiguous along the innermost one.

    Slots: ``extent0..``, outermost first; ``chunk``, innermost elements per block; ``table``, 256 bytes; ``in0`` and
    ``out0`` with their strides ``_s{d}`` of the outer dimensions. Block index = outer linear index *
    ceil(inner / chunk) + chunk number. Both may be the same memory with the same strides.
    """

    shaped: ClassVar[bool] = True

    rank: int

    def operands(self) -> tuple[Operand, Operand]:
        return Operand("in0", DType.U8, "1"), Operand("out0", DType.U8, "1")

    def slots(self) -> tuple[str, ...]:
        names = [*(f"extent{d}" for d in range(self.rank)), "chunk", "table"]
        for operand in self.operands():
            names += operand.slots(self.rank - 1, None)
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        outer = [number(args, f"extent{d}") for d in range(self.rank - 1)]
        inner = number(args, f"extent{self.rank - 1}")
        return {o.name: operand_bytes(o, args, outer, inner) for o in self.operands()} | {"table": ENTRIES}

    def in_place(self, args: Arguments) -> overlay.Pairs:
        source, result = self.operands()
        return overlay.of_nest([source], [result], args, self.rank - 1)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, inner, chunk = k.b, k.slot(f"extent{self.rank - 1}"), k.slot("chunk")
        table = k.pointer("table")
        permutes = target.has_instruction(can.PICK_BYTES)
        quarters = [b.load(I8.vec(64), b.gep(table, I8, 64 * i)) for i in range(4)] if permutes else []

        def looked_up(x: Value) -> Value:
            """64 bytes at once: seven bits choose among 128 entries, the last one between both halves."""
            low, high = (b.perform(can.PICK_BYTES, x.type, quarters[i], x, quarters[i + 1]) for i in (0, 2))
            return b.select(b.icmp("slt", x, 0), high, low)

        def vectors(source: Value, to: Value, count: Value) -> None:
            whole = b.and_(count, -64)
            with b.loop(0, whole, 64) as each:
                x = load(b, DType.U8, b.gep(source, I8, each.index), 64)
                store(b, DType.U8, looked_up(x), b.gep(to, I8, each.index))

            def rest() -> None:
                tail = make_tail(b, count - whole, 64)
                x = load(b, DType.U8, b.gep(source, I8, whole), 64, None, tail)
                store(b, DType.U8, looked_up(x), b.gep(to, I8, whole), None, tail)

            b.if_(b.icmp("sgt", count, whole), rest)

        def one_by_one(source: Value, to: Value, count: Value) -> None:
            whole = b.and_(count, -_AT_ONCE)
            first: Value = b.const(I64, 0)
            for end, step in ((whole, _AT_ONCE), (count, 1)):
                with b.loop(first, end, step) as each:
                    places = [b.load(I8, b.gep(source, I8, each.index + i)) for i in range(step)]
                    found = [b.load(I8, b.gep(table, I8, b.convert("zext", x, I64))) for x in places]
                    for i, value in enumerate(found):
                        b.store(value, b.gep(to, I8, each.index + i))
                first = end

        def row(pointers: list[Value], part: Value | None) -> None:
            assert part is not None
            start = part * chunk
            count = minimum(k, chunk, inner - start)
            source, to = (b.gep(p, I8, start) for p in pointers)
            (vectors if permutes else one_by_one)(source, to, count)

        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        for_rows(k, outer, (inner + (chunk - 1)) // chunk, self.operands(), row)
        return k.finish()


__all__ = ["ENTRIES", "LookupSpec"]
