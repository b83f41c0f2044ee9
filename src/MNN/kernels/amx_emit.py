"""Code generation of :class:`MNN.kernels.amx.AmxSpec`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from MNN.ir.dtype import DType
from MNN.kernels.amx_split import PRODUCTS, parts_of, to_bf16
from MNN.kernels.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES, Tiles
from MNN.kernels.element import Tail, make_tail, storage_type
from MNN.kernels.epilogue import Epilogue, masks_work
from MNN.kernels.lang import F32, I8, I16, I32, I64, VOID, Kernel, Value
from MNN.targets.base import Target

if TYPE_CHECKING:
    from MNN.kernels.amx import AmxSpec

_LANES = 16
REGION = ("first", "past", "tiles", "k", "from", "to", "first move", "past move")
"""Words of a region's record; see :class:`MNN.kernels.amx.AmxSpec`."""


def emit_amx(spec: AmxSpec, target: Target) -> str:
    """The module's text."""
    return _Amx(spec, target).emit()


@dataclass(frozen=True)
class _Results:
    """Results ``begin <= i < end`` whose sums are done: they lie from ``row`` on in ``sums``, from ``column`` on."""

    begin: Value
    end: Value
    row: Value
    sums: Value
    column: Value
    columns: Value


class _Amx:
    """The state of one emission: the kernel, and the values that hold for the current block and panel."""

    def __init__(self, spec: AmxSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        b = self.b
        self.out_type = storage_type(spec.out)
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.sums, self.line = self.k.scratch, self.k.slot("line")
        self.rows = b.gep(self.k.scratch, I8, self.k.slot("held"))
        self.plane, self.pitch = self.k.slot("plane"), self.k.slot("pitch")
        self.tiles = Tiles(self.k, target, b.gep(self.rows, I8, self.plane * spec.parts))
        self.masks = masks_work(target, (spec.out, *self.op_dtypes))

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb, m_blocks, chunks = (k.slot(s) for s in ("n", "nb", "m_blocks", "chunks"))
        n_blocks = b.udiv(n + nb - 1, nb)
        parted = b.icmp("sgt", chunks, 1)
        with self.tiles.configured(), b.loop(k.begin, k.end, carry=[b.const(I64, -1)]) as block:
            filled = b.udiv(block.index, n_blocks)
            z = b.udiv(filled, m_blocks)
            im = filled - z * m_blocks
            self.n0 = n0 = (block.index - filled * n_blocks) * nb
            self.n1 = n1 = b.intrinsic("smin", n0 + nb, n)
            self.final = b.icmp("eq", filled, m_blocks * k.slot("n_batch") - 1)
            self._bases(z)
            # Blocks that differ in their columns only share the rows.
            stale = b.or_(b.icmp("ne", filled, block.carried[0]), parted)
            with b.loop(0, chunks) as chunk:
                region = b.gep(k.pointer("regions"), I32, (im * chunks + chunk.index) * len(REGION))
                self.region = {name: self._index(region, i) for i, name in enumerate(REGION)}
                if not spec.direct:
                    b.if_(stale, self._fill)
                self.fresh = b.icmp("eq", chunk.index, 0)
                self.last = b.icmp("eq", chunk.index, chunks - 1)
                with b.loop(n0, n1, k.slot("group")) as group:
                    origin = b.select(parted, n0, group.index)
                    self._group(im, group.index, b.intrinsic("smin", group.index + k.slot("group"), n1), origin)
            block.next(filled)
        return k.finish()

    def _bases(self, z: Value) -> None:
        """The operands' addresses for batch ``z``."""
        k, b, spec = self.k, self.b, self.spec
        batch = b.gep(k.pointer("batch"), I64, z * (3 + len(spec.operands)))
        types = [storage_type(spec.a), I8, self.out_type, *map(storage_type, self.op_dtypes)]
        names = ["a", "b", "c", *(f"op{i}" for i in range(len(spec.operands)))]
        bases = [
            b.gep(k.pointer(name), type_, b.load(I64, b.gep(batch, I64, i)))
            for i, (name, type_) in enumerate(zip(names, types, strict=True))
        ]
        self.a, self.right, self.c = bases[:3]
        self.ops = bases[3:]

    def _group(self, im: Value, first: Value, past: Value, origin: Value) -> None:
        """Columns ``first ..`` of a block, whose sums are held from column ``origin`` on."""
        k, b, spec, region = self.k, self.b, self.spec, self.region
        panel = k.slot("panel")
        parted = b.icmp("sgt", k.slot("chunks"), 1)
        skip = region["from"] * (spec.parts * TILE_BYTES)
        start = b.gep(self.right, I8, b.udiv(first, 2 * _LANES) * panel)
        behind = b.gep(b.gep(start, I8, b.udiv(k.slot("group"), 2 * _LANES) * panel), I8, skip * 2)
        behind = b.select(b.icmp("eq", past, self.n1), self._behind_block(behind), behind)
        steps = region["to"] - region["from"]
        nothing = b.const(I64, 0)
        with b.loop(0, region["tiles"], 2, carry=[behind, nothing, nothing, nothing, self.sums]) as tile:
            rows = self._tile_rows(tile.index)
            row = b.select(parted, tile.index * ROWS, b.const(I64, 0))
            sums = b.gep(b.gep(self.sums, I8, row * self.line), F32, first - origin)
            waiting = tile.carried[1:]
            with b.loop(first, past, 2 * _LANES, carry=[start, tile.carried[0], sums, waiting[3]]) as column:
                base, self.ahead, to, before = column.carried
                left = past - column.index
                wide = b.icmp("sgt", left, _LANES)
                at = b.gep(base, I8, b.select(wide, skip * 2, skip))
                whole = b.intrinsic("smin", left, b.const(I64, 2 * _LANES))
                self.waiting = _Results(waiting[0], waiting[1], waiting[2], before, column.index, whole)
                self._pair(rows, at, to, region["tiles"] - tile.index, wide)
                ahead = b.gep(self.ahead, I8, steps * (spec.ahead * ROW_BYTES))
                column.next(b.gep(base, I8, panel), ahead, b.gep(to, F32, 2 * _LANES), b.gep(before, F32, 2 * _LANES))
            firsts = b.gep(k.pointer("first"), I32, im * k.slot("pairs") + b.lshr(tile.index, 1))
            done = _Results(
                self._index(firsts, 0), self._index(firsts, 1), tile.index * ROWS, sums, first, past - first
            )
            if spec.overlap:
                end = b.select(self.last, done.end, done.begin)
                tile.next(column.results[1], done.begin, end, done.row, sums)
            else:
                b.if_(self.last, lambda: self._finish(done))
                tile.next(column.results[1], nothing, nothing, nothing, sums)
        if spec.overlap:
            begin, end, row, sums = tile.results[1:]
            self._finish(_Results(begin, end, row, sums, first, past - first))

    def _behind_block(self, behind: Value) -> Value:
        """What of B comes behind the last group of a block's columns; ``behind``: which follows it in memory."""
        k, b = self.k, self.b
        chunk = self.region["to"] * (2 * self.spec.parts * TILE_BYTES)
        rest = b.gep(b.gep(self.right, I8, b.udiv(self.n0, 2 * _LANES) * k.slot("panel")), I8, chunk)
        rows = b.select(self.final, k.pointer("next"), self.right)
        block = b.select(b.icmp("eq", self.n1, k.slot("n")), rows, behind)
        return b.select(self.last, block, rest)

    def _tile_rows(self, tile: Value) -> Value:
        """The address of a tile's rows; sets how far from it those of the next one are."""
        b = self.b
        if not self.spec.direct:
            self.next_rows = self.pitch * ROWS
            return b.gep(self.rows, I8, tile * self.next_rows)
        begin = b.gep(self.a, storage_type(self.spec.a), self.region["first move"])
        row, after = (b.intrinsic("smin", (tile + i) * ROWS, self.region["past move"]) for i in range(2))
        self.next_rows = (after - row) * self.pitch
        return b.gep(begin, I8, row * self.pitch)

    def _index(self, table: Value, index: Value | int) -> Value:
        """An entry of an i32 table."""
        return self.b.convert("sext", self.b.load(I32, self.b.gep(table, I32, index)), I64)

    # -- A into scratch ---------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        k, b, spec, region = self.k, self.b, self.spec, self.region
        with b.loop(0, k.slot("clear_rows")) as row:
            at = b.gep(self.rows, I8, k.slot("clear") + row.index * self.pitch)
            for part in range(spec.parts):
                b.store(b.const(I32.vec(_LANES), 0), b.gep(at, I8, self.plane * part), align=4)
        length = region["k"]
        whole = b.and_(length, -2 * _LANES)
        rest = length - whole
        masks = [b.prefix_mask(b.intrinsic("smax", rest - low, b.const(I64, 0)), _LANES) for low in (0, _LANES)]
        self.upper = b.select(b.icmp("sgt", rest, _LANES), b.const(I64, _LANES), b.const(I64, 0))  # not past the end
        with b.loop(region["first"], region["past"]) as item:
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

        if spec.joined:
            self._join(region["first move"], region["past move"])

    def _join(self, first: Value, past: Value) -> None:
        """Copies runs of pixels, which lie behind the rows, to where they are parts of rows."""
        k, b, spec = self.k, self.b, self.spec
        width = k.slot("width")
        lanes = 2 * _LANES
        with b.loop(first, past) as move:
            entry = b.gep(k.pointer("moves"), I32, move.index * 3)
            source = b.gep(self.rows, I8, self._index(entry, 0))
            to = b.gep(self.rows, I8, self._index(entry, 1))
            count = self._index(entry, 2)
            with b.loop(0, width, lanes) as at:
                mask = b.prefix_mask(b.intrinsic("smin", width - at.index, b.const(I64, lanes)), lanes)
                shift = at.index * 2
                with b.loop(0, count) as run:
                    for part in range(spec.parts):
                        offset = self.plane * part + shift
                        here = b.gep(source, I8, run.index * k.slot("move_step") + offset)
                        value = b.load_masked(I16.vec(lanes), here, mask)
                        b.store(value, b.gep(to, I8, run.index * self.pitch + offset))

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

    def _pair(self, rows: Value, panel: Value, sums: Value, left: Value, wide: Value) -> None:
        """The sums of the next two row tiles (one, when ``left`` is 1) and one panel, of two tiles where ``wide``."""
        b = self.b

        def run(height: int, width: int) -> Callable[[], tuple[()]]:
            def emit() -> tuple[()]:
                self._sums(rows, panel, sums, height, width)
                return ()

            return emit

        def of_height(height: int) -> Callable[[], tuple[()]]:
            def emit() -> tuple[()]:
                b.if_else(wide, run(height, 2), run(height, 1))
                return ()

            return emit

        two = b.icmp("sgt", left, 1)
        if self.spec.overlap:
            # The pair before is finished in between the products of this one, where both are whole.
            whole = b.and_(two, b.icmp("eq", self.waiting.columns, 2 * _LANES))
            now = self.waiting

            def at_once() -> tuple[()]:
                self._finish(now)
                return ()

            b.if_else(whole, tuple, at_once)
            self.waiting = dataclasses.replace(now, end=b.select(whole, now.end, now.begin))
        b.if_else(two, of_height(2), of_height(1))

    def _sums(self, rows: Value, panel: Value, sums: Value, height: int, width: int) -> None:
        k, b, tiles, spec, region = self.k, self.b, self.tiles, self.spec, self.region
        step_bytes = spec.parts * width * TILE_BYTES
        held = [
            (2 * r + c, b.gep(b.gep(sums, I8, self.line * (ROWS * r)), I8, c * ROW_BYTES))
            for r in range(height)
            for c in range(width)
        ]

        def zero() -> tuple[()]:
            for register, _ in held:
                tiles.zero(register)
            return ()

        def load() -> tuple[()]:
            for register, pointer in held:
                tiles.load(register, pointer, self.line)
            return ()

        b.if_else(self.fresh, zero, load, likely=True)
        both = spec.overlap and height == width == 2
        carry = [panel, self.ahead, *([self.waiting.begin] if both else [])]
        with b.loop(region["from"], region["to"], carry=carry, guard=False) as step:
            at = b.gep(rows, I8, self._index(k.pointer("kofs"), step.index))
            right, ahead, *result = step.carried
            fetched = self._fetched(ahead, len(PRODUCTS[spec.parts]) * height * width)
            loaded: tuple[int, int] = (-1, -1)
            for left_part, right_part in PRODUCTS[spec.parts]:
                # All loads before the products: as fast on a core of one's own, a fifth faster on one whose other
                # hardware thread is busy.
                if left_part != loaded[0]:
                    for r in range(height):
                        plane = b.gep(at, I8, self.plane * left_part + self.next_rows * r)
                        tiles.load(4 + r, plane, self.pitch)
                if right_part != loaded[1]:
                    for c in range(width):
                        tile = b.gep(right, I8, (right_part * width + c) * TILE_BYTES)
                        tiles.load(6 + c, tile, ROW_BYTES, passing=spec.passing)
                for r, c in itertools.product(range(height), range(width)):
                    tiles.dot(2 * r + c, 4 + r, 6 + c)
                    next(fetched)
                loaded = (left_part, right_part)
            if both:
                result = [self._finish_some(result[0])]
            step.next(b.gep(right, I8, step_bytes), b.gep(ahead, I8, spec.ahead * ROW_BYTES), *result)
        for register, pointer in held:
            tiles.store(register, pointer, self.line)

    def _fetched(self, lines: Value, products: int) -> Iterator[None]:
        """Asks for a step's lines of B, evenly between its products.

        A line on its way from memory takes up one of the few buffers that tiles from the second-level cache pass
        through as well: asked for all at once, they hold up the tiles (BERT-base: 10 to 15 % of the whole).
        """
        ahead = self.spec.ahead
        for product in range(products):
            for line in range(product * ahead // products, (product + 1) * ahead // products):
                self._prefetch(self.b.gep(lines, I8, line * ROW_BYTES))
            yield

    def _prefetch(self, pointer: Value) -> None:
        """Brings a line of B, which may be past its end, to the second-level cache."""
        numbers = [self.b.const(I32, n) for n in (0, 2, 1)]  # to read, into the second level, data
        self.b.call(VOID, "llvm.prefetch.p0", pointer, *numbers)

    # -- results ----------------------------------------------------------------------------------------------------

    def _finish(self, results: _Results) -> None:
        """Applies the epilogue to the results that lie in a pair of tiles, and stores them."""
        b, spec = self.b, self.spec
        epilogue = Epilogue(b, DType.F32, spec.out, spec.epilogue)
        columns = results.columns
        whole = b.and_(columns, -2 * _LANES if epilogue.short else -_LANES)
        lanes = _LANES if self.masks else 1
        with b.loop(results.begin, results.end) as result:
            line = self._line(results, result.index)
            with b.loop(0, whole, 2 * _LANES if epilogue.short else _LANES) as column:
                for c in (0, _LANES) if epilogue.short else (0,):
                    self._store(epilogue, line, column.index + c, _LANES, None)
            with b.loop(whole, columns, lanes) as column:
                left = b.intrinsic("smin", columns - column.index, b.const(I64, lanes))
                tail = make_tail(b, left, lanes) if self.masks else None
                self._store(epilogue, line, column.index, lanes, tail)

    def _finish_some(self, result: Value) -> Value:
        """Finishes the next results that wait, of 32 columns, as many as fall to a step; the number of the next."""
        k, b, spec = self.k, self.b, self.spec
        epilogue = Epilogue(b, DType.F32, spec.out, spec.epilogue)
        past = b.intrinsic("smin", result + k.slot("pace"), self.waiting.end)
        with b.loop(result, past) as some:
            line = self._line(self.waiting, some.index)
            for c in (0, _LANES):
                self._store(epilogue, line, b.const(I64, c), _LANES, None)
        return b.intrinsic("smax", result, past)

    def _line(self, results: _Results, result: Value) -> Value:
        """Loads the tables of one result; the address of its sums."""
        self.column = results.column
        self._row_tables(result)
        row = self._index(self.k.pointer("place"), result) - results.row
        return self.b.gep(results.sums, I8, row * self.line)

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
