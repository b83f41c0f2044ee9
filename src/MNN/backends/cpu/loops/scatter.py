"""Scattering through index tensors, in the order of the updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import Tail, lanes_for, load, make_tail, store
from MNN.backends.cpu.lang.indexing import Indices
from MNN.backends.cpu.lang.module import I1, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows
from MNN.backends.cpu.math.scalar_code import apply
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

OPS = ("set", "add", "mul", "max", "min")


@dataclass(frozen=True)
class ScatterSpec(KernelSpec):
    """``data[sum_d o_d * data_s{d} + sum_j wrap(idx_j[o]) * scale{j}] op= updates[o]``, o in row-major order.

    ``op`` is set, add, mul, max or min. Indices and ``error`` are as in
    :class:`~MNN.backends.cpu.loops.gather.GatherSpec`; ``data`` (the part that the coordinates address), ``indices``
    and ``updates`` are innermost classes "0", "1", "s".

    Slots: ``extent0..``, ``error``; ``data``, ``idx{j}``, ``updates``, each with its strides ``_s{d}`` of the outer
    dimensions and of the innermost for class "s"; ``size{j}``, ``scale{j}``. One block does everything.
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    op: str
    index_dtypes: tuple[DType, ...]
    rank: int
    data: str
    indices: tuple[str, ...]
    updates: str

    def parts(self) -> tuple[Operand, Indices, Operand]:
        return (
            Operand("data", self.dtype, self.data),
            Indices(self.index_dtypes, self.indices),
            Operand("updates", self.dtype, self.updates),
        )

    def slots(self) -> tuple[str, ...]:
        data, indices, updates = self.parts()
        names = [f"extent{d}" for d in range(self.rank)] + ["error"]
        for operand in (data, *indices.operands(), updates):
            names += operand.slots(self.rank - 1, self.rank - 1)
        return (*names, *indices.slots())

    def traffic(self, args: Arguments) -> dict[str, int]:
        """Of the data what the updates replace (not the copy before it, a command of its own)."""
        outer = [number(args, f"extent{d}") for d in range(self.rank - 1)]
        inner = number(args, f"extent{self.rank - 1}")
        data, indices, updates = self.parts()
        found = {o.name: operand_bytes(o, args, outer, inner) for o in (*indices.operands(), updates)}
        return found | {data.name: found[updates.name]}

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        data, indices, updates = self.parts()
        # Along a row with constant indices and contiguous data no element is met twice: vectors keep the order.
        wide = indices.per_row and self.data == "1"
        lanes = lanes_for(target.vector_bytes, [self.dtype]) if wide else 1

        def row(pointers: list[Value], number: Value | None) -> None:
            del number
            _row(k, self, pointers, lanes)

        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        rows: Value = b.const(I64, 1)
        for extent in outer:
            rows = rows * extent
        here = b.icmp("slt", k.begin, k.end)
        everything = (b.const(I64, 0), b.select(here, rows, b.const(I64, 0)))
        for_rows(k, outer, None, [data, *indices.operands(), updates], row, everything)
        return k.finish()


def _row(k: Kernel, spec: ScatterSpec, pointers: list[Value], lanes: int) -> None:
    b = k.b
    data, indices, updates = spec.parts()
    inner_dim = spec.rank - 1
    count = k.slot(f"extent{inner_dim}")
    offset, row_bad = indices.offset(k, pointers[1:-1], 0, inner_dim, "0")
    indices.report(k, row_bad)
    target = data.move(k, pointers[0], offset)
    steps = [data.inner_stride(k, inner_dim), updates.inner_stride(k, inner_dim)]

    def put(at: Value, bad: Value, n: int, tail: Tail | None = None) -> Value:
        place = target
        if data.inner != "0":
            place = data.move(k, place, at, steps[0])
        moved, outside = indices.offset(k, pointers[1:-1], at, inner_dim, "1s")
        place = data.move(k, place, moved)
        if updates.inner == "0":
            value = b.splat(load(b, updates.dtype, pointers[-1], 1), n)
        else:
            value = load(b, updates.dtype, updates.move(k, pointers[-1], at, steps[1]), n, steps[1], tail)
        if spec.op != "set":
            old = load(b, data.dtype, place, n, None, tail)
            value = apply(b, Instr(spec.op, (), spec.dtype), [old, value], spec.dtype)
        store(b, data.dtype, value, place, None, tail)
        return bad if outside.number is not None else b.or_(bad, outside)

    none = b.const(I1, 0)
    whole = count - count % lanes if lanes > 1 else count
    with b.loop(0, whole, lanes, carry=[none]) as main:
        main.next(put(main.index, main.carried[0], lanes))
    if lanes > 1:
        b.if_(b.icmp("slt", whole, count), lambda: put(whole, none, lanes, make_tail(b, count - whole, lanes)))
    elif not indices.per_row:
        indices.report(k, main.results[0])
