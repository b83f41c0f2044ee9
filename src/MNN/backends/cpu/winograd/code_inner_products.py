"""Winograd's filtering whose products are his inner products, too (:mod:`MNN.backends.cpu.inner_product.spec`): two
multiplications of three less in two rows of three.

V lies as register tiles read it. Where a position's products begin, the rows of V that are taken by inner products are
brought to size and their sums of products of pairs are noted; U is prepared as other weights are. Partial sums begin
with all that is to be subtracted: every second pair's has the other sign, so that it is no larger than what it is
subtracted from. Tiles of rows that cannot be brought to size are multiplied plainly.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.inner_product.iteration import HEAD, halved_rows
from MNN.backends.cpu.inner_product.layout import EXPONENT, LARGE, SMALL, TWICE_ONE
from MNN.backends.cpu.lang.module import F32, I1, I32, I64, PTR, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.code import Winograd
from MNN.backends.cpu.winograd.records import NOTES
from MNN.backends.cpu.winograd.spec import WinogradSpec

STEPS = 4
"""Depth of a turn: a pair whose products are added and one whose products are subtracted."""


@generates(WinogradSpec, inner_product=True)
def emit_inner_products(spec: WinogradSpec, target: Target) -> str:
    """The module's text."""
    return InnerProductWinograd(spec, target).emit()


