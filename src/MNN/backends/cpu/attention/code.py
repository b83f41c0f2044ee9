"""Code generation of :class:`MNN.backends.cpu.attention.spec.PagedAttentionSpec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.backends.cpu.attention.parts import across, code_vectors, greater, lanes_of
from MNN.backends.cpu.attention.spec import NUMBERS, PagedAttentionSpec
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import load, storage_type
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Kernel, Loop, Value
from MNN.backends.cpu.math.functions import exp
from MNN.backends.cpu.math.functions import tanh as tanh_of
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_WIDE = 2
"""Vectors of a register tile."""
_UNROLL = 4
_LOWEST = float("-inf")


@generates(PagedAttentionSpec)
def emit_paged_attention(spec: PagedAttentionSpec, target: Target) -> str:
    """The module's text."""
    return _Attending(spec, target).emit()


class _Attending:
    """The state of one emission: the kernel, and the values that hold for the current block."""

    def __init__(self, spec: PagedAttentionSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)
        self.vector = F32.vec(self.lanes)
        self.group: Value
        self.first: Value
        """The tile's first row of queries."""
        self.position: Value
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
        with b.loop(b.udiv(oldest, spec.page), b.udiv(past + (spec.page - 1), spec.page)) as each:
            entry = b.intrinsic("umin", begin + each.index, k.slot("entries") - 1)
            page = b.load(I64, b.gep(k.pointer("table"), I64, entry))
            page = b.intrinsic("umin", page, k.slot("pages") - 1)
            head = page * spec.groups + self.group
            base = each.index * spec.page
            self._each(lambda row, rows, head=head: self._scores(row, rows, head))  # type: ignore[misc]
            with b.loop(0, self.count) as row:
                self._powers(row.index, base, head)
            known = b.intrinsic("smin", past - base, b.const(I64, spec.page))
            self._each(lambda row, rows, head=head, known=known: self._mix(row, rows, head, known))  # type: ignore[misc]
        with b.loop(0, self.count) as row:
            self._finish(row.index)

    def _each(self, run: Callable[[Value, int], None]) -> None:
        """``run(row, rows)`` for all rows of the tile."""
        b, spec = self.b, self.spec
        whole = self.count - b.urem(self.count, spec.rows)
        with b.loop(0, whole, spec.rows) as many:
            run(many.index, spec.rows)
        if spec.rest != spec.rows:
            with b.loop(whole, self.count, spec.rest) as few:
                run(few.index, spec.rest)

    # -- scratch ----------------------------------------------------------------------------------------------------

    def _scores_of(self, row: Value) -> Value:
        return self.b.gep(self.k.scratch, F32, row * self.spec.page)

    def _sums_of(self, row: Value) -> Value:
        spec = self.spec
        return self.b.gep(self.k.scratch, F32, row * spec.padded + spec.most * spec.page)

    def _number(self, name: str, row: Value) -> Value:
        """Where a number of a row is; see ``NUMBERS``."""
        spec = self.spec
        start = spec.most * (spec.page + spec.padded + NUMBERS.index(name))
        return self.b.gep(self.k.scratch, F32, row + start)

    def _query(self, row: Value) -> Value:
        """Where a row of queries begins."""
        return self._at("q", row)

    def _at(self, name: str, row: Value) -> Value:
        k, b, spec = self.k, self.b, self.spec
        token = b.udiv(row, spec.share)
        head = self.group * spec.share + (row - token * spec.share)
        return b.gep(k.pointer(name), F32, (self.first + token) * k.slot(f"{name}_t") + head * k.slot(f"{name}_h"))

    def _begin(self) -> None:
        b, spec = self.b, self.spec
        zero, none = b.const(F32, 0.0), b.const(self.vector, 0.0)
        with b.loop(0, self.count) as row:
            b.store(b.const(F32, _LOWEST), self._number("highest", row.index))
            for name in ("total", "value_offset"):
                b.store(zero, self._number(name, row.index))
            with b.loop(0, spec.padded, self.lanes) as each:
                b.store(none, b.gep(self._sums_of(row.index), F32, each.index))
            if spec.key_bits:
                lanes = lanes_of(spec.size, self.lanes)
                with b.loop(0, spec.size, lanes, carry=[b.const(F32.vec(lanes), 0.0)]) as each:
                    x = b.load(F32.vec(lanes), b.gep(self._query(row.index), F32, each.index))
                    each.next(each.carried[0] + x)
                b.store(across(b, each.results[0], b.add), self._number("query_sum", row.index))

    # -- the three steps of a page ----------------------------------------------------------------------------------

    def _scores(self, row: Value, rows: int, head: Value) -> None:
        """Products of some queries with all keys of a page."""
        b, spec = self.b, self.spec
        depth = spec.size // 2 if spec.key_bits == 4 else spec.size
        step = max(n for n in range(1, _UNROLL + 1) if depth % n == 0)
        element = I8 if spec.key_bits else storage_type(spec.key_type)
        keys = b.gep(self.k.pointer("keys"), element, head * (depth * spec.page))
        queries = [self._query(row + r) for r in range(rows)]
        with b.loop(0, spec.page, _WIDE * self.lanes) as column:
            zeros = [b.const(self.vector, 0.0)] * (rows * _WIDE)
            with b.loop(0, depth, step, carry=zeros) as each:
                sums = list(each.carried)
                for u in range(step):
                    at = b.gep(keys, element, (each.index + u) * spec.page + column.index)
                    halves = [self._key(b.gep(at, element, j * self.lanes)) for j in range(_WIDE)]
                    for half in range(len(halves[0])):
                        place = each.index + (u + half * depth)
                        for r, query in enumerate(queries):
                            left = b.splat(b.load(F32, b.gep(query, F32, place)), self.lanes)
                            for j in range(_WIDE):
                                i = r * _WIDE + j
                                sums[i] = b.fma(left, halves[j][half], sums[i])
                each.next(*sums)
            for r in range(rows):
                to = b.gep(self._scores_of(row + r), F32, column.index)
                for j in range(_WIDE):
                    b.store(each.results[r * _WIDE + j], b.gep(to, F32, j * self.lanes))

    def _key(self, pointer: Value) -> list[Value]:
        """Numbers of neighbouring keys; two vectors of them with 4 bits."""
        spec = self.spec
        if spec.key_bits:
            return code_vectors(self.b, pointer, self.lanes, spec.key_bits)
        return [load(self.b, spec.key_type, pointer, self.lanes)]

    def _powers(self, row: Value, base: Value, head: Value) -> None:
        """From the scores of a row to its powers, with the running maximum and sum."""
        k, b, spec, lanes = self.k, self.b, self.spec, self.lanes
        here = self.position + b.udiv(row, spec.share) - base  # the last key of the page that is seen, and the first
        last = b.intrinsic("smin", here, b.const(I64, spec.page))
        oldest = b.intrinsic("smax", here + 1 - k.slot("window"), b.const(I64, 0))
        last, oldest = (b.splat(b.convert("trunc", n, I32), lanes) for n in (last, oldest))
        scale = b.splat(k.slot("scale", F32), lanes)
        scores, places = [], self._scores_of(row)
        offset = b.splat(b.load(F32, self._number("query_sum", row)), lanes) if spec.key_bits else None
        lane = b.lane_numbers(I32, lanes)
        for j in range(0, spec.page, lanes):
            x = b.load(self.vector, b.gep(places, F32, j))
            if offset is not None:
                x = b.fma(x, self._scale("keys", head, 0, j), b.mul(offset, self._scale("keys", head, 1, j)))
            x = b.mul(x, scale)
            if spec.capped:
                cap = b.splat(k.slot("cap", F32), lanes)
                x = b.mul(tanh_of(b, b.fdiv(x, cap)), cap)
            at = b.add(lane, j)
            seen = b.and_(b.icmp("sle", at, last), b.icmp("sge", at, oldest))
            scores.append(b.select(seen, x, b.const(self.vector, _LOWEST)))
        before = b.load(F32, self._number("highest", row))
        top = greater(
            b, across(b, self._pairwise(scores, lambda x, y: greater(b, x, y)), lambda x, y: greater(b, x, y)), before
        )
        b.store(top, self._number("highest", row))
        shift = b.select(b.fcmp("oeq", top, _LOWEST), b.const(F32, 0.0), top)  # nothing is seen yet
        wide = b.splat(shift, lanes)
        decay = b.extract(exp(b, b.sub(b.splat(before, lanes), wide)), 0)
        b.store(decay, self._number("decay", row))
        powers = [exp(b, b.sub(x, wide)) for x in scores]
        total = across(b, self._pairwise(powers, b.add), b.add)
        place = self._number("total", row)
        b.store(b.add(b.mul(b.load(F32, place), decay), total), place)
        if spec.value_bits:
            offsets = [b.mul(x, self._scale("values", head, 1, j * lanes)) for j, x in enumerate(powers)]
            place, more = self._number("value_offset", row), across(b, self._pairwise(offsets, b.add), b.add)
            b.store(b.add(b.mul(b.load(F32, place), decay), more), place)
            powers = [b.mul(x, self._scale("values", head, 0, j * lanes)) for j, x in enumerate(powers)]
        for j, x in enumerate(powers):
            b.store(x, b.gep(places, F32, j * lanes))

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

    def _mix(self, row: Value, rows: int, head: Value, known: Value) -> None:
        """Sums of a page's first ``known`` values, weighted with the powers, added to those of the pages before."""
        b, spec, lanes = self.b, self.spec, self.lanes
        element = I8 if spec.value_bits else storage_type(spec.value_type)
        width = spec.padded // 2 if spec.value_bits == 4 else spec.padded
        values = b.gep(self.k.pointer("values"), element, head * (width * spec.page))
        powers = [self._scores_of(row + r) for r in range(rows)]
        decays = [b.load(F32, self._number("decay", row + r)) for r in range(rows)]
        sums = [self._sums_of(row + r) for r in range(rows)]
        four = spec.value_bits == 4
        wide = 1 if four else _WIDE  # vectors that are loaded; with 4 bits each holds two
        whole = width // (wide * lanes) * (wide * lanes)

        def column(at: Value, vectors: int) -> None:
            apart = [(j * lanes, half * width) for j in range(vectors) for half in range(2 if four else 1)]
            to = [b.gep(s, F32, at + (a + h)) for s in sums for a, h in apart]
            start = [
                b.mul(b.load(self.vector, place), b.splat(decays[i // len(apart)], lanes)) for i, place in enumerate(to)
            ]
            with b.loop(0, known, carry=start) as each:
                self._products(each, b.gep(values, element, each.index * width + at), element, powers, vectors)
            for place, total in zip(to, each.results, strict=True):
                b.store(total, place)

        with b.loop(0, whole, wide * lanes) as many:
            column(many.index, wide)
        if width > whole:
            with b.loop(whole, width, lanes) as few:
                column(few.index, 1)

    def _products(self, each: Loop, place: Value, element: object, powers: Sequence[Value], vectors: int) -> None:
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

    def _finish(self, row: Value) -> None:
        b, spec = self.b, self.spec
        total = b.load(F32, self._number("total", row))
        share = b.select(b.fcmp("oeq", total, 0.0), b.const(F32, 0.0), b.fdiv(b.const(F32, 1.0), total))
        lanes = lanes_of(spec.value_size, self.lanes)
        more = b.load(F32, self._number("value_offset", row)) if spec.value_bits else b.const(F32, 0.0)
        to, source = self._at("out", row), self._sums_of(row)
        with b.loop(0, spec.value_size, lanes) as each:
            x = b.load(F32.vec(lanes), b.gep(source, F32, each.index))
            if spec.value_bits:
                x = b.add(x, b.splat(more, lanes))
            b.store(b.mul(x, b.splat(share, lanes)), b.gep(to, F32, each.index))
