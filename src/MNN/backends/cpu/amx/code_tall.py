"""Sums of four row tiles by one column tile, a few steps of the sum at a time: ``tall`` in
:class:`MNN.backends.cpu.amx.spec.AmxSpec`.

For few rows and long sums (the last convolutions of image networks). Whole sums of two by two tiles go through
all of A for every panel of B; where these do not fit the second-level cache together, A comes from behind it every
time. Here A's tiles of a few steps stay in the first-level cache for all columns, while the sums come and go
(ResNet-50's convolutions of 7x7 pixels 9 to 17 %, InceptionV3's of 8x8 25 %).
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.amx.byte_parts import Packed
from MNN.backends.cpu.amx.code import Amx
from MNN.backends.cpu.amx.layout import HEIGHT, LEAST
from MNN.backends.cpu.amx.results import Results
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.split import PRODUCTS
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Value
from MNN.backends.cpu.targets.base import Target

_PARTS = 2
_B, _A = 4, 6
"""The first registers of B's parts and of A's."""
_WIDTH = 32


@generates(AmxSpec, tall=True)
def emit_tall(spec: AmxSpec, target: Target) -> str:
    """The module's text."""
    return _Tall(spec, target).emit()


class _Tall(Amx):
    """Another order of the sums of a group of columns."""

    def brings_rows(self, stale: Value, parted: Value) -> Value:
        del parted  # the first chunk brings all
        return self.b.and_(stale, self.fresh)

    def columns(self, im: Value, parted: Value) -> None:
        with self.b.loop(self.n0, self.n1, self.k.slot("group")) as group:
            past = self.b.intrinsic("smin", group.index + self.k.slot("group"), self.n1)
            self.group(im, group.index, past, parted)

    def group(self, im: Value, first: Value, past: Value, parted: Value) -> None:
        del parted  # all sums of a group of columns are held at once
        k, b, spec, region = self.k, self.b, self.spec, self.region
        panel = k.slot("panel")
        start, behind = self.group_begin(first, past)
        skip = region["from"] * self.step_bytes
        self._steps = region["to"] - region["from"]
        firsts = b.gep(k.pointer("first"), I32, im * k.slot("pairs"))
        begin, end = b.entry(firsts, 0), b.entry(firsts, k.slot("pairs"))
        end = b.select(self.last, end, begin)
        none = b.const(I64, 0)
        sums = b.gep(self.sums, F32, first - self.n0)
        waits = [none, none, none, sums, none, none]
        if spec.w24:
            wide = b.icmp("sgt", past - first, ROWS)
            right = b.gep(start, I8, b.select(wide, skip * 2, skip))
            self.unpack_first(Packed.at(b, right, b.select(wide, b.const(I64, 2), b.const(I64, 1)), 0), 1)
        with b.loop(first, past, _WIDTH, carry=[start, behind, sums, *waits]) as column:
            base, self._ahead, self._held, *waiting = column.carried
            left = past - column.index
            wide = b.icmp("sgt", left, ROWS)
            self._right = b.gep(base, I8, b.select(wide, skip * 2, skip))
            self._next = self._behind(b.gep(base, I8, panel), skip, wide, left)
            self._before = Results(*waiting)
            self._panel(region["tiles"], wide)
            columns = b.intrinsic("smin", left, b.const(I64, _WIDTH))
            done = Results(begin, end, none, self._held, column.index, columns)
            if not spec.overlap:
                self.finishing.finish(done)
                done = Results(*waiting)
            waiting = [done.begin, done.end, done.row, done.sums, done.column, done.columns]
            after = [b.gep(base, I8, panel), b.gep(self._ahead, I8, panel), b.gep(self._held, F32, _WIDTH)]
            column.next(*after, *waiting)
        if spec.overlap:
            self.finishing.finish(Results(*column.results[3:]))

    def _behind(self, panel: Value, skip: Value, wide: Value, left: Value) -> Packed:
        """What to unpack for the panel behind the one of which ``left`` columns are left: it begins at ``panel``. The
        one at hand again where there is none."""
        b, two, one = self.b, self.b.const(I64, 2), self.b.const(I64, 1)
        more = b.icmp("sgt", left, _WIDTH)
        width = b.select(b.icmp("sgt", b.select(more, left - _WIDTH, left), ROWS), two, one)
        return Packed.at(b, b.select(more, b.gep(panel, I8, skip * width), self._right), width, 0)

    def _panel(self, height: Value, wide: Value) -> None:
        """The sums of ``height`` row tiles and a panel; finishes the panel before in between, where it is whole."""
        b = self.b
        now = self._before
        begin = now.begin

        def run(tiles: int, width: int) -> Callable[[], tuple[Value, ...]]:
            def emit() -> tuple[Value, ...]:
                result = begin
                for column in range(width):
                    result = self._column(tiles, column, width, result)
                return (result,)

            return emit

        def of_height(tiles: int) -> Callable[[], tuple[Value, ...]]:
            def emit() -> tuple[Value, ...]:
                return tuple(b.if_else(wide, run(tiles, 2), run(tiles, 1)))

            return emit

        if self.spec.overlap:
            whole = b.icmp("eq", now.columns, _WIDTH)
            self._before = Results(begin, b.select(whole, now.end, begin), now.row, now.sums, now.column, now.columns)
        (result,) = b.if_else(b.icmp("eq", height, HEIGHT), of_height(HEIGHT), of_height(LEAST))
        if self.spec.overlap:  # what is not done, as of a panel that is not whole
            self.finishing.finish(Results(result, now.end, now.row, now.sums, now.column, now.columns))

    def _column(self, height: int, column: int, width: int, result: Value) -> Value:
        """The sums of one column tile; the number of the next result that waits."""
        b, spec, tiles = self.b, self.spec, self.tiles
        held = [b.gep(self._held, I8, self.line * (ROWS * r) + column * ROW_BYTES) for r in range(height)]

        def zero() -> tuple[()]:
            for register in range(height):
                tiles.zero(register)
            return ()

        def load() -> tuple[()]:
            for register, pointer in enumerate(held):
                tiles.load(register, pointer, self.line)
            return ()

        b.if_else(self.fresh, zero, load)
        right = self._right
        products = len(PRODUCTS[_PARTS]) * height
        after = Packed.at(b, right, width, 1) if column + 1 < width else self._next
        ahead = b.gep(self._ahead, I8, self._steps * self.fetch * column) if column else self._ahead
        with b.loop(self.region["from"], self.region["to"], carry=[right, ahead, result], guard=False) as step:
            right, ahead, result = step.carried
            at = b.gep(self.rows, I8, b.entry(self.k.pointer("kofs"), step.index))
            fetched = self.fetched(ahead, products)
            behind = b.gep(right, I8, width * self.step_bytes)
            inside = b.icmp("ne", step.index, self.region["to"] - 1)
            later = Packed.at(b, behind, width, column).or_else(b, inside, after)
            number = b.select(inside, step.index + 1, self.region["from"])
            unpacked = self.unpacked(later, number, 1, products, often=width == 2)
            for part in range(_PARTS):
                self.load_right(_B + part, right, part, width, column, self.second_tile(step.index))
            for row in range(height):
                for part in reversed(range(_PARTS)):
                    tiles.load(_A + part, self._row(at, part, row), self.pitch)
                for left_part, right_part in PRODUCTS[_PARTS]:
                    tiles.dot(row, _A + left_part, _B + right_part)
                    next(fetched)
                    next(unpacked)
            if spec.overlap:
                result = self.finishing.some(self._before, result, self.finishing.step_end(self._before, result))
            step.next(behind, b.gep(ahead, I8, self.fetch), result)
        for register, pointer in enumerate(held):
            tiles.store(register, pointer, self.line)
        return step.results[2]

    def _row(self, at: Value, part: int, row: int) -> Value:
        """Where the tile of a row tile lies, of a part of A."""
        return self.b.gep(at, I8, self.plane * part + self.pitch * (ROWS * row))
