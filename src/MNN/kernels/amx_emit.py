"""Code generation of :class:`MNN.kernels.amx.AmxSpec`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from MNN.ir.dtype import DType
from MNN.kernels.amx_split import PRODUCTS, parts_of, to_bf16
from MNN.kernels.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES, Tiles
from MNN.kernels.element import Tail, make_tail, storage_type
from MNN.kernels.epilogue import Epilogue, masks_work
from MNN.kernels.lang import F32, I8, I16, I32, I64, Kernel, Value
from MNN.targets.base import Target

if TYPE_CHECKING:
    from MNN.kernels.amx import AmxSpec

_LANES = 16
_PAIR_BYTES = 2 * ROWS * ROW_BYTES
"""Distance of the two row tiles in the scratch for finished sums, whose rows hold 32 columns."""


def emit_amx(spec: AmxSpec, target: Target) -> str:
    """The module's text."""
    return _Amx(spec, target).emit()


class _Amx:
    """The state of one emission: the kernel, and the values that hold for the current block and panel."""

    def __init__(self, spec: AmxSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        b = self.b
        self.out_type = storage_type(spec.out)
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.sums = self.k.scratch
        self.rows = b.gep(self.k.scratch, I8, 4 * TILE_BYTES)
        self.plane, self.pitch = self.k.slot("plane"), self.k.slot("pitch")
        self.tiles = Tiles(self.k, target, b.gep(self.rows, I8, self.plane * spec.parts))
        self.masks = masks_work(target, (spec.out, *self.op_dtypes))

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb, m_blocks = (k.slot(s) for s in ("n", "nb", "m_blocks"))
        n_blocks = b.udiv(n + nb - 1, nb)
        with self.tiles.configured(), b.loop(k.begin, k.end, carry=[b.const(I64, -1)]) as block:
            filled = b.udiv(block.index, n_blocks)
            z = b.udiv(filled, m_blocks)
            im = filled - z * m_blocks
            n0 = (block.index - filled * n_blocks) * nb
            n1 = b.intrinsic("smin", n0 + nb, n)
            batch = b.gep(k.pointer("batch"), I64, z * (3 + len(spec.operands)))
            types = [storage_type(spec.a), I8, self.out_type, *map(storage_type, self.op_dtypes)]
            names = ["a", "b", "c", *(f"op{i}" for i in range(len(spec.operands)))]
            bases = [
                b.gep(k.pointer(name), type_, b.load(I64, b.gep(batch, I64, i)))
                for i, (name, type_) in enumerate(zip(names, types, strict=True))
            ]
            self.a, b_base, self.c = bases[:3]
            self.ops = bases[3:]
            region = b.gep(k.pointer("regions"), I32, im * 3)
            tiles = self._index(region, 2)
            # Blocks that differ in their columns only share the rows.
            b.if_(b.icmp("ne", filled, block.carried[0]), lambda: self._fill(region))
            with b.loop(n0, n1, 2 * _LANES) as column:
                self.column, self.columns = column.index, n1 - column.index
                panel = b.gep(b_base, I8, b.udiv(self.column, 2 * _LANES) * k.slot("panel"))
                with b.loop(0, tiles, 2) as tile:
                    rows = b.gep(self.rows, I8, tile.index * (self.pitch * ROWS))
                    self._pair(rows, panel, tiles - tile.index)
                    self._finish(im * k.slot("pairs") + b.lshr(tile.index, 1), tile.index * ROWS)
            block.next(filled)
        return k.finish()

    def _index(self, table: Value, index: Value | int) -> Value:
        """An entry of an i32 table."""
        return self.b.convert("sext", self.b.load(I32, self.b.gep(table, I32, index)), I64)

    # -- A into scratch ---------------------------------------------------------------------------------------------

    def _fill(self, region: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        with b.loop(0, k.slot("clear_rows")) as row:
            at = b.gep(self.rows, I8, k.slot("clear") + row.index * self.pitch)
            for part in range(spec.parts):
                b.store(b.const(I32.vec(_LANES), 0), b.gep(at, I8, self.plane * part), align=4)
        length = k.slot("k")
        whole = b.and_(length, -2 * _LANES)
        rest = length - whole
        masks = [b.prefix_mask(b.intrinsic("smax", rest - low, b.const(I64, 0)), _LANES) for low in (0, _LANES)]
        self.upper = b.select(b.icmp("sgt", rest, _LANES), b.const(I64, _LANES), b.const(I64, 0))  # not past the end
        with b.loop(self._index(region, 0), self._index(region, 1)) as item:
            entry = b.gep(k.pointer("items"), I32, item.index * 3)
            source = b.gep(self.a, storage_type(spec.a), self._index(entry, 0))
            to = b.gep(self.rows, I8, self._index(entry, 1))
            with b.loop(0, self._index(entry, 2)) as run:
                run_source = b.gep(source, storage_type(spec.a), run.index * k.slot("step"))
                run_to = b.gep(to, I8, run.index * self.pitch)
                with b.loop(0, whole, 2 * _LANES) as chunk:
                    self._bring(run_source, run_to, chunk.index, None)

                def last(source: Value = run_source, to: Value = run_to) -> None:
                    self._bring(source, to, whole, masks)

                b.if_(b.icmp("sgt", rest, 0), last)

    def _bring(self, source: Value, to: Value, at: Value, masks: list[Value] | None) -> None:
        """32 elements of A (with masks, the last ones and zeros) to their places in every part's plane."""
        b, spec = self.b, self.spec
        type_ = storage_type(spec.a)
        halves = []
        for i in range(2):
            pointer = b.gep(source, type_, at)
            if masks is None:
                halves.append(b.load(type_.vec(_LANES), b.gep(pointer, type_, i * _LANES)))
            else:
                halves.append(b.load_masked(type_.vec(_LANES), b.gep(pointer, type_, self.upper * i), masks[i]))
        to = b.gep(to, I16, at)
        if spec.a is DType.BF16:
            b.store(b.shuffle(halves[0], halves[1], range(2 * _LANES)), to)
            return
        low, high = (parts_of(b, x, spec.parts) for x in halves)
        for part in range(spec.parts):
            b.store(to_bf16(b, low[part], high[part]), b.gep(to, I8, self.plane * part))

    # -- sums -------------------------------------------------------------------------------------------------------

    def _pair(self, rows: Value, panel: Value, left: Value) -> None:
        """The sums of the next two row tiles (one, when ``left`` is 1) and one panel, into scratch."""
        b = self.b
        two_rows, two_columns = b.icmp("sgt", left, 1), b.icmp("sgt", self.columns, _LANES)

        def run(height: int, width: int) -> Callable[[], tuple[()]]:
            def emit() -> tuple[()]:
                self._sums(rows, panel, height, width)
                return ()

            return emit

        def of_height(height: int) -> Callable[[], tuple[()]]:
            def emit() -> tuple[()]:
                b.if_else(two_columns, run(height, 2), run(height, 1))
                return ()

            return emit

        b.if_else(two_rows, of_height(2), of_height(1))

    def _sums(self, rows: Value, panel: Value, height: int, width: int) -> None:
        k, b, tiles, spec = self.k, self.b, self.tiles, self.spec
        for r in range(height):
            for c in range(width):
                tiles.zero(2 * r + c)
        step_bytes = spec.parts * width * TILE_BYTES
        kofs = k.pointer("kofs")
        with b.loop(0, k.slot("n_steps"), carry=[panel], guard=False) as step:
            at = b.gep(rows, I8, self._index(kofs, step.index))
            right = step.carried[0]
            held: tuple[int, int] = (-1, -1)
            for left_part, right_part in PRODUCTS[spec.parts]:
                for r in range(height):
                    if left_part != held[0]:
                        plane = b.gep(at, I8, self.plane * left_part + self.pitch * (ROWS * r))
                        tiles.load(4 + r, plane, self.pitch)
                    for c in range(width):
                        if r == 0 and right_part != held[1]:
                            tiles.load(6 + c, b.gep(right, I8, (right_part * width + c) * TILE_BYTES), ROW_BYTES)
                        tiles.dot(2 * r + c, 4 + r, 6 + c)
                held = (left_part, right_part)
            step.next(b.gep(right, I8, step_bytes))
        for r in range(height):
            for c in range(width):
                tiles.store(2 * r + c, b.gep(self.sums, I8, r * _PAIR_BYTES + c * ROW_BYTES), 2 * ROW_BYTES)

    # -- results ----------------------------------------------------------------------------------------------------

    def _finish(self, pair: Value, first_row: Value) -> None:
        """Applies the epilogue to the results that lie in this pair of tiles, and stores them."""
        k, b, spec = self.k, self.b, self.spec
        epilogue = Epilogue(b, DType.F32, spec.out, spec.epilogue)
        firsts = b.gep(k.pointer("first"), I32, pair)
        begin, end = self._index(firsts, 0), self._index(firsts, 1)

        def line(result: Value) -> Value:
            """Loads the tables of one result; the address of its sums."""
            self._row_tables(result)
            row = self._index(k.pointer("place"), result) - first_row
            return b.gep(self.sums, F32, row * (2 * _LANES))

        def whole() -> tuple[()]:
            with b.loop(begin, end) as result:
                sums = line(result.index)
                if epilogue.short:
                    for c in (0, _LANES):
                        self._store(epilogue, sums, b.const(I64, c), _LANES, None)
                else:
                    with b.loop(0, 2 * _LANES, _LANES) as column:
                        self._store(epilogue, sums, column.index, _LANES, None)
            return ()

        def cut() -> tuple[()]:
            lanes = _LANES if self.masks else 1
            with b.loop(begin, end) as result:
                sums = line(result.index)
                with b.loop(0, self.columns, lanes) as column:
                    left = b.intrinsic("smin", self.columns - column.index, b.const(I64, lanes))
                    tail = make_tail(b, left, lanes) if self.masks else None
                    self._store(epilogue, sums, column.index, lanes, tail)
            return ()

        b.if_else(b.icmp("sge", self.columns, 2 * _LANES), whole, cut, likely=True)

    def _row_tables(self, result: Value) -> None:
        b, k = self.b, self.k
        offset = self._index(k.pointer("rows_c"), result)
        self.c_row = b.gep(b.gep(self.c, self.out_type, offset), self.out_type, self.column)
        self.op_rows: list[Value] = []
        for i, (kind, dtype) in enumerate(zip(self.spec.operands, self.op_dtypes, strict=True)):
            pointer, type_ = self.ops[i], storage_type(dtype)
            if kind in ("m", "mn"):
                pointer = b.gep(pointer, type_, self._index(k.pointer(f"rows{i}"), result))
            if kind in ("n", "mn"):
                pointer = b.gep(pointer, type_, self.column)
            self.op_rows.append(pointer)

    def _store(self, epilogue: Epilogue, sums: Value, column: Value, lanes: int, tail: Tail | None) -> None:
        b = self.b
        value = b.load(F32.vec(lanes), b.gep(sums, F32, column))
        args = []
        for kind, dtype, pointer in zip(self.spec.operands, self.op_dtypes, self.op_rows, strict=True):
            moves = kind in ("n", "mn")
            args.append(epilogue.load(pointer, dtype, column if moves else None, lanes, tail))
        epilogue.store(epilogue.apply(value, args, lanes), b.gep(self.c_row, self.out_type, column), tail)
