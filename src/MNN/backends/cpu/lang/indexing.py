"""What gathers and scatters share: index operands, wrapping and checking of indices, error reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.element import Tail, load, storage_type
from MNN.backends.cpu.lang.module import I1, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand
from MNN.ir.dtype import DType

RAW = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
"""The dtype that moves elements of this size without looking at them."""


@dataclass(frozen=True)
class Indices:
    """The index operands ``idx{j}`` with their slots ``size{j}`` (extent) and ``scale{j}`` (stride in the data)."""

    dtypes: tuple[DType, ...]
    classes: tuple[str, ...]

    def operands(self) -> list[Operand]:
        pairs = zip(self.dtypes, self.classes, strict=True)
        return [Operand(f"idx{j}", d, c) for j, (d, c) in enumerate(pairs)]

    def slots(self) -> tuple[str, ...]:
        return tuple(name for j in range(len(self.dtypes)) for name in (f"size{j}", f"scale{j}"))

    @property
    def per_row(self) -> bool:
        """Whether every index is the same along a row."""
        return all(c == "0" for c in self.classes)

    def offset(
        self, k: Kernel, pointers: Sequence[Value], at: Value | int, inner_dim: int, which: str
    ) -> tuple[Value, Value]:
        """(offset in data, i1 whether any index is out of range) from the indices of class in ``which``, element at."""
        b = k.b
        total: Value = b.const(I64, 0)
        bad: Value = b.const(I1, 0)
        for j, operand in enumerate(self.operands()):
            if operand.inner not in which:
                continue
            place = pointers[j]
            if operand.inner != "0":
                place = operand.move(k, place, at, operand.inner_stride(k, inner_dim))
            raw = b.load(storage_type(operand.dtype), place)
            wide = b.convert("sext" if operand.dtype.is_signed else "zext", raw, I64)
            size = k.slot(f"size{j}")
            if operand.dtype.is_signed:
                wide = b.select(b.icmp("slt", wide, 0), b.add(wide, size), wide)
            out = b.icmp("uge", wide, size)
            bad = b.or_(bad, out) if bad.number is None else out
            total = total + b.select(out, 0, wide) * k.slot(f"scale{j}")
        return total, bad

    def offsets(
        self, k: Kernel, pointers: Sequence[Value], at: Value, inner_dim: int, lanes: int, tail: Tail | None
    ) -> tuple[Value, Value]:
        """As :meth:`offset`, for ``lanes`` elements from ``at`` on and the indices that change along a row: vectors of
        i32 and i1. Offsets must fit into 31 bits."""
        b = k.b
        total, bad = b.const(I32.vec(lanes), 0), b.const(I1.vec(lanes), 0)
        for j, operand in enumerate(self.operands()):
            if operand.inner == "0":
                continue
            stride = operand.inner_stride(k, inner_dim)
            found = load(b, operand.dtype, operand.move(k, pointers[j], at, stride), lanes, stride, tail)
            size = b.splat(b.convert("trunc", k.slot(f"size{j}"), I32), lanes)
            if operand.dtype.size == 8:  # what 32 bits do not hold is out of range
                wide = b.splat(k.slot(f"size{j}"), lanes)
                found = b.select(b.icmp("slt", found, 0), b.add(found, wide), found)
                out = b.icmp("uge", found, wide)
                found = b.convert("trunc", found, I32.vec(lanes))
            else:
                found = b.select(b.icmp("slt", found, 0), b.add(found, size), found)
                out = b.icmp("uge", found, size)
            bad = b.or_(bad, out)
            scale = b.splat(b.convert("trunc", k.slot(f"scale{j}"), I32), lanes)
            total = b.add(total, b.mul(b.select(out, b.const(I32.vec(lanes), 0), found), scale))
        return total, bad

    def report(self, k: Kernel, bad: Value) -> None:
        """Stores 1 in the i64 at slot ``error`` where an index was out of range."""
        if bad.number is None:
            b = k.b
            b.if_(bad, lambda: b.store(b.const(I64, 1), k.pointer("error")))
