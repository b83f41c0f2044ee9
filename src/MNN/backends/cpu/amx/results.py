"""What becomes of the sums of :class:`MNN.backends.cpu.amx.spec.AmxSpec`: the epilogue, and C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from MNN.backends.cpu.amx import scale as amx_scale
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.tiles import ROW_BYTES
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import Tail, make_tail, storage_type
from MNN.backends.cpu.lang.halves import to_bf16
from MNN.backends.cpu.lang.module import F32, I8, I16, I64, Kernel, Value
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.products.epilogue import Epilogue, added_first, masks_work
from MNN.backends.cpu.products.packed_bytes import pack_bytes, packs_bytes, saturated_end
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LANES = 16
_WIDTH = 2 * _LANES
Tails: TypeAlias = tuple[Tail, ...]
"""The masks of a panel's first and second vector, which may have nothing, and of both together; none where all are
whole."""
_ASKED = 2
"""Rows of results that a step asks for: those of a pair of tiles in 16 steps."""


@dataclass(frozen=True)
class Results:
    """Results ``begin <= i < end`` whose sums are done: they lie from ``row`` on in ``sums``, from ``column`` on."""

    begin: Value
    end: Value
    row: Value
    sums: Value
    column: Value
    columns: Value

    def values(self) -> tuple[Value, ...]:
        """What it is made of, for a loop to carry."""
        return self.begin, self.end, self.row, self.sums, self.column, self.columns


class Finishing:
    """Emits the end of results. ``scale``: where A's is, if it has one. ``right`` (packed B), ``c`` and ``operands``:
    the addresses for the current batch, to be set."""

    def __init__(self, k: Kernel, spec: AmxSpec, target: Target, scale: Value) -> None:
        self._k, self._b, self._spec, self._scale = k, k.b, spec, scale
        self._line_bytes = k.slot("line")
        self.out_type = storage_type(spec.out)
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self._parted = spec.out is DType.BF16X2
        self._end = saturated_end(spec.epilogue, spec.fits) if spec.sums is DType.I32 and packs_bytes(target) else None
        self._joint = self._parted or self._end is not None
        """Whether two vectors of results are stored together."""
        self._masks = masks_work(target, (spec.out, *self.op_dtypes))
        begins = self._masks and not (spec.half or spec.tall)
        self.added = added_first(spec.epilogue, spec.operands, spec.sums) if begins else None
        """The operand that sums begin with, if any: loading it into tiles costs less than adding it to each row."""
        if self.added is not None:
            self._begun = self._b.alloca(storage_type(spec.sums, _LANES), 2)
        self.right: Value
        self.c: Value
        self.operands: Sequence[Value] = ()
        self.pace: Value | None = None
        """Results to finish in every step, where no argument says it."""
        self.first: Value | None = None
        """The first result of the current block, where they are its rows in order."""

    def beginnings(self, column: Value, columns: Value) -> Value:
        """Where a panel's two vectors lie of what its sums begin with: those of the operand, unless it ends in between
        (of what was stored just now, tiles would have to wait)."""
        assert self.added is not None
        b, type_ = self._b, storage_type(self._spec.sums)
        source = b.gep(self.operands[self.added], type_, column)

        def copied() -> tuple[Value]:
            for j in range(2):
                left = b.intrinsic("smax", columns - j * _LANES, b.const(I64, 0))
                tail = make_tail(b, b.intrinsic("smin", left, b.const(I64, _LANES)), _LANES)
                at = b.intrinsic("smin", b.const(I64, j * _LANES), columns - 1)
                found = element.load(b, self._spec.sums, b.gep(source, type_, at), _LANES, None, tail)
                b.store(found, b.gep(self._begun, type_.vec(_LANES), j), check=False)
            return (self._begun,)

        def as_it_lies() -> tuple[Value]:
            if b.module.checked:
                b.check(source, 2 * ROW_BYTES)
            return (source,)

        (found,) = b.if_else(b.icmp("eq", columns, _WIDTH), as_it_lies, copied, likely=True)
        return found

    def finish(self, results: Results) -> None:
        """Applies the epilogue to all these results, and stores them."""
        b, spec = self._b, self._spec
        epilogue = Epilogue(b, spec.sums, spec.out, spec.epilogue)
        columns, wide = results.columns, epilogue.short or self._joint
        whole = b.and_(columns, -_WIDTH if wide else -_LANES)
        lanes = _LANES if self._masks else 1

        def whole_vectors() -> None:
            with b.loop(results.begin, results.end) as result:
                line = self._line(results, result.index)
                with b.loop(0, whole, _WIDTH if wide else _LANES) as column:
                    if wide:
                        self._store_both(epilogue, line, column.index)
                    else:
                        self._store(epilogue, line, column.index, _LANES, None)

        b.if_(b.icmp("sgt", whole, 0), whole_vectors)
        # Others down the rows, so that their masks are made once.
        with b.loop(whole, columns, lanes) as column:
            left = b.intrinsic("smin", columns - column.index, b.const(I64, lanes))
            tail = make_tail(b, left, lanes) if self._masks else None
            with b.loop(results.begin, results.end) as result:
                self._store(epilogue, self._line(results, result.index), column.index, lanes, tail)

    def step_end(self, results: Results, result: Value) -> Value:
        """Up to where a step finishes these results, of which ``result`` is the next."""
        pace = self._k.slot("pace") if self.pace is None else self.pace
        return self._b.intrinsic("smin", result + pace, results.end)

    def tails(self, columns: Value) -> Tails:
        """The masks of so many columns, where panels are not all whole."""
        b = self._b
        if not self._spec.ragged:
            return ()
        first = b.intrinsic("smin", columns, b.const(I64, _LANES))
        return make_tail(b, first, _LANES), make_tail(b, columns - first, _LANES), make_tail(b, columns, _WIDTH)

    def some(self, results: Results, result: Value, past: Value, tails: Tails = ()) -> Value:
        """Finishes these results, of 32 columns or as many as ``tails`` have, from ``result`` up to ``past``; the
        number of the next."""
        b, spec = self._b, self._spec
        epilogue = Epilogue(b, spec.sums, spec.out, spec.epilogue)
        with b.loop(result, past) as some:
            line = self._line(results, some.index)
            self._store_both(epilogue, line, b.const(I64, 0), tails)
        return b.intrinsic("smax", result, past)

    def ask(self, results: Results, result: Value) -> Value:
        """Asks for where the next of these results will be stored, a few in each step; the number of those behind."""
        b = self._b
        for _ in range(_ASKED):
            known = b.select(b.icmp("slt", result, results.end), result, results.begin)
            at = b.entry(self._k.pointer("rows_c"), known) + results.column
            place = b.gep(self.c, self.out_type, at)
            for line in range(0, _WIDTH * self._spec.out.size, ROW_BYTES):
                b.prefetch(b.gep(place, I8, line), 2)
            result = result + 1
        return result

    def _line(self, results: Results, result: Value) -> Value:
        """Loads the tables of one result; the address of its sums."""
        self._column = results.column
        self._row_tables(result)
        place = self._b.entry(self._k.pointer("place"), result) if self.first is None else result - self.first
        row = place - results.row
        return self._b.gep(results.sums, I8, row * self._line_bytes)

    def _row_tables(self, result: Value) -> None:
        b, k = self._b, self._k
        offset = b.entry(k.pointer("rows_c"), result)
        self._c_row = b.gep(b.gep(self.c, self.out_type, offset), self.out_type, self._column)
        self._op_rows: list[Value] = []
        for i, (kind, dtype) in enumerate(zip(self._spec.operands, self.op_dtypes, strict=True)):
            pointer, type_ = self.operands[i], storage_type(dtype)
            if kind in ("m", "mn"):
                pointer = b.gep(pointer, type_, b.entry(k.pointer(f"rows{i}"), result))
            if kind in ("n", "mn"):
                pointer = b.gep(pointer, type_, self._column)
            self._op_rows.append(pointer)

    def _store_both(self, epilogue: Epilogue, sums: Value, column: Value, tails: Tails = ()) -> None:
        """Two vectors of results. Where they are kept in parts, none is stored before all of both is read."""
        b = self._b
        halves = list(zip((0, _LANES), tails[:2] or (None, None), strict=True))
        if not self._joint:
            for c, tail in halves:
                self._store(epilogue, sums, column + c, _LANES, tail)
            return
        to = b.gep(self._c_row, self.out_type, column)
        both = [self._operands(epilogue, sums, column + c, _LANES, tail) for c, tail in halves]
        if self._end is not None:
            unbounded = [epilogue.before(self._end.value, value, args, _LANES) for value, args in both]
            packed = pack_bytes(b, unbounded, self._end)
            if tails:
                b.store_masked(packed, to, tails[2].mask)
            else:
                b.store(packed, to, align=1)
            return
        low, high = (parts_of(b, epilogue.apply(value, args, _LANES), 2) for value, args in both)
        for part in range(2):
            b.store(to_bf16(b, low[part], high[part]), b.gep(to, I16, part * _WIDTH))

    def _store(self, epilogue: Epilogue, sums: Value, column: Value, lanes: int, tail: Tail | None) -> None:
        value, args = self._operands(epilogue, sums, column, lanes, tail)
        epilogue.store(epilogue.apply(value, args, lanes), self._b.gep(self._c_row, self.out_type, column), tail)

    def _operands(
        self, epilogue: Epilogue, sums: Value, column: Value, lanes: int, tail: Tail | None
    ) -> tuple[Value, list[Value]]:
        """A vector of sums, and what the epilogue takes besides."""
        b = self._b
        value = b.load(storage_type(self._spec.sums).vec(lanes), b.gep(sums, F32, column))
        if self._spec.half:
            for inverse in self._inverses(column, lanes):
                value = b.mul(value, inverse)
        args = []
        for i, (kind, dtype, pointer) in enumerate(
            zip(self._spec.operands, self.op_dtypes, self._op_rows, strict=True)
        ):
            if i == self.added:  # there already; nothing changes when -0 is added
                args.append(b.const(value.type, -0.0 if dtype.is_float else 0))
                continue
            moves = kind in ("n", "mn")
            args.append(epilogue.load(pointer, dtype, column if moves else None, lanes, tail))
        return value, args

    def _inverses(self, column: Value, lanes: int) -> tuple[Value, Value]:
        """What brings sums of scaled numbers back, the lesser first: nothing overflows on the way to the result."""
        b, panel = self._b, self._k.slot("panel")
        behind = b.lshr(self._column + column, 5) * panel + panel
        right = amx_scale.inverse_at(b, b.gep(self.right, I8, behind - amx_scale.SCALE_BYTES), lanes)
        left = amx_scale.inverse_at(b, self._scale, lanes)
        less = b.fcmp("olt", left, right)
        return b.select(less, left, right), b.select(less, right, left)
