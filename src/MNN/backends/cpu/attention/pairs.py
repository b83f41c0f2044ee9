"""Products of queries with keys, and of powers with values, that are kept as codes, in pairs of neighbours.

Where the processor sums up two products of i16, queries and powers are rounded to 16 bits and all products are exact;
:mod:`MNN.reference.paged` says why no sum overflows. Elsewhere pairs are taken apart, and multiplied as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from MNN.backends.cpu.attention.frame import Frame
from MNN.backends.cpu.attention.parts import absolute, across, greater, lanes_of, word_codes
from MNN.backends.cpu.lang.module import F32, I8, I16, I32, Value
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.reference.paged import KEY_NORM

_MOST_CODE = 32767.0
_PRODUCT = 2.1e9
"""What no sum of products is larger than, a little less than 2^31: codes are rounded."""
_POWERS_NORM = 32000.0
"""The Euclidean norm of a row's powers of a page, where values have 16 bits."""


class Pairs:
    """Tiles of registers: rows of numbers in 16 bits (or floats) times a head of a page in pairs."""

    def __init__(self, frame: Frame, name: str, bits: int) -> None:
        self.f, self.name, self.bits = frame, name, bits
        self.integers = frame.b.can(can.DOT2_I16) or frame.b.can(can.PAIRS_I16)
        many = frame.target.vector_registers >= 32
        self.most = 24 if many else 10
        """Sums that registers hold, beside what is multiplied."""
        self.rows = self.most // (4 if many else 2)
        """Of a tile: those that leave room for a whole row of the pool, which is then read from front to back."""

    def wide(self, rows: int, vectors: int, results: int = 1) -> int:
        """Vectors of a tile, a share of all ``vectors``, each with so many ``results``."""
        fits = [n for n in (4, 2, 1) if vectors % n == 0 and n * results * rows <= self.most]
        return fits[0] if fits else 1

    def left(self, place: Value, at: Value) -> list[Value]:
        """Numbers ``at`` and ``at + 1`` of a row in every lane: one vector of pairs, or two of floats."""
        b, lanes = self.f.b, self.f.lanes
        if self.integers:
            pair = b.load(I32, b.gep(place, I16, at), align=2)
            return [b.bitcast(b.splat(pair, lanes), I16.vec(2 * lanes))]
        return [b.splat(b.load(F32, b.gep(place, F32, at + i)), lanes) for i in (0, 1)]

    def right(self, place: Value) -> list[list[Value]]:
        """Pairs of a vector's codes from ``place`` on, as :meth:`left` has them; of two halves with 4 bits."""
        b, wide = self.f.b, I16.vec(2 * self.f.lanes)
        if self.bits == 16:
            halves = [b.load(wide, place)]
        else:
            codes = b.convert("zext", b.load(I8.vec(2 * self.f.lanes), place), wide)
            halves = [codes] if self.bits == 8 else [b.and_(codes, 15), b.lshr(codes, 4)]
        return [[half] if self.integers else self._apart(half) for half in halves]

    def _apart(self, pairs: Value) -> list[Value]:
        b, lanes = self.f.b, self.f.lanes
        both = b.bitcast(pairs, I32.vec(lanes))
        return [b.convert("sitofp", b.ashr(x, 16), F32.vec(lanes)) for x in (b.shl(both, 16), both)]

    def zero(self) -> Value:
        return self.f.b.const(I32.vec(self.f.lanes) if self.integers else self.f.vector, 0)

    def dot(self, total: Value, left: Sequence[Value], right: Sequence[Value]) -> Value:
        b = self.f.b
        if not self.integers:
            for x, y in zip(left, right, strict=True):
                total = b.fma(x, y, total)
            return total
        x, y = left[0], right[0]
        if b.can(can.DOT2_I16):
            return b.perform(can.DOT2_I16, total.type, total, y, x)
        return b.add(total, b.perform(can.PAIRS_I16, total.type, y, x))

    def number(self, total: Value) -> Value:
        """A sum as f32."""
        return self.f.b.convert("sitofp", total, self.f.vector) if self.integers else total

    def tile(
        self,
        rows: Sequence[Value],
        place: Value,
        step: int,
        pairs: Value | int,
        wide: int,
        upper: int,
        ask: Callable[[Value], None],
    ) -> list[Value]:
        """Sums of ``rows`` times ``wide`` vectors from ``place`` on, over so many ``pairs`` of the depth, which are
        ``step`` elements apart.

        With 4 bits, upper halves are of columns of their own (``upper`` 0), whose sums stand behind each of the lower
        ones, or go on the depth, at ``upper`` of the rows. ``ask`` is called with the number of each iteration.
        """
        b, lanes = self.f.b, self.f.lanes
        element = I16 if self.bits == 16 else I8
        split = self.bits == 4 and not upper
        results = wide * (2 if split else 1)
        # One pair in an iteration: of two dependent ones LLVM makes the second of two instructions (x86).
        with b.loop(0, pairs, carry=[self.zero()] * (len(rows) * results)) as each:
            sums = list(each.carried)
            ask(each.index)
            start = b.gep(place, element, each.index * step)
            right = [self.right(b.gep(start, element, j * 2 * lanes)) for j in range(wide)]
            for r, row in enumerate(rows):
                left = self.left(row, each.index * 2)
                other = self.left(row, each.index * 2 + upper) if upper else left
                for j, halves in enumerate(right):
                    for h, half in enumerate(halves):
                        n = r * results + (2 * j + h if split else j)
                        sums[n] = self.dot(sums[n], other if h else left, half)
            each.next(*sums)
        return each.results


