"""Code generation of :class:`MNN.backends.cpu.strassen.spec.StrassenSpec`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, VOID, OutOfLine, Value
from MNN.backends.cpu.lang.records import entry, load_record, load_word
from MNN.backends.cpu.products import register_steps
from MNN.backends.cpu.products.epilogue import Epilogue, masks_work
from MNN.backends.cpu.products.tile_store import TileStore
from MNN.backends.cpu.strassen.records import STAGE, USE, USES
from MNN.backends.cpu.strassen.spec import StrassenSpec
from MNN.backends.cpu.strassen.sums import COUNT, PRODUCTS, joined
from MNN.backends.cpu.targets.base import Target

_A_AHEAD = 32
"""Steps of the sum that A is asked for ahead of its use: it comes from the third-level cache."""
UNROLL = 4
TURNS = 2
"""Turns of a product's loop, of ``UNROLL`` steps, in which a vector of each of B's factors is formed. In every turn
would cost 2 % more (two levels, 197 rows), and where one vector is formed in ``UNROLL / 2`` steps 5 %: what waits for
the second-level cache then holds up the sums."""
_PLAIN_ROWS = 4


@generates(StrassenSpec)
def emit_strassen(spec: StrassenSpec, target: Target) -> str:
    """The module's text."""
    return _Strassen(spec, target).emit()


@dataclass(frozen=True)
class _Factors:
    """B's factors of a stage, where those of the next one are formed, from what and how many numbers of each."""

    own: Value
    other: Value
    sources: Sequence[Value]
    total: Value


