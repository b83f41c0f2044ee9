"""Code generation of :class:`MNN.backends.cpu.amx.spec.AmxSpec`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

from MNN.backends.cpu.amx.byte_parts import STEP_BYTES, Packed, unpack, unpacked
from MNN.backends.cpu.amx.fill import Filling, region_record
from MNN.backends.cpu.amx.records import TURN
from MNN.backends.cpu.amx.results import Finishing, Results
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.split import PRODUCTS
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS, TILE_BYTES, Tiles, state_bytes
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.records import entry, load_word
from MNN.backends.cpu.targets.base import Target

_LANES = 16


@generates(AmxSpec)
def emit_amx(spec: AmxSpec, target: Target) -> str:
    """The module's text."""
    return Amx(spec, target).emit()


class Amx:
    """The state of one emission: the kernel, and the values that hold for the current block and panel."""

    def __init__(self, spec: AmxSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        b = self.b
        self.sums, self.line, self.fetch = self.k.scratch, self.k.slot("line"), self.k.slot("fetch")
        self.rows = b.gep(self.k.scratch, I8, self.k.slot("held"))
        self.plane, self.pitch = self.k.slot("plane"), self.k.slot("pitch")
        state = b.gep(self.rows, I8, self.plane * spec.parts)
        self.tiles = Tiles(self.k, target, state, spec.product)
        behind = b.gep(state, I8, state_bytes(target, spec.product))
        self.second = scale = behind  # no kernel has both
        self.step_bytes = STEP_BYTES if spec.w24 else spec.parts * TILE_BYTES
        self.filling = Filling(self.k, spec, self.rows, scale)
        self.finishing = Finishing(self.k, spec, target, scale)

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb, m_blocks, chunks = (k.slot(s) for s in ("n", "nb", "m_blocks", "chunks"))
        n_blocks = b.udiv(n + nb - 1, nb)
        parted = b.icmp("sgt", chunks, 1)
        with self.tiles.configured(), b.loop(k.begin, k.end, carry=[b.const(I64, -1)]) as block:
            filled = b.udiv(block.index, n_blocks)
            z = b.udiv(filled, m_blocks)
            im = filled - z * m_blocks
            self.n0 = (block.index - filled * n_blocks) * nb
            self.n1 = b.intrinsic("smin", self.n0 + nb, n)
            self.turn = load_word(b, TURN, entry(b, TURN, k.pointer("turns"), block.index), "ahead")
            self.bases(z)
            # Blocks that differ in their columns only share the rows.
            held = block.index if spec.sections else filled
            stale = b.icmp("ne", held, block.carried[0])
            if spec.half:
                b.if_(stale, functools.partial(self.filling.measure, self.a, im * chunks))
            with b.loop(0, chunks) as chunk:
                self.region = region_record(k, im * chunks + chunk.index)
                self.fresh = b.icmp("eq", chunk.index, 0)
                self.last = b.icmp("eq", chunk.index, chunks - 1)
                if not spec.direct:
                    b.if_(self.brings_rows(stale, parted), self.fill)
                self.columns(im, parted)
            block.next(held)
        return k.finish()

    def fill(self) -> None:
        """Brings what a chunk needs of A: with sections, those of the block's columns."""
        if self.spec.sections is None:
            self.filling.fill(self.a, self.region)
        else:
            first, past = (self.b.udiv(n, self.spec.sections[0]) for n in (self.n0, self.n1))
            self.filling.fill_sections(self.a, self.region, first, past, self.k.slot("beside"))

    def bases(self, z: Value) -> None:
        """The operands' addresses for batch ``z``."""
        k, b, spec = self.k, self.b, self.spec
        record = batch_record(len(spec.operands))
        batch = entry(b, record, k.pointer("batch"), z)
        finishing = self.finishing
        types = [storage_type(spec.element), I8, finishing.out_type, *map(storage_type, finishing.op_dtypes)]
        bases = [
            b.gep(k.pointer(name), type_, load_word(b, record, batch, name))
            for name, type_ in zip(record, types, strict=True)
        ]
        self.a, self.right, finishing.c = bases[:3]
        finishing.right = self.right
        finishing.operands = bases[3:]

    def brings_rows(self, stale: Value, parted: Value) -> Value:
        """Whether the current chunk's rows are to be brought; ``stale``: those that are there are of another block,
        ``parted``: there are several chunks."""
        return self.b.or_(stale, parted)

    def columns(self, im: Value, parted: Value) -> None:
        """All columns of block ``im``, for the current chunk; ``parted``: there are several chunks."""
        k, b = self.k, self.b
        none = b.const(I64, 0)
        waiting = Results(none, none, none, self.sums, self.n0, none)
        with b.loop(self.n0, self.n1, k.slot("group"), carry=waiting.values() if self.spec.overlap else ()) as group:
            self.waiting = Results(*group.carried) if self.spec.overlap else waiting
            self.group(im, group.index, b.intrinsic("smin", group.index + k.slot("group"), self.n1), parted)
            group.next(*(self.waiting.values() if self.spec.overlap else ()))
        if self.spec.overlap:
            self.finishing.finish(Results(*group.results))

    def group(self, im: Value, first: Value, past: Value, parted: Value) -> None:
        """Columns ``first ..`` of block ``im``, for the current chunk; ``parted``: there are several chunks. With
        ``overlap``, ``waiting`` are the results of the pair before, and then of the last one."""
        k, b, spec, region = self.k, self.b, self.spec, self.region
        panel = k.slot("panel")
        parted = b.icmp("sgt", self.chunks(), 1)
        skip = region["from"] * self.step_bytes
        start, behind = self.group_begin(first, past)
        steps = region["to"] - region["from"]
        nothing = b.const(I64, 0)
        tiles = self.row_tiles(im, first)
        waits = self.waiting.values() if spec.overlap else ()
        # Where sums are held at once, those of a block lie from its first column on. Others are those of one group, and
        # with overlap those of two pairs, which take turns: they stay in the first-level cache.
        origin = b.select(parted, self.n0, first)
        with b.loop(0, tiles, 2, carry=[behind, *waits]) as tile:
            rows = self._tile_rows(tile.index)
            row = b.select(parted, tile.index * ROWS, nothing)
            sums = b.gep(b.gep(self.sums, I8, row * self.line), F32, first - origin)
            begin, end = self.results_of(im, tile.index)
            with b.loop(first, past, 2 * _LANES, carry=[start, tile.carried[0], sums, *tile.carried[1:]]) as column:
                base, self.ahead, to, *before = column.carried
                left = past - column.index
                wide = b.icmp("sgt", left, _LANES)
                at = b.gep(base, I8, b.select(wide, skip * 2, skip))
                whole = b.intrinsic("smin", left, b.const(I64, 2 * _LANES))
                held = to
                if spec.overlap:
                    self.waiting = Results(*before)
                    held = b.select(parted, to, self._other(self.waiting.sums))
                done = Results(begin, b.select(self.last, end, begin), tile.index * ROWS, held, column.index, whole)
                if self.finishing.added is not None:
                    self.beginnings = self.finishing.beginnings(column.index, whole)
                if spec.asks_results:
                    self.asked = dataclasses.replace(done, row=nothing)
                self._pair(self._section(rows, column.index), at, held, tiles - tile.index, wide)
                ahead = b.gep(self.ahead, I8, steps * self.fetch)
                after = done.values() if spec.overlap else ()
                column.next(b.gep(base, I8, panel), ahead, b.gep(to, F32, 2 * _LANES), *after)
            if not spec.overlap:
                done = Results(begin, end, tile.index * ROWS, sums, first, past - first)
                b.if_(self.last, lambda: self.finishing.finish(done))
            tile.next(column.results[1], *column.results[3:])
        if spec.overlap:
            self.waiting = Results(*tile.results[1:])

    def _other(self, sums: Value) -> Value:
        """Of the two places where sums of a pair are held, the one that is not at ``sums``."""
        b = self.b
        second = b.gep(self.sums, I8, self.line * (2 * ROWS))
        return b.select(b.icmp("eq", sums, self.sums), second, self.sums)

    def chunks(self) -> Value:
        """In how many parts blocks sum their steps."""
        return self.k.slot("chunks")

    def row_tiles(self, im: Value, first: Value) -> Value:
        """How many row tiles block ``im`` has, for columns from ``first`` on."""
        k, b = self.k, self.b
        others = b.icmp("ne", b.udiv(first, k.slot("part")), im)
        return self.region["tiles"] - b.select(others, k.slot("shared"), b.const(I64, 0))

    def results_of(self, im: Value, tile: Value) -> tuple[Value, Value]:
        """The first result of block ``im`` in the pair of row tiles from ``tile`` on, and the one behind its last."""
        k, b = self.k, self.b
        firsts = b.gep(k.pointer("first"), I32, im * k.slot("pairs") + b.lshr(tile, 1))
        return b.entry(firsts, 0), b.entry(firsts, 1)

    def step_rows(self, rows: Value, step: Value) -> Value:
        """Where the rows of a tile, which lies at ``rows``, begin for a step."""
        return self.b.gep(rows, I8, self.b.entry(self.k.pointer("kofs"), step))

    def group_begin(self, first: Value, past: Value) -> tuple[Value, Value]:
        """Where the panels of a group of columns begin, and what of B will be needed behind it."""
        k, b = self.k, self.b
        panel = k.slot("panel")
        skip = self.region["from"] * (2 * self.step_bytes)
        start = b.gep(self.right, I8, b.udiv(first, 2 * _LANES) * panel)
        behind = b.gep(b.gep(start, I8, b.udiv(k.slot("group"), 2 * _LANES) * panel), I8, skip)
        return start, b.select(b.icmp("eq", past, self.n1), self.behind_block(behind), behind)

    def behind_block(self, behind: Value) -> Value:
        """What of B comes behind the last group of a block's columns; ``behind``: which follows it in memory."""
        k, b = self.k, self.b
        chunk = self.region["to"] * (2 * self.step_bytes)
        rest = b.gep(b.gep(self.right, I8, b.udiv(self.n0, 2 * _LANES) * k.slot("panel")), I8, chunk)
        block = b.select(b.icmp("eq", self.n1, k.slot("n")), self.right, behind)
        ended = b.icmp("sge", self.turn, 0)
        return b.select(self.last, b.select(ended, b.gep(k.pointer("next"), I8, self.turn), block), rest)

    def _tile_rows(self, tile: Value) -> Value:
        """The address of a tile's rows; sets how far from it those of the next one are."""
        b = self.b
        if not self.spec.direct:
            self.next_rows = self.pitch * ROWS
            return b.gep(self.rows, I8, tile * self.next_rows)
        begin = b.gep(self.a, storage_type(self.spec.element), self.region["first_move"])
        row, after = (b.intrinsic("smin", (tile + i) * ROWS, self.region["past_move"]) for i in range(2))
        self.next_rows = (after - row) * self.pitch
        return b.gep(begin, I8, row * self.pitch)

    def _section(self, rows: Value, column: Value) -> Value:
        """The address of a panel's rows."""
        if self.spec.sections is None:
            return rows
        number = self.b.udiv(column - self.n0, self.spec.sections[0])
        return self.b.gep(rows, I8, number * self.k.slot("beside"))

    # -- sums -------------------------------------------------------------------------------------------------------

    def _pair(self, rows: Value, panel: Value, sums: Value, left: Value, wide: Value) -> None:
        """The sums of the next two row tiles (one, when ``left`` is 1) and one panel, of two tiles where ``wide``."""
        b = self.b

        def run(height: int, width: int) -> Callable[[], tuple[Value, ...]]:
            return lambda: self._sums(rows, panel, sums, height, width)

        def of_height(height: int) -> Callable[[], tuple[Value, ...]]:
            return lambda: tuple(b.if_else(wide, run(height, 2), run(height, 1)))

        two = b.icmp("sgt", left, 1)
        if not self.spec.overlap:
            b.if_else(two, of_height(2), of_height(1))
            return
        # The pair before is finished in between the products of this one, where it is whole or masks say what it has,
        # and what is left behind them: sums that were stored just now are not at hand at once.
        now = self.waiting
        whole = two if self.spec.ragged else b.and_(two, b.icmp("eq", now.columns, 2 * _LANES))
        self.tails = self.finishing.tails(now.columns)
        self.waiting = dataclasses.replace(now, end=b.select(whole, now.end, now.begin))
        (left_over,) = b.if_else(two, of_height(2), of_height(1))

        def in_pairs() -> tuple[()]:
            self.finishing.some(now, left_over, now.end, self.tails)
            return ()

        def all_of_them() -> tuple[()]:
            self.finishing.finish(now)
            return ()

        b.if_else(whole, in_pairs, all_of_them, likely=True)

    def _sums(self, rows: Value, panel: Value, sums: Value, height: int, width: int) -> tuple[Value, ...]:
        """With ``overlap``, gives the number of the first result of the pair before that is not finished."""
        k, b, tiles, spec, region = self.k, self.b, self.tiles, self.spec, self.region
        step_bytes = width * self.step_bytes
        held = [
            (2 * r + c, b.gep(b.gep(sums, I8, self.line * (ROWS * r)), I8, c * ROW_BYTES))
            for r in range(height)
            for c in range(width)
        ]

        def zero() -> tuple[()]:
            for register, _ in held:
                self.begin(register, register % 2)
            return ()

        def load() -> tuple[()]:
            for register, pointer in held:
                tiles.load(register, pointer, self.line)
            return ()

        b.if_else(self.fresh, zero, load, likely=True)
        both = spec.overlap and height == 2
        products = len(PRODUCTS[spec.parts]) * height * width
        last = region["to"] - 1
        self.unpack_first(Packed.at(b, panel, width, 0), width)
        carry = [panel, self.ahead, *([self.waiting.begin] if both else [])]
        carry += [self.asked.begin] if spec.asks_results else []
        with b.loop(region["from"], region["to"], carry=carry, guard=False) as step:
            at = self.step_rows(rows, step.index)
            right, ahead, *result = step.carried
            behind = b.gep(right, I8, step_bytes)
            fetched = self.fetched(ahead, products)
            after = Packed.at(b, b.select(b.icmp("eq", step.index, last), right, behind), width, 0)
            unpacked = self.unpacked(after, step.index + 1, width, products, often=width == 2)
            loaded: tuple[int, int] = (-1, -1)
            # All loads before the products: as fast on a core of one's own, a fifth faster on one whose other hardware
            # thread is busy. Where column tiles have rows of their own, there are too few registers for that.
            apart = spec.sections is not None and spec.sections[0] < width * _LANES
            for left_part, right_part in PRODUCTS[spec.parts]:
                for some in [[c] for c in range(width)] if apart else [list(range(width))]:
                    if left_part != loaded[0] or apart:
                        own = b.gep(at, I8, k.slot("beside") * some[0]) if some[0] else at
                        for r in range(height):
                            plane = b.gep(own, I8, self.plane * left_part + self.next_rows * r)
                            tiles.load(4 + r, plane, self.pitch)
                    if right_part != loaded[1]:
                        for c in some:
                            self.load_right(6 + c, right, right_part, width, c, self.second_tile(step.index, c))
                    for r, c in itertools.product(range(height), some):
                        tiles.dot(2 * r + c, 4 + r, 6 + c)
                        next(fetched)
                        next(unpacked)
                loaded = (left_part, right_part)
            asked = [self.finishing.ask(self.asked, result.pop())] if spec.asks_results else []
            if both:
                past = self.finishing.step_end(self.waiting, result[0])
                past = b.select(b.icmp("eq", step.index, last), result[0], past)
                result = [self.finishing.some(self.waiting, result[0], past, self.tails)]
            step.next(behind, b.gep(ahead, I8, self.fetch), *result, *asked)
        for register, pointer in held:
            tiles.store(register, pointer, self.line)
        return ((step.results[2] if both else self.waiting.begin),) if spec.overlap else ()

    def begin(self, register: int, column: int) -> None:
        """What sums of a column tile begin with."""
        if self.finishing.added is None:
            self.tiles.zero(register)
        else:
            self.tiles.spread(register, self.b.gep(self.beginnings, I8, column * ROW_BYTES))

    def second_tile(self, step: Value, column: int = 0) -> Value:
        """Where second parts of B for a step are, those that are unpacked: two steps' take turns."""
        return self.b.gep(self.second, I8, self.b.and_(step, 1) * (2 * TILE_BYTES) + column * TILE_BYTES)

    def unpack_first(self, packed: Packed, width: int) -> None:
        """Unpacks second parts of the first step, of ``width`` tiles."""
        if self.spec.w24:
            unpack(self.b, packed, self.second_tile(self.region["from"]), width)

    def unpacked(self, packed: Packed, step: Value, width: int, products: int, often: bool) -> Iterator[None]:
        """Unpacks second parts for a step that comes behind, evenly between the products of this one; behind the first,
        which is less code to compile, where products are not of the shape that comes ``often``."""
        if self.spec.w24 and often:
            yield from unpacked(self.b, packed, self.second_tile(step), width, products)
        elif self.spec.w24:
            unpack(self.b, packed, self.second_tile(step), width)
        yield from itertools.repeat(None)

    def load_right(self, register: int, right: Value, part: int, width: int, column: int, second: Value) -> None:
        """A tile of B, whose step begins at ``right``; ``second``: where it is when it was unpacked."""
        if part == 1 and self.spec.w24:
            self.tiles.load(register, second, ROW_BYTES)
        else:
            tile = self.b.gep(right, I8, (part * width + column) * TILE_BYTES)
            self.tiles.load(register, tile, ROW_BYTES, passing=self.spec.passing and not self.spec.w24)

    def fetched(self, lines: Value, products: int) -> Iterator[None]:
        """Asks for a step's lines of B, evenly between its products.

        A line on its way from memory takes up one of the few buffers that tiles from the second-level cache pass
        through as well: asked for all at once, they hold up the tiles (BERT-base: 10 to 15 % of the whole).
        """
        ahead = self.spec.ahead
        for product in range(products):
            for line in range(product * ahead // products, (product + 1) * ahead // products):
                self.b.prefetch(self.b.gep(lines, I8, line * ROW_BYTES), 2)  # it may be past the end
            yield
