"""Functions of 16-bit numbers, by tables of all their values."""

from __future__ import annotations

from MNN.backends.cpu.lang.module import I16, I32, I64, Builder, Value
from MNN.ir.scalar import ENTRIES


def looked_up(b: Builder, table: Value, x: Value) -> Value:
    """What a table (i16[65536], from that of -2^15 on) has for the lowest 16 bits of numbers of i32, as i32."""
    entries = b.and_(b.add(x, ENTRIES // 2), ENTRIES - 1)
    lanes = x.type.lanes
    if lanes == 1:
        return b.convert("sext", b.load(I16, b.gep(table, I16, b.convert("zext", entries, I64))), I32)
    found = b.const(I16.vec(lanes), 0)
    for lane in range(lanes):
        at = b.convert("zext", b.extract(entries, lane), I64)
        found = b.insert(found, b.load(I16, b.gep(table, I16, at)), lane)
    return b.convert("sext", found, I32.vec(lanes))


__all__ = ["looked_up"]
