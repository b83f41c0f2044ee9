"""Code generation of :class:`MNN.backends.cpu.inner_product.spec.InnerProductSpec`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.inner_product.iteration import emit_iteration, iteration_of
from MNN.backends.cpu.inner_product.layout import EXPONENT, LARGE, NOTES, SMALL, TWICE_ONE
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, PTR, Value, int_type
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.products.work_ranges import Runs
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_Step = Callable[[Sequence[Value], Value, element.Tail | None], list[Value]]

ASKS = 2
"""Lines of the next panel of B that are asked for in a turn: all that there are where four tiles of rows use it."""


@generates(InnerProductSpec)
def inner_product_ir(spec: InnerProductSpec, target: Target) -> str:
    """The module's text. Raises ``ValueError`` where a vector is too short for the notes on a tile."""
    if spec.mr > target.lanes(spec.acc):
        raise ValueError(f"the notes on {spec.mr} rows are no vector of {target.name}")
    return _Inner(spec, target).emit()


class _Inner(TileStore):
    """The plain contraction's blocks, epilogue and stores around another way to the sums."""

    def __init__(self, spec: InnerProductSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec = spec
        self.iteration = iteration_of(target, spec.mr, spec.nv)
        self.scaled = self.iteration.scaled
        k, b = self.k, self.b
        self.notes = b.gep(k.scratch, F32, spec.mr * self.nr)
        self.forbidden: Value | None = None
        self.tile_size = b.and_(k.slot("k") + (self.lanes - 1), -self.lanes) * spec.mr + NOTES * self.lanes

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        runs = Runs(k)
        self.c = k.pointer("c")
        self.ops = [k.pointer(f"op{i}") for i in range(len(spec.operands))]
        with b.loop(runs.first, runs.past) as block:
            _, top, n0 = runs.place(block.index)
            n1 = runs.columns_end(n0)
            fresh = b.or_(b.icmp("eq", n0, 0), b.icmp("eq", block.index, runs.first))
            b.if_(fresh, partial(self._prepare_rows, top, runs.rows_end(top)))
            m0, self.m1 = runs.rows(block.index, top)
            tiles = b.udiv(self.m1 - m0 + (spec.mr - 1), spec.mr)
            share = b.udiv(k.slot("panel") * self.spec.b.size, tiles)
            begin = b.gep(self.notes, F32, b.udiv(m0 - top, b.const(I64, spec.mr)) * self.tile_size)
            turns = b.udiv(k.slot("k") + (self.iteration.steps - 1), b.const(I64, self.iteration.steps))
            self.stride = b.udiv(share, turns if self.iteration.split else turns * ASKS) + 1
            with b.loop(n0, n1, self.nr) as column:
                self.column, self.columns = column.index, n1 - column.index
                panel = b.gep(k.pointer("b"), F32, b.udiv(self.column, self.nr) * k.slot("panel"))
                ahead = b.gep(panel, F32, k.slot("panel"))
                self.forbidden = self._forbidden(panel)
                with b.loop(m0, self.m1, spec.mr, carry=[begin, ahead]) as row:
                    notes, far = row.carried
                    self.finish(row.index, self._tile(row.index, notes, panel, far), spec.mr)
                    row.next(b.gep(notes, F32, self.tile_size), b.gep(far, I8, share))
        return k.finish()

    # Rows of A

    def _starts(self, row: Value) -> list[Value]:
        """Where rows ``row ..`` of A begin; those past the end repeat the last one."""
        k, b = self.k, self.b
        rows = []
        for r in range(self.spec.mr):
            index = row if r == 0 else b.intrinsic("smin", row + r, self.m1 - 1)
            rows.append(b.gep(k.pointer("a"), F32, b.entry(k.pointer("rows_a"), index)))
        return rows

    def _prepare_rows(self, first: Value, past: Value) -> None:
        """All rows of a block, whichever of them this run computes."""
        self.m1 = past
        with self.b.loop(first, past, self.spec.mr, carry=[self.notes]) as row:
            (notes,) = row.carried
            self._prepare(row.index, notes)
            row.next(self.b.gep(notes, F32, self.tile_size))

    def _prepare(self, row: Value, notes: Value) -> None:
        """Brings the rows of a tile that inner products take to size, beside notes on all of its rows."""
        k, b, spec = self.k, self.b, self.spec
        starts, zero = self._starts(row), b.const(self.acc, 0)

        def squares(sums: Sequence[Value], at: Value, tail: element.Tail | None) -> list[Value]:
            found = [self._part(start, at, tail) for start in starts]
            return [b.fma(x, x, total) for x, total in zip(found, sums, strict=True)]

        sizes = self._sums_of(self._over_row([zero] * spec.mr, squares))
        ones, bits = b.const(self.acc, 1), I32.vec(self.lanes)
        none = b.fcmp("oeq", sizes, zero)
        fine = b.and_(b.fcmp("olt", sizes, b.const(self.acc, LARGE)), b.fcmp("ogt", sizes, b.const(self.acc, SMALL)))
        fine = b.bitcast(b.or_(fine, self._empty(starts, none)), int_type(self.lanes))
        mean = b.fdiv(b.splat(b.convert("sitofp", k.slot("k"), F32), self.lanes), b.select(none, ones, sizes))
        power = b.and_(b.bitcast(b.intrinsic("sqrt", mean), bits), EXPONENT)
        ours = b.icmp("ne", b.const_vector(I32, [r in self.scaled for r in range(self.lanes)]), 0)
        factors = b.select(ours, b.bitcast(power, self.acc), ones)
        inverse = b.select(none, zero, b.bitcast(b.sub(b.const(bits, TWICE_ONE), power), self.acc))
        b.store(b.select(ours, inverse, ones), b.gep(notes, self.acc, 0))
        b.store(factors, b.gep(notes, self.acc, 2))
        b.store(b.convert("zext", b.icmp("ne", fine, -1), I32), b.gep(notes, self.acc, 3))
        prepared, swapped = b.gep(notes, self.acc, NOTES), [lane ^ 1 for lane in range(self.lanes)]

        def bring(sums: Sequence[Value], at: Value, tail: element.Tail | None) -> list[Value]:
            totals = list(sums)
            for r, start in enumerate(starts):
                x = self._part(start, at, tail)
                if r in self.scaled:
                    x = b.mul(x, b.splat(b.load(F32, b.gep(b.gep(notes, self.acc, 2), F32, r)), self.lanes))
                    i = self.scaled.index(r)
                    totals[i] = b.fma(x, b.shuffle(x, None, swapped), totals[i])
                b.store(x, b.gep(prepared, F32, at * spec.mr + r * self.lanes))
            return totals

        totals: list[Value | None] = [None] * spec.mr
        for r, total in zip(self.scaled, self._over_row([zero] * len(self.scaled), bring), strict=True):
            shares = [self.iteration.share(r, lane) for lane in range(self.lanes)]  # lanes hold every product twice
            totals[r] = b.mul(total, b.const_vector(F32, shares))
        b.store(self._sums_of(totals), b.gep(notes, self.acc, 1))

    def _empty(self, starts: Sequence[Value], none: Value) -> Value:
        """Which rows whose squares vanish are zeros indeed."""
        b, bits = self.b, I32.vec(self.lanes)
        one, zero = b.const(self.acc, 1), b.const(self.acc, 0)

        def joined(found: Sequence[Value], at: Value, tail: element.Tail | None) -> list[Value]:
            parts = [b.bitcast(self._part(start, at, tail), bits) for start in starts]
            return [b.or_(total, b.shl(part, 1)) for part, total in zip(parts, found, strict=True)]

        def look() -> list[Value]:
            found = self._over_row([b.const(bits, 0)] * self.spec.mr, joined)
            ones = [b.select(b.icmp("ne", total, 0), one, zero) for total in found]
            return [b.and_(none, b.fcmp("oeq", self._sums_of(ones), zero))]

        real = b.bitcast(none, int_type(self.lanes))
        real = b.and_(real, (1 << self.spec.mr) - 1)  # lanes past the rows are zeros
        return b.if_else(b.icmp("eq", real, 0), lambda: [none], look, likely=True)[0]

    def _part(self, start: Value, at: Value, tail: element.Tail | None) -> Value:
        return element.load(self.b, DType.F32, self.b.gep(start, F32, at), self.lanes, None, tail)

    def _over_row(self, carry: list[Value], step: _Step) -> list[Value]:
        """``step(carried, at, tail)`` for every vector of a row's numbers."""
        b, depth = self.b, self.k.slot("k")
        first: Value | int = 0
        if not self.target.has_masks:  # there masks take as long as what is done with the numbers
            first = b.and_(depth, -self.lanes)
            with b.loop(0, first, self.lanes, carry=carry) as whole:
                whole.next(*step(whole.carried, whole.index, None))
            carry = whole.results
        with b.loop(first, depth, self.lanes, carry=carry, guard=not self.target.has_masks) as loop:
            loop.next(*step(loop.carried, loop.index, self.cut_tail(depth - loop.index, self.lanes)))
        return loop.results

    def _sums_of(self, vectors: Sequence[Value | None]) -> Value:
        """The sum of the lanes of each vector (None: zeros), in the lane of its number; others are 0."""
        b, zero = self.b, self.b.const(self.acc, 0)
        found, size = [*vectors, *[None] * (self.lanes - len(vectors))], self.lanes
        while size > 1:  # two vectors of blocks of ``size`` partial sums become one of blocks of half as many
            blocks = range(0, 2 * self.lanes, size)
            size //= 2
            first = [at + i for at in blocks for i in range(size)]
            joined: list[Value | None] = []
            for x, y in zip(found[0::2], found[1::2], strict=True):
                if x is None and y is None:
                    joined.append(None)
                    continue
                x, y = x or zero, y or zero
                joined.append(b.add(b.shuffle(x, y, first), b.shuffle(x, y, [i + size for i in first])))
            found = joined
        return found[0] or zero

    # Tiles

    def _tile(self, row: Value, notes: Value, panel: Value, far: Value) -> list[Value]:
        """The sums of a tile."""
        b = self.b
        plain = b.icmp("ne", b.load(I32, b.gep(notes, self.acc, 3)), 0)
        if self.forbidden is not None:
            plain = b.or_(plain, self.forbidden)
        weights = b.gep(panel, self.acc, (self.iteration.head + self.spec.screened) * self.spec.nv)
        plainly = self._plain_at_once if self.spec.screened else self._plain
        return b.if_else(plain, lambda: plainly(row, panel, weights), lambda: self._mixed(notes, panel, weights, far))

    def _forbidden(self, panel: Value) -> Value | None:
        """Whether columns of a panel must be multiplied plainly; None where nobody has looked for any."""
        if not self.spec.screened:
            return None
        b, nv = self.b, self.spec.nv
        found = [b.load(I32.vec(self.lanes), b.gep(panel, self.acc, self.iteration.head * nv + j)) for j in range(nv)]
        return b.icmp("ne", b.bitcast(b.icmp("ne", functools.reduce(b.or_, found), 0), int_type(self.lanes)), 0)

    def _plain_at_once(self, row: Value, panel: Value, weights: Value) -> list[Value]:
        """The same as :meth:`_plain`, of all rows together: where weights change, many tiles may need it."""
        k, b, mr, nv = self.k, self.b, self.spec.mr, self.spec.nv
        starts = self._starts(row)
        scales = [b.load(self.acc, b.gep(panel, self.acc, nv + j)) for j in range(nv)]
        carry = [*[b.const(self.acc, 0)] * (mr * nv), weights]
        with b.loop(0, k.slot("k"), carry=carry, guard=False) as loop:
            *sums, at = loop.carried
            right = [b.mul(b.load(self.acc, b.gep(at, self.acc, j)), scales[j]) for j in range(nv)]
            left = [b.splat(b.load(F32, b.gep(start, F32, loop.index)), self.lanes) for start in starts]
            sums = [b.fma(left[i // nv], right[i % nv], total) for i, total in enumerate(sums)]
            loop.next(*sums, b.gep(at, F32, self.nr))
        return loop.results[: mr * nv]

    def _plain(self, row: Value, panel: Value, weights: Value) -> list[Value]:
        """Sums as they are without any of this, one row after the other: powers of two are taken back before weights
        are multiplied."""
        k, b, spec = self.k, self.b, self.spec
        scales = [b.load(self.acc, b.gep(panel, self.acc, spec.nv + j)) for j in range(spec.nv)]
        with b.loop(0, spec.mr, guard=False) as line:
            index = b.intrinsic("smin", row + line.index, self.m1 - 1)
            start = b.gep(k.pointer("a"), F32, b.entry(k.pointer("rows_a"), index))
            carry = [*[b.const(self.acc, 0)] * spec.nv, weights]
            with b.loop(0, k.slot("k"), carry=carry, guard=False) as loop:
                *sums, at = loop.carried
                left = b.splat(b.load(F32, b.gep(start, F32, loop.index)), self.lanes)
                right = [b.mul(b.load(self.acc, b.gep(at, self.acc, j)), scales[j]) for j in range(spec.nv)]
                loop.next(
                    *(b.fma(left, x, total) for x, total in zip(right, sums, strict=True)), b.gep(at, F32, self.nr)
                )
            for j in range(spec.nv):
                b.store(loop.results[j], b.gep(self.tile, self.acc, line.index * spec.nv + j))
        return [b.load(self.acc, b.gep(self.tile, self.acc, i)) for i in range(spec.mr * spec.nv)]

    def _mixed(self, notes: Value, panel: Value, weights: Value, far: Value) -> list[Value]:
        """Some rows by inner products, the others plainly.

        Every vector of columns has a pointer to A of its own, so that LLVM does not load A's numbers into registers for
        all of them: that takes an arithmetic unit, where an operand from memory in all lanes takes none.
        """
        b, spec, lanes = self.b, self.spec, self.lanes
        carry = self._begun_with(notes, panel)
        size = len(carry)
        prepared = b.gep(notes, self.acc, NOTES)
        if self.iteration.split:
            return self._brought_back(self._full_registers(carry, prepared, weights, far), notes, panel)
        bases = [b.emit(PTR, f"freeze ptr {prepared.text}") for _ in range(spec.nv)]
        steps = self.iteration.steps
        with b.loop(0, self.k.slot("k"), steps, carry=[*carry, far, weights], guard=False) as loop:
            *sums, far, at = loop.carried
            start = loop.index + b.and_(loop.index, -lanes) * (spec.mr - 1)
            left = [b.gep(base, F32, start) for base in bases]
            for u in range(0, steps, 2):
                b.prefetch(far, 2)
                far = b.gep(far, I8, self.stride)
                self._pair(left, u, at, sums)
                at = b.gep(at, F32, 2 * self.nr)
            loop.next(*sums, far, at)
        return self._brought_back(loop.results[:size], notes, panel)

    def _begun_with(self, notes: Value, panel: Value) -> list[Value]:
        """What the sums of a tile begin with: what inner products will have added too much."""
        b, nv, iteration = self.b, self.spec.nv, self.iteration
        even = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(nv)]
        odd = [b.load(self.acc, b.gep(panel, self.acc, 2 * nv + j)) for j in range(nv)] if iteration.split else []
        both = [b.add(x, y) for x, y in zip(even, odd, strict=True)] if iteration.split else even
        carry = []
        for r in range(self.spec.mr):
            if r not in self.scaled:
                carry += [b.const(self.acc, 0)] * nv
                continue
            own = b.splat(b.load(F32, b.gep(notes, F32, self.lanes + r)), self.lanes)
            theirs = both if all(r in rows for rows in iteration.halved) else even if r in iteration.halved[0] else odd
            carry += [b.sub(own, x) for x in theirs]
        return carry

    def _brought_back(self, sums: list[Value], notes: Value, panel: Value) -> list[Value]:
        """Finished sums, multiplied by what undoes the powers of two."""
        b, spec = self.b, self.spec
        scales = [b.load(self.acc, b.gep(panel, self.acc, spec.nv + j)) for j in range(spec.nv)]
        for r in range(spec.mr):
            inverse = b.splat(b.load(F32, b.gep(notes, F32, r)), self.lanes) if r in self.scaled else None
            for j in range(spec.nv):
                i = r * spec.nv + j
                sums[i] = b.mul(sums[i], scales[j] if inverse is None else b.mul(scales[j], inverse))
        return sums

    def _full_registers(self, carry: list[Value], prepared: Value, weights: Value, far: Value) -> list[Value]:
        """The sums of a tile that takes all registers."""
        b, steps = self.b, self.iteration.steps
        with b.loop(0, self.k.slot("k"), steps, carry=[*carry, far, prepared, weights], guard=False) as loop:
            *sums, far, left, right = loop.carried
            b.prefetch(far, 2)
            sums = emit_iteration(b, self.iteration, sums, left, right)
            left, right = b.gep(left, self.acc, self.spec.mr), b.gep(right, F32, steps * self.nr)
            loop.next(*sums, b.gep(far, I8, self.stride), left, right)
        return loop.results[: len(carry)]

    def _pair(self, left: Sequence[Value], u: int, at: Value, sums: list[Value]) -> None:
        """Adds the steps ``u`` and ``u + 1`` of a turn to the ``sums``."""
        b, spec = self.b, self.spec
        for j in range(spec.nv):
            first, second = (b.load(self.acc, b.gep(at, self.acc, v * spec.nv + j)) for v in (0, 1))
            for r in range(spec.mr):
                places = [b.gep(left[j], F32, r * self.lanes + u + v) for v in (0, 1)]
                x, y = (b.splat(b.load(F32, place), self.lanes) for place in places)
                i = r * spec.nv + j
                if r not in self.scaled:
                    sums[i] = b.fma(y, second, b.fma(x, first, sums[i]))
                elif u == 0:
                    sums[i] = b.fma(b.add(x, second), b.add(y, first), sums[i])
                else:  # A's numbers are what is subtracted: operands from memory
                    sums[i] = b.fma(b.fneg(b.sub(second, x)), b.sub(first, y), sums[i])