class InnerProductWinograd(Winograd):
    """Other products between the same transforms."""

    def __init__(self, spec: WinogradSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.halved = halved_rows(spec.mr)

    def slice_rows(self) -> Value:
        """Whole register tiles."""
        return (self.count + (self.spec.mr - 1)) // self.spec.mr * self.spec.mr

    def row_of_v(self, tile: Value) -> Value:
        """``[tiles / mr][c / lanes][mr][lanes]`` at every position."""
        whole = self.b.udiv(tile, self.spec.mr)
        return whole * (self.row_v * self.spec.mr) + (tile - whole * self.spec.mr) * self.lanes

    def _products(self) -> None:
        k, b, spec = self.k, self.b, self.spec
        panel_size = (self.depth + HEAD) * self.nr
        panels = b.udiv(k.slot("n") + (self.nr - 1), b.const(I64, self.nr))
        first = b.udiv(self.n0, b.const(I64, self.nr)) * panel_size
        notes = b.gep(self.tile_memory, F32, spec.mh * spec.mw * self.lanes)
        size = NOTES.count
        with b.loop(0, spec.positions) as position:
            v = b.gep(self.v, F32, position.index * self.step_v)
            m = b.gep(self.m, F32, position.index * self.step_m)
            u = b.gep(self.weights, F32, self._factor(position.index) * (panels * panel_size) + first)
            each = b.udiv(k.slot("group"), spec.mr) * size
            own = b.gep(notes, F32, position.index * (each * k.slot("n_slices") if spec.deep else each))

            def prepare(v: Value = v, own: Value = own) -> None:
                with self._slices() as place:
                    v, own = self._at(v, own, place)
                    with b.loop(0, self.count, spec.mr, carry=[own]) as row:
                        self._prepare(b.gep(v, F32, row.index * self.row_v), self.count - row.index, row.carried[0])
                        row.next(b.gep(row.carried[0], F32, size))

            b.if_(self.fresh, prepare)
            with b.loop(0, self.n1 - self.n0, self.nr, carry=[u]) as column:

                def rows(v: Value, panel: Value, m: Value = m, own: Value = own, column: Value = column.index) -> None:
                    own = self._at(v, own, b.entry(k.pointer("taps"), self.tap))[1] if spec.deep else own
                    with b.loop(0, self.rows, spec.mr, carry=[own]) as row:
                        to = b.gep(m, F32, row.index * self.row_m + column)
                        self._tile(b.gep(v, F32, row.index * self.row_v), row.carried[0], panel, to)
                        row.next(b.gep(row.carried[0], F32, size))

                self._taps(v, column.carried[0], rows)
                column.next(b.gep(column.carried[0], F32, panel_size))

    def _at(self, v: Value, notes: Value, place: Value | None) -> tuple[Value, Value]:
        """Where the rows of V and the notes on them begin of the slices at a place."""
        b = self.b
        if place is None:
            return v, notes
        row = place * self.across
        return b.gep(v, F32, row * self.row_v), b.gep(notes, F32, b.udiv(row, self.spec.mr) * NOTES.count)

    # Rows of V

    def _prepare(self, rows: Value, count: Value, notes: Value) -> None:
        """Brings a tile's rows to size, of which ``count`` exist, and writes the notes on it."""
        b, vector, lanes, mr = self.b, self.vector, self.lanes, self.spec.mr
        bits = I32.vec(lanes)
        zero, one = b.const(F32, 0), b.const(F32, 1)
        powers, inverses, bad = [], [], b.const(I32, 0)
        for r in self.halved:
            with b.loop(0, self.depth, lanes, carry=[b.const(vector, 0), b.const(bits, 0)], guard=False) as step:
                x = b.load(vector, b.gep(rows, F32, step.index * mr + r * lanes))
                step.next(b.fma(x, x, step.carried[0]), b.or_(step.carried[1], b.bitcast(x, bits)))
            exists = b.icmp("slt", b.const(I64, r), count)
            size = b.select(exists, self._total(step.results[0]), zero)
            some = b.icmp("ne", b.and_(step.results[1], 0x7FFFFFFF), 0)
            some = b.and_(exists, some if lanes == 1 else b.call(I1, f"llvm.vector.reduce.or.v{lanes}i1", some))
            none = b.xor(some, True)
            fits = b.and_(b.fcmp("olt", size, b.const(F32, LARGE)), b.fcmp("ogt", size, b.const(F32, SMALL)))
            bad = b.or_(bad, b.xor(b.convert("zext", b.or_(none, fits), I32), 1))
            mean = b.fdiv(b.convert("sitofp", self.depth, F32), b.select(none, one, size))
            power = b.and_(b.bitcast(b.intrinsic("sqrt", mean), I32), EXPONENT)
            inverse = b.bitcast(b.sub(b.const(I32, TWICE_ONE), power), F32)
            powers.append(b.bitcast(power, F32))
            inverses.append(b.select(none, zero, inverse))
        plain = b.icmp("ne", bad, 0)
        b.store(bad, b.gep(notes, F32, NOTES.index("plain")))
        for r in range(mr):
            inverse = b.select(plain, one, inverses[self.halved.index(r)]) if r in self.halved else one
            b.store(inverse, b.gep(notes, F32, NOTES.index("inverse") + r))
        swapped = [lane ^ 1 for lane in range(lanes)]
        # Lanes hold every product twice; those of second pairs are subtracted.
        signs = b.const_vector(F32, [-0.5 if lane % STEPS < STEPS // 2 else 0.5 for lane in range(lanes)])

        def bring() -> tuple[()]:
            for r, power in zip(self.halved, powers, strict=True):
                factor = b.splat(power, lanes)
                with b.loop(0, self.depth, lanes, carry=[b.const(vector, 0)], guard=False) as step:
                    place = b.gep(rows, F32, step.index * mr + r * lanes)
                    x = b.mul(b.load(vector, place), factor)
                    b.store(x, place)
                    step.next(b.fma(x, b.shuffle(x, None, swapped), step.carried[0]))
                b.store(self._total(b.mul(step.results[0], signs)), b.gep(notes, F32, r))
            return ()

        b.if_else(plain, lambda: (), bring)

    def _total(self, x: Value) -> Value:
        """The sum of a vector's lanes."""
        size = self.lanes
        while size > 1:
            size //= 2
            x = self.b.add(
                self.b.shuffle(x, None, list(range(size))), self.b.shuffle(x, None, list(range(size, 2 * size)))
            )
        return x

    # Tiles

    def _tile(self, rows: Value, notes: Value, panel: Value, to: Value) -> None:
        """A register tile of sums, in parts where these are chunked."""
        k, b, spec = self.k, self.b, self.spec
        weights = b.gep(panel, F32, HEAD * self.nr)
        bases = [b.emit(PTR, f"freeze ptr {rows.text}") for _ in range(spec.nv)]

        def whole(plainly: bool) -> tuple[()]:
            halved = [] if plainly else self.halved
            begin = self._begin(notes, panel, halved)
            if not spec.chunked:
                sums = self._sized_sums(bases, b.const(I64, 0), self.depth, weights, begin, halved)
                self._first(None, lambda add: self._write_sized(sums, to, notes, panel, add))
                return ()
            zeros = [b.const(self.vector, 0)] * len(begin)
            past = b.intrinsic("smin", k.slot("chunk"), self.depth)
            first = self._sized_sums(bases, b.const(I64, 0), past, weights, begin, halved)
            self._first(None, lambda add: self._write_sized(first, to, notes, panel, add))
            with b.loop(past, self.depth, k.slot("chunk")) as part:
                end = b.intrinsic("smin", part.index + k.slot("chunk"), self.depth)
                here = b.gep(weights, F32, part.index * self.nr)
                sums = self._sized_sums(bases, part.index, end, here, zeros, halved)
                self._write_sized(sums, to, notes, panel, add=True)
            return ()

        plain = b.icmp("ne", b.load(I32, b.gep(notes, F32, NOTES.index("plain"))), 0)
        b.if_else(plain, lambda: whole(True), lambda: whole(False))

    def _begin(self, notes: Value, panel: Value, halved: Sequence[int]) -> list[Value]:
        """What the sums of a tile begin with."""
        b, spec = self.b, self.spec
        found = []
        for r in range(spec.mr):
            if r in halved:
                own = b.splat(b.load(F32, b.gep(notes, F32, r)), self.lanes)
                found += [b.sub(own, b.load(self.vector, b.gep(panel, self.vector, j))) for j in range(spec.nv)]
            else:
                found += [b.const(self.vector, 0)] * spec.nv
        return found

    def _sized_sums(
        self, bases: Sequence[Value], lo: Value, hi: Value, panel: Value, begin: Sequence[Value], halved: Sequence[int]
    ) -> list[Value]:
        """Sums over channels ``lo ..``. Every vector of columns has a pointer to V of its own: see ``inner_emit``. (The
        next panel is not asked for: that costs up to 30 % where there are few tiles of rows.)"""
        b, spec, lanes = self.b, self.spec, self.lanes
        with b.loop(lo, hi, STEPS, carry=[*begin, panel], guard=False) as loop:
            *sums, at = loop.carried
            start = loop.index + b.and_(loop.index, -lanes) * (spec.mr - 1)
            left = [b.gep(base, F32, start) for base in bases]
            for u in range(0, STEPS, 2):
                for j in range(spec.nv):
                    first, second = (b.load(self.vector, b.gep(at, self.vector, (u + v) * spec.nv + j)) for v in (0, 1))
                    for r in range(spec.mr):
                        places = [b.gep(left[j], F32, r * lanes + u + v) for v in (0, 1)]
                        x, y = (b.splat(b.load(F32, place), lanes) for place in places)
                        i = r * spec.nv + j
                        if r not in halved:
                            sums[i] = b.fma(y, second, b.fma(x, first, sums[i]))
                        elif u == 0:
                            sums[i] = b.fma(b.add(x, second), b.add(y, first), sums[i])
                        else:  # V's numbers are what is subtracted: operands from memory
                            sums[i] = b.fma(b.fneg(b.sub(second, x)), b.sub(first, y), sums[i])
            loop.next(*sums, b.gep(at, F32, STEPS * self.nr))
        return loop.results[:-1]

    def _write_sized(
        self, sums: Sequence[Value], to: Value, notes: Value, panel: Value, add: bool = False
    ) -> tuple[()]:
        """Stores or adds sums, with powers of two taken back."""
        b, spec = self.b, self.spec
        scales = [b.load(self.vector, b.gep(panel, self.vector, spec.nv + j)) for j in range(spec.nv)]
        for r in range(spec.mr):
            row = b.gep(to, F32, self.row_m * r)
            inverse = b.splat(b.load(F32, b.gep(notes, F32, NOTES.index("inverse") + r)), self.lanes)
            for j in range(spec.nv):
                place = b.gep(row, self.vector, j)
                scale = b.mul(scales[j], inverse) if r in self.halved else scales[j]
                value = sums[r * spec.nv + j]
                b.store(b.fma(value, scale, b.load(self.vector, place)) if add else b.mul(value, scale), place)
        return ()
