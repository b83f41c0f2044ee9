"""Functions of one byte, by a table of all 256 results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import load, make_tail, store
from MNN.backends.cpu.lang.module import I8, I64, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

ENTRIES = 256
_AT_ONCE = 8
"""Bytes in a turn of the loop where they are looked up one by one."""
_PARTS_AT_ONCE = 32
"""Bytes of a vector where entries are picked among 16."""
_VECTORS = 4
"""Vectors in a turn of that loop, which share what is loaded of the table."""
Loop = Callable[[Value, Value, Value], None]
"""Looks up bytes: from where, to where, how many."""


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
        loop = self._of_halves(k, table) if target.has_instruction(can.PICK_BYTES) else None
        if loop is None and target.has_instruction(can.PICK_WITHIN, 8 * _PARTS_AT_ONCE):
            loop = self._of_sixteens(k, table)

        def one_by_one(source: Value, to: Value, count: Value) -> None:
            _each(b, table, source, to, b.const(I64, 0), count)

        def row(pointers: list[Value], part: Value | None) -> None:
            assert part is not None
            start = part * chunk
            count = minimum(k, chunk, inner - start)
            source, to = (b.gep(p, I8, start) for p in pointers)
            (loop or one_by_one)(source, to, count)

        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        for_rows(k, outer, (inner + (chunk - 1)) // chunk, self.operands(), row)
        return k.finish()

    def _of_halves(self, k: Kernel, table: Value) -> Loop:
        """64 bytes at once: seven bits choose among 128 entries, the last one between both halves."""
        b = k.b
        quarters = [b.load(I8.vec(64), b.gep(table, I8, 64 * i)) for i in range(4)]

        def looked_up(x: Value) -> Value:
            low, high = (b.perform(can.PICK_BYTES, x.type, quarters[i], x, quarters[i + 1]) for i in (0, 2))
            return b.select(b.icmp("slt", x, 0), high, low)

        def loop(source: Value, to: Value, count: Value) -> None:
            whole = b.and_(count, -64)
            with b.loop(0, whole, 64) as each:
                x = load(b, DType.U8, b.gep(source, I8, each.index), 64)
                store(b, DType.U8, looked_up(x), b.gep(to, I8, each.index))

            def rest() -> None:
                tail = make_tail(b, count - whole, 64)
                x = load(b, DType.U8, b.gep(source, I8, whole), 64, None, tail)
                store(b, DType.U8, looked_up(x), b.gep(to, I8, whole), None, tail)

            b.if_(b.icmp("sgt", count, whole), rest)

        return loop

    def _of_sixteens(self, k: Kernel, table: Value) -> Loop:
        """Instructions that pick among 16 entries give zeros by negative indices. Of each half of the table, all parts
        up to the one that a byte falls into are picked from, since the byte less 16 times their number is not negative:
        where every part but the first holds what it differs by from the one before, these combine to the entry."""
        b, n = k.b, _PARTS_AT_ONCE
        parts = [b.load(I8.vec(16), b.gep(table, I8, 16 * i)) for i in range(16)]
        steps = [part if i % 8 == 0 else b.xor(part, parts[i - 1]) for i, part in enumerate(parts)]
        wide = [b.shuffle(step, None, list(range(16)) * (n // 16)) for step in steps]

        def looked_up(xs: list[Value]) -> list[Value]:
            found: list[Value] = [b.const(x.type, 0) for x in xs]
            for half in (0, 8):
                index = [b.xor(x, -128) for x in xs] if half else xs
                for step in wide[half : half + 8]:
                    found = [
                        b.xor(f, b.perform(can.PICK_WITHIN, f.type, step, i)) for f, i in zip(found, index, strict=True)
                    ]
                    index = [b.intrinsic("ssub.sat", i, b.const(i.type, 16)) for i in index]
            return found

        def loop(source: Value, to: Value, count: Value) -> None:
            first: Value = b.const(I64, 0)
            for vectors in (_VECTORS, 1):
                end = b.and_(count, -vectors * n)
                with b.loop(first, end, vectors * n) as each:
                    places = [each.index + n * i for i in range(vectors)]
                    xs = [load(b, DType.U8, b.gep(source, I8, at), n) for at in places]
                    for at, value in zip(places, looked_up(xs), strict=True):
                        store(b, DType.U8, value, b.gep(to, I8, at))
                first = end
            _each(b, table, source, to, first, count)

        return loop


def _each(b: Builder, table: Value, source: Value, to: Value, start: Value, count: Value) -> None:
    """Bytes from ``start`` to ``count`` one by one."""
    whole = start + b.and_(count - start, -_AT_ONCE)
    first = start
    for end, step in ((whole, _AT_ONCE), (count, 1)):
        with b.loop(first, end, step) as each:
            places = [b.load(I8, b.gep(source, I8, each.index + i)) for i in range(step)]
            found = [b.load(I8, b.gep(table, I8, b.convert("zext", x, I64))) for x in places]
            for i, value in enumerate(found):
                b.store(value, b.gep(to, I8, each.index + i))
        first = end


__all__ = ["ENTRIES", "LookupSpec"]
