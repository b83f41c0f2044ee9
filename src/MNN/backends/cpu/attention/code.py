"""Code generation of :class:`MNN.backends.cpu.attention.spec.PagedAttentionSpec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.backends.cpu.attention.parts import across, code_vectors, greater, lanes_of
from MNN.backends.cpu.attention.spec import NUMBERS, SPREAD, PagedAttentionSpec, tile_of
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import load, storage_type
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Kernel, Loop, Value
from MNN.backends.cpu.math.functions import LOG2_E, exp2
from MNN.backends.cpu.math.functions import tanh as tanh_of
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_UNROLL = 4
_LINE = 64
_SECOND = 2
"""The second-level cache: a core waits for fewer lines of the first than memory has to be asked for at once."""
_LOWEST = float("-inf")


@generates(PagedAttentionSpec)
def emit_paged_attention(spec: PagedAttentionSpec, target: Target) -> str:
    """The module's text."""
    return _Attending(spec, target).emit()


class _Attending:
    """The state of one emission: the kernel, and the values that hold for the current block."""

    def __init__(self, spec: PagedAttentionSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)
        self.rows, self.wide = tile_of(target)
        self.vector = F32.vec(self.lanes)
        self.group: Value
        self.first: Value
        """The tile's first row of queries."""
        self.position: Value
        self.after: Value
        """The head of keys of the page that follows."""
        self.count: Value
        """Rows of the tile."""

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        with b.loop(k.begin, k.end) as block:
            number = b.udiv(block.index, spec.groups)
            self.group = block.index - number * spec.groups
            record = b.gep(k.pointer("tiles"), I64, number * 4)
            self.first, tokens, begin, self.position = (b.load(I64, b.gep(record, I64, i)) for i in range(4))
            self.count = tokens * spec.share
            # What does not fit is left out: nothing outside the operands is ever read.
            fits = b.icmp("ule", tokens, spec.tile)
            fits = b.and_(fits, b.icmp("ule", self.first, k.slot("tokens") - tokens))
            fits = b.and_(fits, b.icmp("sge", self.position, 0))
            fits = b.and_(fits, b.icmp("ne", tokens, 0))
            b.if_(fits, lambda begin=begin, tokens=tokens: self._tile(begin, tokens))  # type: ignore[misc]
        return k.finish()

    def _tile(self, begin: Value, tokens: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        self._begin()
        past = self.position + tokens
        oldest = b.intrinsic("smax", self.position + 1 - k.slot("window"), b.const(I64, 0))
        end = b.udiv(past + (spec.page - 1), spec.page)
        with b.loop(b.udiv(oldest, spec.page), end) as each:
            head = self._head(begin + each.index)
            self.after = self._head(begin + b.intrinsic("smin", each.index + 1, end - 1))
            base = each.index * spec.page
            self._each(lambda row, rows, part, head=head: self._scores(row, rows, head, part))  # type: ignore[misc]
            newest, first = base + (spec.page - 1), base + k.slot("window")
            whole = b.and_(b.icmp("sle", newest, self.position), b.icmp("sge", first, past))
            b.choose(
                whole,
                lambda base=base, head=head: self._complete(base, head, False),  # type: ignore[misc]
                lambda base=base, head=head: self._complete(base, head, True),  # type: ignore[misc]
            )
            self._decays()
            with b.loop(0, self.count) as row:
                self._powers(row.index, head)
            known = b.intrinsic("smin", past - base, b.const(I64, spec.page))
            self._each(lambda row, rows, part, head=head, known=known: self._mix(row, rows, head, known, part))  # type: ignore[misc]
        with b.loop(0, self.count) as row:
            self._finish(row.index)

    def _head(self, entry: Value) -> Value:
        """Which of all heads of keys is this group's in the page of an entry of the table."""
        k, b, spec = self.k, self.b, self.spec
        place = b.gep(k.pointer("table"), I64, b.intrinsic("umin", entry, k.slot("entries") - 1))
        return b.intrinsic("umin", b.load(I64, place), k.slot("pages") - 1) * spec.groups + self.group

    def _each(self, run: Callable[[Value, int, tuple[int, int]], None]) -> None:
        """``run(row, rows, part)`` for all rows of the tile; ``part``: which it is, of how many in a sequence."""
        b, spec = self.b, self.spec

        def some(row: Value, rows: int) -> None:
            parts = -(-rows // self.rows)
            ends = [rows * i // parts for i in range(parts + 1)]
            for i, start in enumerate(ends[:-1]):
                run(row + start, ends[i + 1] - start, (i, parts))

        whole = self.count - b.urem(self.count, spec.rows)
        with b.loop(0, whole, spec.rows) as many:
            some(many.index, spec.rows)
        if spec.rest != spec.rows:
            with b.loop(whole, self.count, spec.rest) as few:
                some(few.index, spec.rest)

    # -- scratch ----------------------------------------------------------------------------------------------------

    def _scores_of(self, row: Value) -> Value:
        return self.b.gep(self.k.scratch, F32, row * self.spec.page)

    def _sums_of(self, row: Value) -> Value:
        spec = self.spec
        return self.b.gep(self.k.scratch, F32, row * spec.padded + spec.most * spec.page)

    def _number(self, name: str, row: Value) -> Value:
        """Where a number of a row is; see ``NUMBERS``. Those of neighbouring rows are neighbours."""
        spec, room = self.spec, self.spec.room(self.lanes)
        start = spec.most * (spec.page + spec.padded) + room * NUMBERS.index(name)
        return self.b.gep(self.k.scratch, F32, row + start)

    def _lanes_of(self, name: str, row: Value) -> Value:
        """Where a number of a row is that is kept as a vector to be added up at the end; see ``SPREAD``."""
        spec = self.spec
        start = spec.most * (spec.page + spec.padded + self.lanes * SPREAD.index(name))
        return self.b.gep(self.k.scratch, F32, row * self.lanes + (start + spec.room(self.lanes) * len(NUMBERS)))

    def _query(self, row: Value) -> Value:
        """Where a row of queries, times their scale, begins."""
        spec, lanes = self.spec, self.lanes
        start = spec.most * (spec.page + spec.padded + lanes * len(SPREAD)) + spec.room(lanes) * len(NUMBERS)
        return self.b.gep(self.k.scratch, F32, row * spec.size + start)

    def _at(self, name: str, row: Value) -> Value:
        k, b, spec = self.k, self.b, self.spec
        token = b.udiv(row, spec.share)
        head = self.group * spec.share + (row - token * spec.share)
        return b.gep(k.pointer(name), F32, (self.first + token) * k.slot(f"{name}_t") + head * k.slot(f"{name}_h"))

    def _begin(self) -> None:
        b, spec = self.b, self.spec
        none = b.const(self.vector, 0.0)
        with b.loop(0, self.count) as row:
            b.store(b.const(F32, _LOWEST), self._number("highest", row.index))
            for name in SPREAD:
                b.store(none, self._lanes_of(name, row.index))
            with b.loop(0, spec.padded, self.lanes) as each:
                b.store(none, b.gep(self._sums_of(row.index), F32, each.index))
            self._scaled(row.index)

    def _scaled(self, row: Value) -> None:
        """Copies a row of queries times their scale, and adds it up. Scores are exponents of 2 from the start, but for
        those that are capped."""
        k, b, spec = self.k, self.b, self.spec
        lanes = lanes_of(spec.size, self.lanes)
        scale = b.splat(b.mul(k.slot("scale", F32), 1.0 if spec.capped else LOG2_E), lanes)
        source, to = self._at("q", row), self._query(row)
        with b.loop(0, spec.size, lanes, carry=[b.const(F32.vec(lanes), 0.0)]) as each:
            x = b.mul(b.load(F32.vec(lanes), b.gep(source, F32, each.index)), scale)
            b.store(x, b.gep(to, F32, each.index))
            each.next(b.add(each.carried[0], x))
        if spec.key_bits:
            b.store(across(b, each.results[0], b.add), self._number("query_sum", row))

    # -- the three steps of a page ----------------------------------------------------------------------------------

    def _scores(self, row: Value, rows: int, head: Value, part: tuple[int, int]) -> None:
        """Products of some queries with all keys of a page, while its values are asked for."""
        b, spec = self.b, self.spec
        depth = spec.size // 2 if spec.key_bits == 4 else spec.size
        step = max(n for n in range(1, _UNROLL + 1) if depth % n == 0)
        element = I8 if spec.key_bits else storage_type(spec.key_type)
        keys = b.gep(self.k.pointer("keys"), element, head * (depth * spec.page))
        queries = [self._query(row + r) for r in range(rows)]
        wide = self.wide if spec.page // self.lanes % self.wide == 0 else 2
        columns = spec.page // (wide * self.lanes)
        with b.loop(0, columns) as column:
            first = column.index * (wide * self.lanes)
            zeros = [b.const(self.vector, 0.0)] * (rows * wide)
            with b.loop(0, depth, step, carry=zeros) as each:
                sums = list(each.carried)
                for u in range(step):
                    at = b.gep(keys, element, (each.index + u) * spec.page + first)
                    self._ask("values", head, column.index * depth + (each.index + u), depth * columns, part)
                    halves = [self._key(b.gep(at, element, j * self.lanes)) for j in range(wide)]
                    for half in range(len(halves[0])):
                        place = each.index + (u + half * depth)
                        for r, query in enumerate(queries):
                            left = b.splat(b.load(F32, b.gep(query, F32, place)), self.lanes)
                            for j in range(wide):
                                i = r * wide + j
                                sums[i] = b.fma(left, halves[j][half], sums[i])
                each.next(*sums)
            for r in range(rows):
                to = b.gep(self._scores_of(row + r), F32, first)
                for j in range(wide):
                    b.store(each.results[r * wide + j], b.gep(to, F32, j * self.lanes))

    def _ask(self, name: str, head: Value, step: Value, steps: int, part: tuple[int, int]) -> None:
        """Asks for what is read next, a head of a page, little by little: processors do not see what page follows."""
        b, size = self.b, self.spec.head_bytes(name)
        index, parts = part
        each = -(-size // (steps * parts))
        start = b.gep(self.k.pointer(name), I8, head * size)
        place = b.gep(start, I8, (step * parts + index) * each)
        for line in range(0, each, _LINE):
            b.prefetch(b.gep(place, I8, line), _SECOND)

    def _key(self, pointer: Value) -> list[Value]:
        """Numbers of neighbouring keys; two vectors of them with 4 bits."""
        spec = self.spec
        if spec.key_bits:
            return code_vectors(self.b, pointer, self.lanes, spec.key_bits)
        return [load(self.b, spec.key_type, pointer, self.lanes)]

    def _complete(self, base: Value, head: Value, masked: bool) -> None:
        """What belongs to the scores of all rows besides products; ``masked``: some keys are not seen."""
        with self.b.loop(0, self.count) as row:
            self._complete_row(row.index, base, head, masked)

    def _complete_row(self, row: Value, base: Value, head: Value, masked: bool) -> None:
        k, b, spec, lanes = self.k, self.b, self.spec, self.lanes
        here = self.position + b.udiv(row, spec.share) - base  # the last key of the page that is seen, and the first
        last = b.intrinsic("smin", here, b.const(I64, spec.page))
        oldest = b.intrinsic("smax", here + 1 - k.slot("window"), b.const(I64, 0))
        last, oldest = (b.splat(b.convert("trunc", n, I32), lanes) for n in (last, oldest))
        scores, places = [], self._scores_of(row)
        offset = b.splat(b.load(F32, self._number("query_sum", row)), lanes) if spec.key_bits else None
        lane = b.lane_numbers(I32, lanes)
        for j in range(0, spec.page, lanes):
            x = b.load(self.vector, b.gep(places, F32, j))
            if offset is not None:
                x = b.fma(x, self._scale("keys", head, 0, j), b.mul(offset, self._scale("keys", head, 1, j)))
            if spec.capped:
                cap = k.slot("cap", F32)
                x = b.mul(tanh_of(b, b.fdiv(x, b.splat(cap, lanes))), b.splat(b.mul(cap, LOG2_E), lanes))
            if masked:
                at = b.add(lane, j)
                seen = b.and_(b.icmp("sle", at, last), b.icmp("sge", at, oldest))
                x = b.select(seen, x, b.const(self.vector, _LOWEST))
            scores.append(x)
            b.store(x, b.gep(places, F32, j))
        top = across(b, self._pairwise(scores, lambda x, y: greater(b, x, y)), lambda x, y: greater(b, x, y))
        b.store(top, self._number("top", row))

    def _decays(self) -> None:
        """The running maxima of all rows, and what their sums so far are multiplied by."""
        b = self.b
        none = b.const(self.vector, 0.0)
        with b.loop(0, self.count, self.lanes) as rows:
            before = b.load(self.vector, self._number("highest", rows.index))
            top = greater(b, b.load(self.vector, self._number("top", rows.index)), before)
            b.store(top, self._number("highest", rows.index))
            shift = b.select(b.fcmp("oeq", top, _LOWEST), none, top)  # nothing is seen yet
            b.store(shift, self._number("top", rows.index))
            b.store(exp2(b, b.sub(before, shift)), self._number("decay", rows.index))

    def _powers(self, row: Value, head: Value) -> None:
        """From the scores of a row to its powers, with their running sum."""
        b, spec, lanes = self.b, self.spec, self.lanes
        places = self._scores_of(row)
        shift, decay = (b.splat(b.load(F32, self._number(name, row)), lanes) for name in ("top", "decay"))
        powers = []
        for j in range(0, spec.page, lanes):
            powers.append(exp2(b, b.sub(b.load(self.vector, b.gep(places, F32, j)), shift)))
        self._add_up("total", row, decay, powers)
        if spec.value_bits:
            offsets = [b.mul(x, self._scale("values", head, 1, j * lanes)) for j, x in enumerate(powers)]
            self._add_up("value_offset", row, decay, offsets)
            powers = [b.mul(x, self._scale("values", head, 0, j * lanes)) for j, x in enumerate(powers)]
        for j, x in enumerate(powers):
            b.store(x, b.gep(places, F32, j * lanes))

    def _add_up(self, name: str, row: Value, decay: Value, found: Sequence[Value]) -> None:
        b, place = self.b, self._lanes_of(name, row)
        b.store(b.fma(b.load(self.vector, place), decay, self._pairwise(found, b.add)), place)

    @staticmethod
    def _pairwise(values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
        found = list(values)
        while len(found) > 1:
            found = [combine(*found[i : i + 2]) if i + 1 < len(found) else found[i] for i in range(0, len(found), 2)]
        return found[0]

    def _scale(self, name: str, head: Value, which: int, at: int) -> Value:
        """Scales (0) or offsets (1) of neighbouring tokens of a page."""
        b, page = self.b, self.spec.page
        return b.load(
            self.vector, b.gep(self.k.pointer(f"{name}_scales"), F32, head * (2 * page) + (which * page + at))
        )

    def _mix(self, row: Value, rows: int, head: Value, known: Value, part: tuple[int, int]) -> None:
        """Sums of a page's first ``known`` values, weighted with the powers, added to those of the pages before, while
        the next page's keys are asked for."""
        b, spec, lanes = self.b, self.spec, self.lanes
        element = I8 if spec.value_bits else storage_type(spec.value_type)
        width = spec.padded // 2 if spec.value_bits == 4 else spec.padded
        values = b.gep(self.k.pointer("values"), element, head * (width * spec.page))
        powers = [self._scores_of(row + r) for r in range(rows)]
        decays = [b.load(F32, self._number("decay", row + r)) for r in range(rows)]
        sums = [self._sums_of(row + r) for r in range(rows)]
        four = spec.value_bits == 4
        wide = min(self.wide, -(-width // lanes) * (2 if four else 1)) // (2 if four else 1)  # codes in 4 bits: pairs
        columns = -(-width // (wide * lanes))
        whole = width // (wide * lanes) * (wide * lanes)

        def column(at: Value, vectors: int) -> None:
            apart = [(j * lanes, half * width) for j in range(vectors) for half in range(2 if four else 1)]
            to = [b.gep(s, F32, at + (a + h)) for s in sums for a, h in apart]
            start = [
                b.mul(b.load(self.vector, place), b.splat(decays[i // len(apart)], lanes)) for i, place in enumerate(to)
            ]
            with b.loop(0, known, carry=start) as each:
                step = each.index * columns + b.udiv(at, wide * lanes)
                self._ask("keys", self.after, step, spec.page * columns, part)
                self._products(each, b.gep(values, element, each.index * width + at), powers, vectors)
            for place, total in zip(to, each.results, strict=True):
                b.store(total, place)

        with b.loop(0, whole, wide * lanes) as many:
            column(many.index, wide)
        if width > whole:
            with b.loop(whole, width, lanes) as few:
                column(few.index, 1)

    def _products(self, each: Loop, place: Value, powers: Sequence[Value], vectors: int) -> None:
        """One token's values, weighted, for all rows."""
        b, spec, lanes = self.b, self.spec, self.lanes
        right: list[Value] = []
        for j in range(vectors):
            at = b.gep(place, I8 if spec.value_bits else storage_type(spec.value_type), j * lanes)
            right += (
                code_vectors(b, at, lanes, spec.value_bits)
                if spec.value_bits
                else [load(b, spec.value_type, at, lanes)]
            )
        sums = []
        for r, row in enumerate(powers):
            left = b.splat(b.load(F32, b.gep(row, F32, each.index)), lanes)
            sums += [b.fma(left, x, each.carried[r * len(right) + i]) for i, x in enumerate(right)]
        each.next(*sums)

    def _together(self, name: str, row: Value) -> Value:
        """A number of a row that was kept as a vector."""
        return across(self.b, self.b.load(self.vector, self._lanes_of(name, row)), self.b.add)

    def _finish(self, row: Value) -> None:
        b, spec = self.b, self.spec
        total = self._together("total", row)
        share = b.select(b.fcmp("oeq", total, 0.0), b.const(F32, 0.0), b.fdiv(b.const(F32, 1.0), total))
        lanes = lanes_of(spec.value_size, self.lanes)
        more = self._together("value_offset", row) if spec.value_bits else b.const(F32, 0.0)
        to, source = self._at("out", row), self._sums_of(row)
        with b.loop(0, spec.value_size, lanes) as each:
            x = b.load(F32.vec(lanes), b.gep(source, F32, each.index))
            if spec.value_bits:
                x = b.add(x, b.splat(more, lanes))
            b.store(b.mul(x, b.splat(share, lanes)), b.gep(to, F32, each.index))
