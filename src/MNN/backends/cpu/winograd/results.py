"""Code of :class:`MNN.backends.cpu.winograd.spec.WinogradSpec`: the third stage of a block, from sums to results.

Results of 8 bits are packed four pixels at a time (:mod:`MNN.backends.cpu.products.packed_bytes`), but for tiles that
images end in, whose pixels are made one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.lang.element import Tail, make_tail, storage_type
from MNN.backends.cpu.lang.module import F32, I64, Type, Value
from MNN.backends.cpu.products.epilogue import Epilogue, masks_work
from MNN.backends.cpu.products.packed_bytes import Saturated, pack_bytes
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.groups import Groups
from MNN.backends.cpu.winograd.int16 import factor_of, to_take_back
from MNN.backends.cpu.winograd.points import Filtering
from MNN.backends.cpu.winograd.records import PER_PIXEL
from MNN.backends.cpu.winograd.slices import Slices
from MNN.backends.cpu.winograd.transform import outputs
from MNN.ir.dtype import DType


class Results(Slices, Groups):
    """The third stage, and how stages go through channels."""

    target: Target
    lanes: int
    sum: Type
    m: Value
    tile_memory: Value
    row_m: Value
    step_m: Value
    n0: Value
    n1: Value
    f_h: Filtering
    f_w: Filtering
    out_type: Type
    op_dtypes: tuple[DType, ...]
    end: Saturated | None
    """How the epilogue ends, where packing is its end."""

    def _hide(self, values: list[Value]) -> Callable[[], list[Value]]:
        """Keeps values in memory; the function gives them back. LLVM then cannot spend its time (and registers) on an
        address of its own for every access in a loop."""
        b = self.b
        memory = b.alloca(I64, len(values))
        for i, value in enumerate(values):
            b.store(value, b.gep(memory, I64, i), check=False)
        return lambda: [b.load(I64, b.gep(memory, I64, i), check=False) for i in range(len(values))]

    def _channels(self, lo: Value, hi: Value, tail: bool, masked: bool, body: Callable[..., None]) -> None:
        """``body(index, lanes, tail)`` for whole vectors from ``lo`` (their multiple) on, then for what is left."""
        b = self.b
        if not tail or self.lanes == 1:
            with b.loop(lo, hi, self.lanes) as vector:
                body(vector.index, self.lanes, None)
            return
        whole = lo + b.and_(hi - lo, -self.lanes)
        with b.loop(lo, whole, self.lanes) as vector:
            body(vector.index, self.lanes, None)
        if masked:
            with b.loop(whole, hi, self.lanes) as rest:  # at most once
                body(rest.index, self.lanes, make_tail(b, hi - rest.index, self.lanes))
        else:
            with b.loop(whole, hi) as rest:
                body(rest.index, 1, None)

    def _outputs(self) -> None:
        k, b, spec = self.k, self.b, self.spec
        epilogue = Epilogue(b, spec.acc, spec.out, spec.epilogue)
        masked = masks_work(self.target, (spec.out, *self.op_dtypes))
        with b.loop(0, self.count) as tile, self._depths(tile.index) as depth:
            y = b.gep(k.pointer("y"), self.out_type, self._entry(tile.index, "y"))
            y = self._group_out(y, self.out_type)
            y = y if depth is None else b.gep(y, self.out_type, depth * k.slot("deep_y"))
            rows, columns = self._entry(tile.index, "rows"), self._entry(tile.index, "columns")
            ops = []
            for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True)):
                pointer = k.pointer(f"op{i}")
                if kind in PER_PIXEL:
                    pointer = b.gep(pointer, storage_type(dtype), self._entry(tile.index, f"op{i}"))
                    if depth is not None:
                        pointer = b.gep(pointer, storage_type(dtype), depth * k.slot(f"deep{i}"))
                ops.append(self._group_out(pointer, storage_type(dtype)) if "n" in kind else pointer)
            source = b.gep(self.m, F32, self._row(tile.index, depth) * self.row_m)
            whole = b.and_(b.icmp("eq", rows, spec.mh), b.icmp("eq", columns, spec.mw))
            hidden = self._hide([self.step_m, k.slot("row_y"), k.slot("col_y")])

            def transform(channel: Value, lanes: int, tail: Tail | None) -> None:
                step_m, row_y, col_y = hidden()
                values = self._output_tile(b.gep(source, F32, channel - self.n0), step_m, lanes, tile.index)
                corner = b.gep(y, self.out_type, channel)

                def operands(i: Value, j: Value) -> list[Value]:
                    args = []
                    for n, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True)):
                        pointer = ops[n]
                        if kind in PER_PIXEL:
                            offset = i * k.slot(f"row{n}") + j * k.slot(f"col{n}")
                            pointer = b.gep(pointer, storage_type(dtype), offset)
                        args.append(epilogue.load(pointer, dtype, channel if "n" in kind else None, lanes, tail))
                    return args

                def place(i: Value, j: Value) -> Value:
                    return b.gep(corner, self.out_type, i * row_y + j * col_y)

                def one(value: Value, i: Value, j: Value) -> None:
                    epilogue.store(epilogue.apply(value, operands(i, j), lanes), place(i, j), tail)

                def at_once() -> tuple[()]:
                    pixels = [(b.const(I64, i), b.const(I64, j)) for i in range(spec.mh) for j in range(spec.mw)]
                    if self.end is None:
                        for value, (i, j) in zip(values, pixels, strict=True):
                            one(value, i, j)
                        return ()
                    several = next(n for n in (4, 2) if len(pixels) % n == 0)
                    for first in range(0, len(pixels), several):
                        some = range(first, first + several)
                        before = [epilogue.before(self.end.value, values[n], operands(*pixels[n]), lanes) for n in some]
                        packed = pack_bytes(b, before, self.end)
                        for number, n in enumerate(some):
                            part = b.shuffle(packed, None, range(number * lanes, (number + 1) * lanes))
                            b.store(part, place(*pixels[n]), align=1)
                    return ()

                def one_by_one() -> tuple[()]:
                    for i, value in enumerate(values):
                        b.store(value, b.gep(self.tile_memory, self.sum.vec(lanes), i))
                    with b.loop(0, rows) as row, b.loop(0, columns) as column:
                        at = b.gep(self.tile_memory, self.sum.vec(lanes), row.index * spec.mw + column.index)
                        one(b.load(self.sum.vec(lanes), at), row.index, column.index)
                    return ()

                if (epilogue.short or self.end is not None) and lanes > 1 and tail is None:
                    b.if_else(whole, at_once, one_by_one, likely=True)
                else:
                    one_by_one()

            self._channels(self.n0, self.n1, spec.n_tail, masked, transform)

    def _output_tile(self, source: Value, step_m: Value, lanes: int, tile: Value) -> list[Value]:
        """The outputs of a tile, row by row; rows of equal parity together where registers are few."""
        b, spec = self.b, self.spec
        type_, width = self.sum.vec(lanes), self.f_w.positions
        enough = (spec.mh + 1) * width <= self.target.vector_registers
        rows: list[list[Value]] = [[] for _ in range(spec.mh)]
        for parity in [None] if enough or spec.mh == 1 else [0, 1]:
            columns: list[list[Value]] = []
            first, down = source, step_m * width
            for _ in range(width):
                at, values = first, []
                for i in range(self.f_h.positions):
                    at = b.gep(at, F32, down) if i else at
                    values.append(b.load(type_, at))
                first = b.gep(first, F32, step_m)
                columns.append(outputs(b, self.f_h, values, parity) if spec.mh > 1 else values)
            chosen = range(spec.mh) if parity is None else range(parity, spec.mh, 2)
            for place, i in enumerate(chosen):
                line = [column[place] for column in columns]
                rows[i] = outputs(b, self.f_w, line) if spec.mw > 1 else line
        found = [value for row in rows for value in row]
        if self.sum is F32:
            return found
        factor, shift = to_take_back(factor_of(spec.mh, spec.mw, spec.rh, spec.rw))
        return [b.ashr(value if factor == 1 else b.mul(value, factor), shift) for value in found]