class CodedKeys:
    """Scores of a page whose keys are codes."""

    def __init__(self, frame: Frame) -> None:
        self.f, self.bits = frame, frame.spec.key_bits
        self.pairs = Pairs(frame, "keys", self.bits)
        self.rows = self.pairs.rows

    def prepare(self, row: Value, scale: Value) -> None:
        """A row of queries times their scale in codes of 16 bits, what one of these is worth, and their sum."""
        f, b, spec = self.f, self.f.b, self.f.spec
        lanes = lanes_of(spec.size, f.lanes)
        vector = F32.vec(lanes)
        source, to = f.at("q", row), f.query(row)
        zero = b.const(vector, 0.0)
        with b.loop(0, spec.size, lanes, carry=[zero, zero]) as each:
            x = b.load(vector, b.gep(source, F32, each.index))
            largest = greater(b, absolute(b, x), each.carried[1])
            each.next(b.add(each.carried[0], x), largest)
        if self.bits != 16:
            b.store(b.mul(across(b, each.results[0], b.add), scale), f.number("query_sum", row))
        if not self.pairs.integers:
            b.store(scale, f.number("query_scale", row))
            with b.loop(0, spec.size, lanes) as each:
                b.store(b.load(vector, b.gep(source, F32, each.index)), b.gep(to, F32, each.index))
            with b.loop(spec.size, spec.held) as rest:
                b.store(b.const(F32, 0.0), b.gep(to, F32, rest.index))
            return
        largest = across(b, each.results[1], lambda x, y: greater(b, x, y))
        some = b.fcmp("ogt", largest, 1e-30)
        inverse = b.select(some, b.fdiv(b.const(F32, 1.0), largest), b.const(F32, 0.0))
        with b.loop(0, spec.size, lanes, carry=[zero]) as each:
            x = b.mul(b.load(vector, b.gep(source, F32, each.index)), b.splat(inverse, lanes))
            each.next(b.fma(x, x, each.carried[0]))
        norm = b.intrinsic("sqrt", across(b, each.results[0], b.add))  # over the largest: 1 and more, NaN or 0
        keys = KEY_NORM + sqrt(spec.held) if self.bits == 16 else ((1 << self.bits) - 1) * sqrt(spec.held)
        limit = b.fdiv(b.const(F32, _PRODUCT / keys - sqrt(spec.held)), norm)
        factor = b.mul(b.select(b.fcmp("ult", limit, _MOST_CODE), limit, b.const(F32, _MOST_CODE)), inverse)
        b.store(b.select(some, b.fdiv(scale, factor), b.mul(norm, 0.0)), f.number("query_scale", row))
        with b.loop(0, spec.size, lanes) as each:
            x = b.mul(b.load(vector, b.gep(source, F32, each.index)), b.splat(factor, lanes))
            b.store(b.convert("trunc", word_codes(b, x), I16.vec(lanes)), b.gep(to, I16, each.index))
        with b.loop(spec.size, spec.held) as rest:
            b.store(b.const(I16, 0), b.gep(to, I16, rest.index))

    def scores(self, row: Value, rows: int, head: Value, part: tuple[int, int]) -> None:
        """Products of some queries with all keys of a page, while those of the next one are asked for: a whole page
        ahead, as lines come from far memory slower than they are multiplied."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        half = self.bits == 4
        depth = spec.held // 2 if half else spec.held  # rows of the pool
        keys = b.gep(f.k.pointer("keys"), I16 if self.bits == 16 else I8, head * (depth * spec.page))
        queries = [f.query(row + r) for r in range(rows)]
        wide = self.pairs.wide(rows, spec.page // lanes)
        columns, times = spec.page // (wide * lanes), depth // 2
        with b.loop(0, columns) as column:
            first = column.index * (wide * lanes)
            place = b.gep(keys, I16 if self.bits == 16 else I8, first * 2)

            def ask(n: Value, column: Value = column.index) -> None:
                f.ask("keys", f.after, column * times + n, times * columns, part)

            sums = self.pairs.tile(queries, place, 2 * spec.page, depth // 2, wide, depth if half else 0, ask)
            for j in range(wide):
                scales = [self._scale(head, n, first + j * lanes) for n in range(1 if self.bits == 16 else 2)]
                for r in range(rows):
                    own = b.splat(b.load(F32, f.number("query_scale", row + r)), lanes)
                    x = b.mul(b.mul(self.pairs.number(sums[r * wide + j]), scales[0]), own)
                    if len(scales) > 1:
                        x = b.fma(b.splat(b.load(F32, f.number("query_sum", row + r)), lanes), scales[1], x)
                    b.store(x, b.gep(b.gep(f.scores(row + r), F32, first), F32, j * lanes))

    def _scale(self, head: Value, which: int, at: Value) -> Value:
        f, b = self.f, self.f.b
        kinds = 1 if self.bits == 16 else 2
        start = head * (kinds * f.spec.page) + which * f.spec.page
        return b.load(f.vector, b.gep(f.k.pointer("keys_scales"), F32, start + at))


class CodedValues:
    """Sums of a page whose values are codes."""

    largest: Value
    """Powers are multiplied by scales of values, over the largest scale of the page where values have few bits."""

    def __init__(self, frame: Frame) -> None:
        self.f, self.bits = frame, frame.spec.value_bits
        self.pairs = Pairs(frame, "values", self.bits)
        self.rows, self.integers = self.pairs.rows, self.pairs.integers

    def ready(self, head: Value, known: Value) -> None:
        """The largest scale of a page's ``known`` tokens."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        if self.bits == 16 or not self.integers:
            return
        known32 = b.splat(b.convert("trunc", known, I32), lanes)
        found = b.const(f.vector, 0.0)
        for j in range(0, spec.page, lanes):
            there = b.icmp("ult", b.add(b.lane_numbers(I32, lanes), j), known32)
            scale = b.select(there, f.scale("values", head, 0, j), b.const(f.vector, 0.0))
            found = b.select(b.fcmp("ult", scale, found), found, scale)
        self.largest = across(b, found, lambda x, y: b.select(b.fcmp("ult", x, y), y, x))

    def keep(self, row: Value, powers: Sequence[Value], seen: Sequence[Value] | None, head: Value) -> None:
        """Powers of a row times scales of values, and the sum of offsets; ``seen``: which tokens count. In codes of
        16 bits, with what one of these is worth, but for values of 16 bits (:meth:`code_powers`)."""
        f, b, lanes = self.f, self.f.b, self.f.lanes
        to, none = f.scores(row), b.const(f.vector, 0.0)

        def weighted(which: int) -> list[Value]:
            found = [b.mul(x, f.scale("values", head, which, j * lanes)) for j, x in enumerate(powers)]
            return found if seen is None else [b.select(s, x, none) for s, x in zip(seen, found, strict=True)]

        if self.bits != 16:
            b.store(pairwise(weighted(1), b.add), f.spread("page_offset", row))
        found = weighted(0)
        if self.integers and self.bits == 16:  # codes follow from all rows' norms
            b.store(pairwise([b.mul(x, x) for x in found], b.add), f.spread("page_squares", row))
        if not self.integers or self.bits == 16:
            for j, x in enumerate(found):
                b.store(x, b.gep(to, F32, j * lanes))
            if not self.integers:
                b.store(b.const(F32, 1.0), f.number("weight_scale", row))
            return
        unit = b.mul(self.largest, 1 / _MOST_CODE)
        b.store(unit, f.number("weight_scale", row))
        self._code(row, found, self._factor(unit))

    def code_powers(self) -> None:
        """Powers of all rows in codes where :meth:`keep` has left them as floats, and what is worth what."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        if not self.integers or self.bits != 16:
            return
        with b.loop(0, f.count) as row:  # in a loop of their own: rows wait for nothing but each their own sum
            squares = across(b, b.load(f.vector, f.spread("page_squares", row.index)), b.add)
            b.store(squares, f.number("weight_scale", row.index))
        with b.loop(0, f.count, lanes) as rows:
            place = f.number("weight_scale", rows.index)
            unit = b.mul(b.intrinsic("sqrt", b.load(f.vector, place)), 1 / _POWERS_NORM)
            b.store(unit, place)
            b.store(self._factor(unit), f.number("weight_factor", rows.index))
        with b.loop(0, f.count) as row:
            found = [b.load(f.vector, b.gep(f.scores(row.index), F32, j)) for j in range(0, spec.page, lanes)]
            self._code(row.index, found, b.load(F32, f.number("weight_factor", row.index)))

    def _factor(self, unit: Value) -> Value:
        """What numbers are multiplied by to be counted in units."""
        b = self.f.b
        some = b.fcmp("ugt", unit, 1e-35)
        return b.select(some, b.fdiv(b.const(unit.type, 1.0), unit), b.const(unit.type, 0.0))

    def _code(self, row: Value, weights: Sequence[Value], factor: Value) -> None:
        """Weights of a row in codes of 16 bits."""
        f, b, lanes = self.f, self.f.b, self.f.lanes
        for j, x in enumerate(weights):
            words = b.convert("trunc", word_codes(b, b.mul(x, b.splat(factor, lanes))), I16.vec(lanes))
            b.store(words, b.gep(f.scores(row), I16, j * lanes))

    def mix(self, row: Value, rows: int, head: Value, known: Value, part: tuple[int, int]) -> None:
        """Sums of a page's first ``known`` values, weighted with the powers, added to those of the pages before, while
        those of the next page are asked for."""
        f, b, spec, lanes = self.f, self.f.b, self.f.spec, self.f.lanes
        half = self.bits == 4
        width, element = spec.padded // 2 if half else spec.padded, I16 if self.bits == 16 else I8
        values = b.gep(f.k.pointer("values"), element, head * (width * spec.page))
        powers = [f.scores(row + r) for r in range(rows)]
        halves = 2 if half else 1
        wide = self.pairs.wide(rows, width // lanes, halves)
        columns, times = width // (wide * lanes), spec.page // 2
        pairs = b.lshr(known + 1, 1)  # the power of a token that is not known is zero
        with b.loop(0, columns) as column:
            first = column.index * (wide * lanes)

            def ask(n: Value, column: Value = column.index) -> None:
                f.ask("values", f.after, column * times + n, times * columns, part)

            sums = self.pairs.tile(powers, b.gep(values, element, first * 2), 2 * width, pairs, wide, 0, ask)
            for r in range(rows):
                decay, share = (b.load(F32, f.number(name, row + r)) for name in ("decay", "share"))
                unit = b.splat(b.mul(share, b.load(F32, f.number("weight_scale", row + r))), lanes)
                for j in range(wide):
                    for h in range(halves):
                        x = self.pairs.number(sums[(r * wide + j) * halves + h])
                        place = b.gep(f.sums(row + r), F32, first + (j * lanes + h * width))
                        old = b.mul(b.load(f.vector, place), b.splat(decay, lanes))
                        b.store(b.fma(x, unit, old), place)


def pairwise(values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """All values combined to one, neighbours first."""
    found = list(values)
    while len(found) > 1:
        found = [combine(*found[i : i + 2]) if i + 1 < len(found) else found[i] for i in range(0, len(found), 2)]
    return found[0]


__all__ = ["CodedKeys", "CodedValues", "pairwise"]