class _Strassen(TileStore):
    """The plain contraction's epilogue and stores behind another way to the sums."""

    def __init__(self, spec: StrassenSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec = spec
        self.parts = 2**spec.levels
        self.size = spec.mr * self.nr
        self.many = spec.mr * spec.nv

    def emit(self) -> str:
        k, b = self.k, self.b
        groups, mb, nb, rows = (k.slot(s) for s in ("groups", "mb", "nb", "rows"))
        n_blocks = b.udiv(groups + nb - 1, nb)
        found = b.const(I32, 0)
        for flags in ("flags", "b_flags"):
            with b.loop(0, k.slot(f"n_{flags}"), carry=[found]) as each:
                each.next(b.or_(each.carried[0], b.load(I32, b.gep(k.pointer(flags), I32, each.index))))
            found = each.results[0]
        spoiled = b.icmp("ne", found, 0)
        self.tiles = b.gep(k.scratch, F32, 2 * COUNT * self.spec.piece)
        with b.loop(k.begin, k.end) as block:
            im = b.udiv(block.index, n_blocks)
            self.g0 = (block.index - im * n_blocks) * nb
            self.g1 = b.intrinsic("smin", self.g0 + nb, groups)
            self.m0 = im * mb
            self.m1 = b.intrinsic("smin", self.m0 + mb, rows)

            def plainly() -> tuple[()]:
                self._plain_block()
                return ()

            def by_strassen() -> tuple[()]:
                self._block()
                return ()

            b.if_else(spoiled, plainly, by_strassen)
        return k.finish()

    # B's factors

    def _sources(self, group: Value, stage: Value) -> list[Value]:
        """Where the quarters' first terms lie (by columns) and the second ones; with signs in ``self.signs``."""
        k, b = self.k, self.b
        value = load_record(b, STAGE, entry(b, STAGE, k.pointer("stages"), stage))
        found = []
        for term in "xy" if self.spec.levels > 1 else "x":
            for j in range(2):
                panel = b.intrinsic("smin", group * self.parts + value[f"{term}_panel"] + j, k.slot("panels") - 1)
                found.append(b.gep(k.pointer("b"), F32, panel * k.slot("panel") + value[f"{term}_rows"]))
        if self.spec.levels > 1:
            self.signs = [b.splat(b.convert("trunc", value[s], I32), self.lanes) for s in ("keep", "flip")]
        return found

    def _form(self, sources: Sequence[Value], to: Value, at: Value) -> None:
        """One vector, ``at`` elements on, of all of B's factors."""
        b, bits = self.b, I32.vec(self.lanes)
        below = self.k.slot("k") * self.nr
        quarters = {}
        for i in range(2):
            for j in range(2):
                terms = [b.gep(b.gep(s, F32, at), F32, below * i) for s in sources[j::2]]
                x = b.load(self.acc, terms[0])
                if len(terms) > 1:
                    y = b.xor(b.and_(b.load(bits, terms[1]), self.signs[0]), self.signs[1])
                    x = b.add(x, b.bitcast(y, self.acc))
                quarters[i, j] = x
        to = b.gep(to, F32, at)
        for p, (_, right, _) in enumerate(PRODUCTS):
            b.store(joined(b, right, quarters), b.gep(to, F32, p * self.spec.piece))

    def _form_rest(self, sources: Sequence[Value], to: Value, at: Value, end: Value) -> None:
        with self.b.loop(at, end, self.lanes) as loop:
            self._form(sources, to, loop.index)

    # Products

    def _block(self) -> None:
        k, b, spec = self.k, self.b, self.spec
        stages, chunk = k.slot("n_stages"), k.slot("chunk")
        total = chunk * self.nr
        tiles = b.udiv(self.m1 - self.m0 + (spec.mr - 1), b.const(I64, spec.mr))
        zero = b.const(I64, 0)
        rarely = b.icmp("sge", tiles * COUNT, TURNS * UNROLL * spec.nv)
        self.turns = b.select(rarely, b.const(I64, TURNS * UNROLL - 1), b.const(I64, UNROLL - 1))
        often = b.select(rarely, b.const(I64, TURNS * UNROLL * spec.nv), b.const(I64, UNROLL * spec.nv))
        self.spread = b.intrinsic("smax", b.udiv(tiles * COUNT, often), b.const(I64, 1))
        self.tile_size = chunk * spec.mr
        self.product_size = self.tile_size * k.slot("tiles")
        stage_size = self.product_size * COUNT
        # The next group's panels are asked for all along.
        bytes_ = k.slot("panel") * (4 * self.parts)
        self.stride = b.udiv(bytes_, stages * tiles * chunk * COUNT) * 2 + 2
        self.apart = self.parts**2 * self.size
        buffers = [k.scratch, b.gep(k.scratch, F32, COUNT * spec.piece)]
        self._form_rest(self._sources(self.g0, zero), buffers[0], zero, total)
        with b.loop(self.g0, self.g1, carry=buffers) as group:
            here = group.index
            far = b.gep(k.pointer("b"), F32, (here + 1) * self.parts * k.slot("panel"))
            with b.loop(0, stages, carry=[*group.carried, far]) as stage:
                own, other, far = stage.carried
                is_last = b.icmp("eq", stage.index, stages - 1)
                following = b.select(is_last, b.intrinsic("smin", here + 1, self.g1 - 1), here)
                sources = self._sources(following, b.select(is_last, zero, stage.index + 1))
                a = b.gep(k.pointer("s"), F32, stage.index * stage_size + b.udiv(self.m0, spec.mr) * self.tile_size)
                uses = b.gep(k.pointer("uses"), I64, stage.index * (USES.count * COUNT))
                count = b.select(b.icmp("eq", stage.index, 0), tiles * self.apart, zero)
                with b.loop(0, count, self.lanes) as each:
                    b.store(b.const(self.acc, 0), b.gep(self.tiles, F32, each.index))
                factors = _Factors(own, other, sources, total)
                with b.loop(0, COUNT, carry=[zero, zero, far]) as product:
                    with b.loop(0, tiles, carry=product.carried) as tile:
                        tile.next(*self._tile(tile.carried, factors, a, uses, product.index, tile.index))
                    product.next(*tile.results)
                self._form_rest(sources, other, product.results[0], total)

                def store(here: Value = here) -> None:
                    with b.loop(0, tiles) as tile:
                        self._store_apart(self.m0 + tile.index * spec.mr, here, tile.index * self.apart)

                b.if_(is_last, store)
                stage.next(other, own, product.results[2])
            group.next(*stage.results[:2])

    def _tile(
        self, carry: Sequence[Value], factors: _Factors, a: Value, uses: Value, product: Value, tile: Value
    ) -> list[Value]:
        """One product of one tile of rows; ``carry``: what of the next stage is formed, when to form more, what to ask
        for ahead."""
        b, spec = self.b, self.spec
        formed, due, far = carry
        left = b.gep(a, F32, product * self.product_size + tile * self.tile_size)
        right = b.gep(factors.own, F32, product * spec.piece)
        now = b.and_(b.icmp("eq", due, 0), b.icmp("slt", formed, factors.total))
        stop = b.select(now, factors.total, formed)
        *sums, far, formed = self._product((left, right, far), formed, stop, factors)
        due = b.select(b.icmp("eq", due, 0), self.spread, due) - 1
        record = entry(b, USES, uses, product)
        with b.loop(0, load_word(b, USES, record, "count"), guard=False) as use:
            place = b.gep(record, I64, use.index * USE.count + USES.index("uses"))
            to = b.gep(self.tiles, F32, tile * self.apart + load_word(b, USE, place, "tile") * self.size)
            sign = b.splat(b.convert("sitofp", load_word(b, USE, place, "sign"), F32), self.lanes)
            for i, value in enumerate(sums):
                at = b.gep(to, self.acc, i)
                b.store(b.fma(value, sign, b.load(self.acc, at)), at)
        return [formed, due, far]

    def _product(
        self, places: tuple[Value, Value, Value], formed: Value, stop: Value, factors: _Factors
    ) -> list[Value]:
        """The sums of one product of a tile, and where to ask ahead and to form B's factors from next.

        Those up to ``stop`` are formed meanwhile, between turns of the loop: within a turn LLVM would move loads past
        that, into registers that there are not.
        """
        b, spec = self.b, self.spec
        a, right, far = places
        carry = [*[b.const(self.acc, 0)] * self.many, far, right, formed]
        with b.loop(0, self.k.slot("chunk"), UNROLL, carry=carry, guard=False) as loop:
            sums, (far, at, done) = list(loop.carried[: self.many]), loop.carried[self.many :]

            def form() -> list[Value]:
                self._form(factors.sources, factors.other, done)
                return [done + self.lanes]

            turn = b.icmp("eq", b.and_(loop.index, self.turns), 0)
            (done,) = b.if_else(b.and_(b.icmp("slt", done, stop), turn), form, lambda: [done])
            start = loop.index + b.and_(loop.index, -self.lanes) * (spec.mr - 1)
            left_at = b.gep(a, F32, start)
            asked = b.gep(a, F32, loop.index * spec.mr)
            for u in range(UNROLL):
                if u % 2 == 0 and not self.target.asks_in_vain:
                    b.prefetch(far, 2)
                    far = b.gep(far, I8, self.stride)
                b.prefetch(b.gep(asked, F32, (_A_AHEAD + u) * spec.mr))
                if register_steps.fills_registers(self.target, spec.mr, spec.nv):
                    rows = [b.gep(left_at, F32, r * self.lanes + u) for r in range(spec.mr)]
                    sums = register_steps.step(b, sums, rows, at)
                    at = b.gep(at, F32, self.nr)
                    continue
                vectors = []
                for j in range(spec.nv):
                    vectors.append(b.load(self.acc, b.gep(at, F32, j * self.lanes)))
                for r in range(spec.mr):
                    left = b.splat(b.load(F32, b.gep(left_at, F32, r * self.lanes + u)), self.lanes)
                    for j in range(spec.nv):
                        i = r * spec.nv + j
                        sums[i] = b.fma(left, vectors[j], sums[i])
                at = b.gep(at, F32, self.nr)
            loop.next(*sums, far, at, done)
        return [*loop.results[: self.many + 1], loop.results[-1]]

    # Numbers that are too large

    def _plain_block(self) -> None:
        b, spec = self.b, self.spec
        with b.loop(self.g0, self.g1) as group, b.loop(self.m0, self.m1, spec.mr) as row:
            kernel = self.k
            self.k = part = OutOfLine(kernel, "plain_tiles", ("row", "group"))
            self.b = part.b
            self._plain_tiles(*part.params)
            part.call(row.index, group.index)
            self.k, self.b = kernel, kernel.b
            self._store_apart(row.index, group.index, b.const(I64, 0))

    def _plain_tiles(self, row: Value, group: Value) -> None:
        """The tiles of rows ``row ..`` of all parts and the group's panels, by sums of the whole depth."""
        k, b, spec = self.k, self.b, self.spec
        tiles = b.gep(k.scratch, F32, 2 * COUNT * spec.piece)
        last = k.slot("m") - 1
        with b.loop(0, self.parts) as y, b.loop(0, self.parts) as x, b.loop(0, spec.mr, _PLAIN_ROWS) as some:
            tile = b.gep(tiles, F32, (y.index * self.parts + x.index) * self.size)
            panel = b.intrinsic("smin", group * self.parts + x.index, k.slot("panels") - 1)
            right = b.gep(k.pointer("b"), F32, panel * k.slot("panel"))
            numbers = [b.intrinsic("smin", some.index + r, b.const(I64, spec.mr - 1)) for r in range(_PLAIN_ROWS)]
            first = y.index * k.slot("rows") + row
            starts = [b.intrinsic("smin", first + r, last) * k.slot("lda") for r in numbers]
            lines = [b.gep(k.pointer("a"), F32, start) for start in starts]
            carry = [b.const(self.acc, 0)] * (_PLAIN_ROWS * spec.nv)
            with b.loop(0, k.slot("k") * self.parts, carry=carry) as loop:
                here = b.gep(right, F32, loop.index * self.nr)
                vectors = [b.load(self.acc, b.gep(here, F32, j * self.lanes)) for j in range(spec.nv)]
                sums = list(loop.carried)
                for r, line in enumerate(lines):
                    left = b.splat(b.load(F32, b.gep(line, F32, loop.index)), self.lanes)
                    for j in range(spec.nv):
                        sums[r * spec.nv + j] = b.fma(left, vectors[j], sums[r * spec.nv + j])
                loop.next(*sums)
            for i, value in enumerate(loop.results):
                to = b.gep(tile, F32, numbers[i // spec.nv] * self.nr)
                b.store(value, b.gep(to, F32, i % spec.nv * self.lanes))

    # Stores

    def _store_apart(self, row: Value, group: Value, tiles: Value) -> None:
        """:meth:`_store_tiles` out of line, emitted once."""
        kernel = self.k
        if kernel.module.defines("store_tiles"):
            kernel.b.call(VOID, "store_tiles", kernel.args, kernel.scratch, row, group, self.m1, tiles)
            return
        m1 = self.m1
        self.k = part = OutOfLine(kernel, "store_tiles", ("row", "group", "m1", "tiles"))
        self.b, self.c = part.b, part.pointer("c")
        self.ops = [part.pointer(f"op{i}") for i in range(len(self.spec.operands))]
        own_row, own_group, self.m1, own_tiles = part.params
        self._store_tiles(own_row, own_group, own_tiles)
        part.call(row, group, m1, tiles)
        self.k, self.b, self.m1 = kernel, kernel.b, m1

    def _store_tiles(self, row: Value, group: Value, tiles: Value) -> None:
        """Epilogue and stores of the rows and panels that there are."""
        k, b, spec = self.k, self.b, self.spec
        epilogue = Epilogue(b, spec.acc, spec.out, spec.epilogue)
        base = b.gep(b.gep(k.scratch, F32, 2 * COUNT * spec.piece), F32, tiles)
        with b.loop(0, self.parts) as y, b.loop(0, self.parts) as x:
            first_row = y.index * k.slot("rows") + row
            most = b.intrinsic("smin", self.m1 - row, k.slot("m") - first_row)
            count = b.intrinsic("smin", most, b.const(I64, spec.mr))
            self.column = (group * self.parts + x.index) * self.nr
            left = k.slot("n") - self.column
            self.tile = b.gep(base, F32, (y.index * self.parts + x.index) * self.size)

            def all_columns() -> tuple[()]:
                with b.loop(0, count) as r:
                    self.row_tables(first_row + r.index)
                    if epilogue.short:
                        for j in range(spec.nv):
                            column = b.const(I64, j * self.lanes)
                            self.store_vector(epilogue, self.tile_load(r.index, column, self.lanes), column, self.lanes)
                    else:
                        with b.loop(0, self.nr, self.lanes, guard=False) as c:
                            value = self.tile_load(r.index, c.index, self.lanes)
                            self.store_vector(epilogue, value, c.index, self.lanes)
                return ()

            def some_columns() -> tuple[()]:
                masks = masks_work(self.target, (spec.out, *self.op_dtypes))
                lanes = self.lanes if masks else 1
                with b.loop(0, count) as r:
                    self.row_tables(first_row + r.index)
                    with b.loop(0, left, lanes) as c:
                        tail = self.cut_tail(left - c.index, lanes)
                        value = self.tile_load(r.index, c.index, lanes)
                        self.store_vector(epilogue, value, c.index, lanes, tail if masks else None)
                return ()

            b.if_else(b.icmp("sge", left, self.nr), all_columns, some_columns, likely=True)
