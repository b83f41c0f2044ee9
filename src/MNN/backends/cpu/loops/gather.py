"""Gathering through index tensors: rows copied whole where the indices stand still along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import Tail, load, make_tail, storage_type, store
from MNN.backends.cpu.lang.indexing import RAW, Indices
from MNN.backends.cpu.lang.module import I1, I32, PTR, Builder, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType


@dataclass(frozen=True)
class GatherSpec(KernelSpec):
    """``out[o] = data[sum_d o_d * data_s{d} + sum_j wrap(idx_j[o]) * scale{j}]`` over ``rank`` dimensions.

    ``wrap`` adds ``size{j}`` to negative indices. An index that is still outside 0..size-1 stores 1 into the i64 at
    ``error`` and counts as 0. ``data``, ``indices`` and ``out`` are innermost classes: "0", "1", "s" (not "0" for out).

    ``near``: all offsets fit into 31 bits, which lets vectors of them be used where the processor gathers by those.

    Slots: ``extent0..``, ``chunk``, ``error``; ``data``, ``idx{j}``, ``out``, each with its strides ``_s{d}`` of the
    outer dimensions and of the innermost for class "s"; ``size{j}``, ``scale{j}``. Blocks as in ``MapSpec``.
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    index_dtypes: tuple[DType, ...]
    rank: int
    data: str
    indices: tuple[str, ...]
    out: str
    near: bool = False

    def parts(self) -> tuple[Operand, Indices, Operand]:
        raw = RAW[self.dtype.size]
        return Operand("data", raw, self.data), Indices(self.index_dtypes, self.indices), Operand("out", raw, self.out)

    def slots(self) -> tuple[str, ...]:
        data, indices, out = self.parts()
        names = [f"extent{d}" for d in range(self.rank)] + ["chunk", "error"]
        for operand in (data, *indices.operands(), out):
            names += operand.slots(self.rank - 1, self.rank - 1)
        return (*names, *indices.slots())

    def traffic(self, args: Arguments) -> dict[str, int]:
        """Of the data as many elements as the result has, since only a run knows whether indices repeat."""
        outer = [number(args, f"extent{d}") for d in range(self.rank - 1)]
        inner = number(args, f"extent{self.rank - 1}")
        data, indices, out = self.parts()
        found = {o.name: operand_bytes(o, args, outer, inner) for o in (*indices.operands(), out)}
        return found | {data.name: found[out.name]}

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        data, indices, out = self.parts()
        inner, chunk = k.slot(f"extent{self.rank - 1}"), k.slot("chunk")

        def row(pointers: list[Value], number: Value | None) -> None:
            assert number is not None
            start = number * chunk
            count = minimum(k, chunk, inner - start)
            if indices.per_row:
                _copy_row(k, self, pointers, start, count, max(1, target.vector_bytes // self.dtype.size))
            elif self.near and self.dtype.size in (4, 8) and self.out == "1" and target.can(can.GATHER):
                _pick_vectors(k, self, pointers, start, count, target)
            else:
                _pick_elements(k, self, pointers, start, count)

        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        for_rows(k, outer, (inner + (chunk - 1)) // chunk, [data, *indices.operands(), out], row)
        return k.finish()


def _copy_row(k: Kernel, spec: GatherSpec, pointers: list[Value], start: Value, count: Value, lanes: int) -> None:
    """A row whose indices are constant: one look at them, then a copy."""
    b = k.b
    data, indices, out = spec.parts()
    inner_dim = spec.rank - 1
    offset, bad = indices.offset(k, pointers[1:-1], 0, inner_dim, "0")
    indices.report(k, bad)
    source = data.move(k, pointers[0], offset)
    steps = [data.inner_stride(k, inner_dim), out.inner_stride(k, inner_dim)]
    same = load(b, data.dtype, source, 1) if data.inner == "0" else None
    spread = b.splat(same, lanes) if same is not None else None

    def vectors(at: Value, n: int, tail: Tail | None = None) -> None:
        places = [at + v * lanes for v in range(n)]
        values = [
            spread if spread is not None
            else load(b, data.dtype, data.move(k, source, p, steps[0]), lanes, steps[0], tail)
            for p in places
        ]  # fmt: skip
        for p, v in zip(places, values, strict=True):
            store(b, out.dtype, v, out.move(k, pointers[-1], p, steps[1]), steps[1], tail)

    end = start + count
    wide = start + (count - count % (4 * lanes))
    with b.loop(start, wide, 4 * lanes) as main:
        vectors(main.index, 4)
    whole = start + (count - count % lanes)
    with b.loop(wide, whole, lanes) as single:
        vectors(single.index, 1)
    if lanes > 1:
        b.if_(b.icmp("slt", whole, end), lambda: vectors(whole, 1, make_tail(b, end - whole, lanes)))


def _pick_vectors(
    k: Kernel, spec: GatherSpec, pointers: list[Value], start: Value, count: Value, target: Target
) -> None:
    """A row along which an index changes, by vectors: indices wrapped and checked together, data gathered."""
    b = k.b
    data, indices, out = spec.parts()
    inner_dim, lanes = spec.rank - 1, target.vector_bytes // spec.dtype.size
    t, element = storage_type(data.dtype, lanes), storage_type(data.dtype)
    step = data.inner_stride(k, inner_dim)
    offset, row_bad = indices.offset(k, pointers[1:-1], 0, inner_dim, "0")
    indices.report(k, row_bad)
    source = data.move(k, pointers[0], offset)

    def take(at: Value, bad: Value, tail: Tail | None = None) -> Value:
        moved, outside = indices.offsets(k, pointers[1:-1], at, inner_dim, lanes, tail)
        here = source if data.inner == "0" else data.move(k, source, at, step)
        if data.inner != "0":
            steps = b.lane_numbers(I32, lanes)
            steps = steps if step is None else b.mul(steps, b.splat(b.convert("trunc", step, I32), lanes))
            moved = b.add(moved, steps)
        addresses = b.emit(PTR.vec(lanes), f"getelementptr {element.text}, ptr {here.text}, {moved!r}")
        found = b.load_gather(t, addresses, None if tail is None else tail.mask)
        store(b, out.dtype, found, out.move(k, pointers[-1], at), None, tail)
        return b.or_(bad, outside)

    end = start + count
    whole = end - count % lanes
    clean = b.const(I1.vec(lanes), 0)
    with b.loop(start, whole, lanes, carry=[clean]) as main:
        main.next(take(main.index, main.carried[0]))
    indices.report(k, _any(b, main.results[0]))
    if target.has_masks:
        rest = end - whole
        b.if_(
            b.icmp("slt", whole, end),
            lambda: indices.report(k, _any(b, take(whole, clean, make_tail(b, rest, lanes)))),
        )
    else:
        _pick_elements(k, spec, pointers, whole, count % lanes)


def _any(b: Builder, mask: Value) -> Value:
    return b.call(I1, f"llvm.vector.reduce.or.{mask.type.suffix}", mask)


def _pick_elements(k: Kernel, spec: GatherSpec, pointers: list[Value], start: Value, count: Value) -> None:
    """A row along which an index changes: element by element, four at a time."""
    b = k.b
    data, indices, out = spec.parts()
    inner_dim = spec.rank - 1
    t = storage_type(data.dtype)
    steps = [data.inner_stride(k, inner_dim), out.inner_stride(k, inner_dim)]
    offset, row_bad = indices.offset(k, pointers[1:-1], 0, inner_dim, "0")
    indices.report(k, row_bad)
    source = data.move(k, pointers[0], offset)

    def take(at: Value, n: int, bad: Value) -> Value:
        values = []
        for v in range(n):
            here = at + v
            moved, outside = indices.offset(k, pointers[1:-1], here, inner_dim, "1s")
            bad = b.or_(bad, outside)
            if data.inner != "0":
                moved = moved + (here * steps[0] if steps[0] is not None else here)
            values.append(b.load(t, data.move(k, source, moved)))
        for v, value in enumerate(values):
            b.store(value, out.move(k, pointers[-1], at + v, steps[1]))
        return bad

    end = start + count
    unrolled_end = end - count % 4
    with b.loop(start, unrolled_end, 4, carry=[b.const(I1, 0)]) as main:
        main.next(take(main.index, 4, main.carried[0]))
    with b.loop(unrolled_end, end, carry=main.results) as rest:
        rest.next(take(rest.index, 1, rest.carried[0]))
    indices.report(k, rest.results[0])
