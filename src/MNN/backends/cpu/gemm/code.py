"""Code generation of :class:`MNN.backends.cpu.gemm.contraction.ContractSpec`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.routed_rows import rows_of_unit
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import I8, I32, I64, Loop, Value
from MNN.backends.cpu.lang.records import entry, load_word
from MNN.backends.cpu.packing import weights24
from MNN.backends.cpu.products import dot8, register_steps
from MNN.backends.cpu.products.dot import dot, interleave, load_group, load_rest, load_run
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.epilogue import combine, load_as, masks_work
from MNN.backends.cpu.products.tile_store import LINE, TileStore
from MNN.backends.cpu.products.work_ranges import Runs
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_IN_FLIGHT = 8
"""Multiply-adds that a processor works on at once: two units times four cycles."""
_MOST_ROWS_AHEAD = 8
"""Rows of a tile up to which the next panel of B is asked for: more leave no register for where it is. With vectors of
whole lines, on processors that do not fetch ahead, it is worth one (13 rows, depth 512: 84 -> 140 GFLOP/s)."""
_AT_ONCE = 2
"""Lines of B that a tile asks for where there are many rows, instead of one in every turn of the loop over its sum: two
registers less there, which is 10 cycles a tile."""
_SELDOM = 16  # bytes of B for a turn: from here on lines are asked for four times at most (Target.asks_in_vain)
FEW_TILES = 4
"""Tiles of rows that read a plain panel of B as it lies."""


@generates(ContractSpec)
def emit_contract(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    if spec.narrow:
        return Contract(dataclasses.replace(spec, narrow=False), target.narrowed()).emit()
    return Contract(spec, target).emit()


def many_rows(target: Target, tile: tuple[int, int], m: int, steps: int) -> bool:
    """Whether so many tiles of rows use a panel of B with so many ``steps`` that each asks for little of the next."""
    asks = tile[0] > 1 and _asks_ahead(target, tile[0])
    return asks and -(-m // tile[0]) * _AT_ONCE * LINE >= steps * tile[1] * target.vector_bytes


def _asks_ahead(target: Target, rows: int) -> bool:
    far = target.vector_bytes >= LINE and not target.fetches_ahead
    return not target.lane_operand and (rows <= _MOST_ROWS_AHEAD or far)


def _parts(sums: int) -> int:
    """How many parts a small tile's sums are in, each for every second or fourth step, so that enough are in flight."""
    return 1 if sums >= _IN_FLIGHT else 2 if 2 * sums >= _IN_FLIGHT else 4


class Contract(TileStore):
    """The state of one emission: the kernel, its types, and the values that hold for the current block and panel."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        # What is added to sums costs nothing where they begin with it; in long sums of f32 it would cost accuracy.
        floats = spec.acc is DType.F32 and (spec.many_rows or spec.a is not DType.F32)
        begins = self.begins and (floats or spec.acc is DType.I32)
        super().__init__(spec, target, begins, spec.fits)
        self.spec = spec
        self.a_type, self.b_type = storage_type(spec.a), storage_type(spec.b)
        work = spec.mr * spec.nv + spec.mr + spec.nv
        # Two steps at a time where the loop's own instructions weigh; without FMA, LLVM would run out of registers.
        self.unroll = 2 if target.has_fma and work < 24 else 1
        self.group = spec.group
        self.vector_a = target.lane_operand and (self.group > 1 or (spec.a is spec.acc and self.lanes > 1))
        if self.vector_a:
            self.unroll = self.lanes
        self.parts = _parts(spec.mr * spec.nv) if self.vector_a else 1
        self.across = self.nr  # columns of a panel
        self.prefetches = spec.b_packed and _asks_ahead(target, spec.mr)  # weights come from far away once
        if self.group > 1 and spec.acc is DType.I32 and dot8.in_halves(target):
            self.prefetches = False  # every sum takes a register more on the way: measured, half the speed
            if self.group == DOT4:
                self.unroll = 1  # LLVM takes both steps apart first: up to 28 registers were spilled

    def emit(self) -> str:
        if self.spec.routed:
            self._units()
        else:
            self._runs()
        return self.k.finish()

    def _units(self) -> None:
        """Blocks of routed rows."""
        k, b = self.k, self.b
        self.a, self.c, self.ops = k.pointer("a"), k.pointer("c"), []
        n, nb = k.slot("n"), k.slot("nb")
        across = b.udiv(n + nb - 1, nb)
        with b.loop(k.begin, k.end) as block:
            unit = b.udiv(block.index, across)
            m0, self.m1, matrix = rows_of_unit(k, unit)
            n0 = (block.index - unit * across) * nb
            n1 = b.select(b.icmp("slt", m0, self.m1), b.intrinsic("smin", n0 + nb, n), n0)
            self._columns(n0, n1, matrix, m0)

    def _runs(self) -> None:
        k, b, spec = self.k, self.b, self.spec
        runs = Runs(k)
        with b.loop(runs.first, runs.past) as block:
            z, top, n0 = runs.place(block.index)
            n1 = runs.columns_end(n0)
            m0, self.m1 = runs.rows(block.index, top)
            record = batch_record(len(spec.operands))
            batch = entry(b, record, k.pointer("batch"), z)
            types = [self.a_type, self.b_type, self.out_type, *map(storage_type, self.op_dtypes)]
            bases = [
                b.gep(k.pointer(name), type_, load_word(b, record, batch, name))
                for name, type_ in zip(record, types, strict=True)
            ]
            self.a, b_base, self.c, *self.ops = bases
            self._columns(n0, n1, b_base, m0)

    def _columns(self, n0: Value, n1: Value, right: Value, m0: Value) -> None:
        """Columns ``n0`` to ``n1`` of the rows from ``m0`` on, panel by panel of B at ``right``."""
        b, spec = self.b, self.spec
        with b.loop(n0, n1, self.across) as column:
            self.column, self.columns = column.index, n1 - column.index
            if self.across < self.nr:
                self.columns = b.intrinsic("smin", self.columns, b.const(I64, self.across))
            self.begin_panel(spec.nv)
            panel, step = self._panel(right, m0)
            ahead, share = self._next_panel(panel, m0)
            with b.loop(m0, self.m1, spec.mr, carry=ahead) as row:
                sums = self._sums(row.index, [*self._ask_at_once(row.carried), panel], step)
                self.finish(row.index, sums, spec.mr)
                row.next(*(b.gep(far, I8, share) for far in row.carried))

    def _next_panel(self, panel: Value, m0: Value) -> tuple[list[Value], Value | int]:
        """Where to ask for the next panel of B from on while this one is used, if that is done, and how many bytes in
        every tile of rows; ``self.stride``: in every turn of the loop over the sum."""
        k, b, spec = self.k, self.b, self.spec
        if not self.prefetches:
            return [], 0
        tiles = b.udiv(self.m1 - m0 + (spec.mr - 1), spec.mr)
        share = b.udiv(k.slot("panel") * spec.b.size, tiles)
        width = self.unroll * self.group
        turns = k.slot("n_taps") * b.udiv(k.slot("k") + (width - 1), width) - spec.beside // self.unroll
        self.stride = b.udiv(share, b.intrinsic("smax", turns, b.const(I64, 1))) + 1
        return [b.gep(panel, self.b_type, k.slot("panel"))], share

    def _ask_at_once(self, far: list[Value]) -> list[Value]:
        """Asks for a tile's part of the next panel, where that is little; gives where the loop over the sum asks."""
        if not far or not self.spec.many_rows:
            return far
        for line in range(_AT_ONCE):
            self.b.prefetch(self.b.gep(far[0], I8, line * LINE), 2)
        return []

    def _ask(self, sums: list[Value]) -> list[Value]:
        """Asks for a part of the next panel of B where that is done; takes its place from ``sums``, gives the next."""
        if not self.prefetches or self.spec.many_rows:
            return []
        b, far = self.b, sums.pop()
        if self.target.asks_in_vain:
            b.if_(b.icmp("sge", self.stride, _SELDOM), lambda: b.prefetch(far, 2))
        else:
            b.prefetch(far, 2)
        return [b.gep(far, I8, self.stride)]

    def _panel(self, base: Value, m0: Value) -> tuple[Value, Value | int]:
        """The address of this panel of B and the distance of its rows."""
        k, b, spec = self.k, self.b, self.spec
        start = b.gep(base, self.b_type, b.udiv(self.column, self.across) * k.slot("panel"))
        if spec.b_packed:
            return start, self.nr * (weights24.BYTES if spec.w24 else self.group)
        # Plain B: a panel that many rows use, or one cut off by the last column, is packed first.
        packed = b.gep(k.scratch, self.acc, spec.mr * self.nr // self.lanes)
        if self.group > 1:
            self._pack_groups(start, packed)
            return packed, self.nr * self.group
        many = b.icmp("sgt", self.m1 - m0, FEW_TILES * spec.mr)
        cut = b.icmp("slt", self.columns, self.nr)

        def pack() -> list[Value]:
            with b.loop(0, k.slot("n_taps") * k.slot("k")) as line:
                source = b.gep(start, self.b_type, line.index * k.slot("ldb"))
                to = b.gep(packed, self.b_type, line.index * self.nr)
                b.if_else(cut, lambda: self._pack_cut(source, to), lambda: self._pack_whole(source, to))
            return [packed, b.const(I64, self.nr)]

        panel, step = b.if_else(b.or_(many, cut), pack, lambda: [start, k.slot("ldb")])
        return panel, step

    def _pack_groups(self, start: Value, packed: Value) -> None:
        """Rows of plain B in groups, interleaved, tap by tap; columns and rows that there are not are zeros."""
        k, b, group = self.k, self.b, self.group
        ldb, type_ = k.slot("ldb"), self.b_type
        shift = dot8.moved(self.target, self.spec.a) if group == DOT4 else 0
        head = packed
        if group == DOT4:
            packed = b.gep(packed, self.acc, self.spec.nv)
            for j in range(self.spec.nv):
                b.store(b.const(self.acc, 0), b.gep(head, self.acc, j))

        def one(tap: Value, line: Value, rows: int) -> None:
            first = tap * k.slot("k") + line
            sources = [b.gep(start, type_, (first + r) * ldb) for r in range(rows)]
            steps = tap * b.udiv(k.slot("k") + (group - 1), group) + b.udiv(line, group)
            to = b.gep(packed, type_, steps * (self.nr * group))
            for at in range(0, self.nr, self.lanes):

                def whole(at: int = at) -> list[Value]:
                    return [b.load(type_.vec(self.lanes), b.gep(s, type_, at)) for s in sources]

                def cut(at: int = at) -> list[Value]:
                    tail = self.cut_tail(self.columns - at, self.lanes)
                    raw = DType.I8 if group == DOT4 else DType.I16
                    return [element.load(b, raw, b.gep(s, type_, at), self.lanes, None, tail) for s in sources]

                def some(at: int = at, cut: Callable[[], list[Value]] = cut) -> list[Value]:
                    none = [b.const(type_.vec(self.lanes), 0)] * rows
                    return b.if_else(b.icmp("sgt", self.columns, at), cut, lambda: none)

                parts = b.if_else(b.icmp("sge", self.columns, at + self.lanes), whole, some, likely=True)
                b.store(interleave(b, parts, group), b.gep(to, I32, at), align=type_.size)
                if shift:
                    place = b.gep(head, I32, at)
                    total = b.load(self.acc, place)
                    for part in parts:
                        total = b.sub(total, b.mul(b.convert("sext", part, self.acc), shift))
                    b.store(total, place)

        whole = b.and_(k.slot("k"), -group)
        with b.loop(0, k.slot("n_taps")) as tap:
            with b.loop(0, whole, group) as line:
                one(tap.index, line.index, group)
            for rows in range(1, group):
                rest = b.icmp("eq", k.slot("k") - whole, rows)
                b.if_(rest, lambda rows=rows, tap=tap: one(tap.index, whole, rows))  # type: ignore[misc]

    def _pack_whole(self, source: Value, to: Value) -> tuple[()]:
        b, vector = self.b, self.b_type.vec(self.lanes)
        for at in range(0, self.nr, self.lanes):
            b.store(b.load(vector, b.gep(source, self.b_type, at)), b.gep(to, self.b_type, at))
        return ()

    def _pack_cut(self, source: Value, to: Value) -> tuple[()]:
        """The columns that there are, then zeros."""
        b, lanes = self.b, self.lanes if masks_work(self.target, (self.spec.b,)) else 1
        for at in range(0, self.nr, self.lanes):
            b.store(b.const(self.b_type.vec(self.lanes), 0), b.gep(to, self.b_type, at))
        with b.loop(0, self.columns, lanes) as c:
            pointer = b.gep(source, self.b_type, c.index)
            if lanes == 1:
                part = b.load(self.b_type, pointer)
            else:
                part = b.load_masked(self.b_type.vec(lanes), pointer, self.cut_tail(self.columns - c.index, lanes).mask)
            b.store(part, b.gep(to, self.b_type, c.index))
        return ()

    def _row_starts(self, row: Value) -> list[Value]:
        """Where rows ``row ..`` of A begin; those past the end repeat the last one."""
        k, b = self.k, self.b
        rows = []
        for r in range(self.spec.mr):
            index = row if r == 0 else b.intrinsic("smin", row + r, self.m1 - 1)
            rows.append(b.gep(self.a, self.a_type, b.entry(k.pointer("rows_a"), index)))
        return rows

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        """The register tile of sums for rows ``row ..``; ``right``: what to ask for ahead, if anything, and the panel
        of B."""
        k, b, spec = self.k, self.b, self.spec
        *ahead, panel = right
        self.ask_operands(row, spec.mr)
        rows = self._row_starts(row)
        sums = self.begun(spec.nv) * spec.mr
        if self.group == DOT4:
            starts = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(spec.nv)]
            if self.added is not None:
                starts = [b.add(x, y) for x, y in zip(starts, self.begun(spec.nv), strict=True)]
            sums = starts * spec.mr
            panel = b.gep(panel, self.acc, spec.nv)
        if spec.w24:
            self.scales = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(spec.nv)]
            panel = b.gep(panel, self.acc, spec.nv)
        sums += [b.const(self.acc, 0)] * (len(sums) * (self.parts - 1))
        with b.loop(*self._taps(), carry=[*sums, *ahead, panel]) as tap:
            lo = b.entry(k.pointer("taps"), tap.index)
            hi = lo + k.slot("k")
            if self.group > 1:
                last = self._group_loops(lo, hi, rows, tap.carried, step)
            elif self.unroll == 1:
                with b.loop(lo, hi, carry=tap.carried, guard=False) as last:
                    self._steps(last, rows, 1, step, False)
            else:
                whole = lo + b.and_(k.slot("k"), -self.unroll)
                with b.loop(lo, whole, self.unroll, carry=tap.carried) as main:
                    self._steps(main, rows, self.unroll, step, self.vector_a)
                with b.loop(whole, hi, carry=main.results) as last:
                    self._steps(last, rows, 1, step, False)
            tap.next(*last.results)
        return self._joined(tap.results[: -len(right)])

    def _taps(self) -> tuple[Value | int, Value]:
        """The first tap of a tile, and past its last one."""
        return 0, self.k.slot("n_taps")

    def _joined(self, sums: Sequence[Value]) -> list[Value]:
        """The sums of a tile from their parts."""
        found = list(sums)
        while len(found) > self.spec.mr * self.spec.nv:
            half = len(found) // 2
            found = [self.b.add(x, y) for x, y in zip(found[:half], found[half:], strict=True)]
        return found

    def _group_loops(self, lo: Value, hi: Value, rows: Sequence[Value], carry: list[Value], step: Value | int) -> Loop:
        """A run of A in groups: some at a time, one at a time, and what is less than a group."""
        b, at, self.run_end = self.b, lo, hi
        for count in (self.unroll, 1) if self.unroll > 1 else (1,):
            width = count * self.group
            end = lo + b.and_(self.k.slot("k"), -width)
            with b.loop(at, end, width, carry=carry) as loop:
                self._dots(loop, rows, count, step, False)
            at, carry = end, loop.results
        with b.loop(at, hi, self.group, carry=carry) as loop:
            self._dots(loop, rows, 1, step, True)
        return loop

    def _dots(self, loop: Loop, rows: Sequence[Value], count: int, step: Value | int, rest: bool) -> None:
        """``count`` steps over groups from ``loop.index`` on; ``rest``: the last, incomplete group."""
        b, spec, wide = self.b, self.spec, I32.vec(self.lanes)
        *sums, panel = loop.carried
        ahead = self._ask(sums)
        at = [b.gep(r, self.a_type, loop.index) for r in rows]
        runs = [load_run(b, p, self.lanes, self.group) for p in at] if self.vector_a and count == self.lanes else []
        if self.group == DOT4:
            runs = [dot8.prepare_a(b, self.target, spec.a, run)[0] for run in runs]
        for u in range(count):
            right = [b.load(wide, b.gep(panel, wide, j), align=spec.b.size) for j in range(spec.nv)]
            rights = [dot8.prepare_b(b, self.target, y) for y in right] if self.group == DOT4 else []
            for r in range(spec.mr):
                if runs:
                    each = runs[r].type.lanes // self.lanes
                    left = b.shuffle(runs[r], None, [u * each + i for i in range(each)] * self.lanes)
                    lefts = [left]
                else:
                    left = self._left(b.gep(at[r], self.a_type, u * self.group), loop.index if rest else None)
                    lefts = dot8.prepare_a(b, self.target, spec.a, left) if self.group == DOT4 else []
                for j in range(spec.nv):
                    i = (u % self.parts * spec.mr + r) * spec.nv + j
                    if self.group == DOT4:
                        sums[i] = dot8.dot(b, self.target, spec.a, sums[i], lefts, rights[j])
                    elif spec.acc is DType.I32:
                        sums[i] = dot8.dot_int16(b, self.target, sums[i], left, right[j])
                    else:
                        sums[i] = dot(b, sums[i], left, right[j])
            panel = b.gep(panel, self.b_type, step)
        loop.next(*sums, *ahead, panel)

    def _left(self, place: Value, rest: Value | None) -> Value:
        """The group of A at ``place`` in every lane; the last of a run from the index ``rest`` on."""
        if rest is None:
            return load_group(self.b, place, self.lanes)
        if self.group == DOT4:
            return dot8.load_rest(self.b, place, self.run_end - rest, self.lanes)
        return load_rest(self.b, place, self.lanes)

    def _steps(self, loop: Loop, rows: Sequence[Value], count: int, step: Value | int, in_runs: bool) -> None:
        """``count`` steps of the sum from ``loop.index`` on, and the loop's next values."""
        b, spec = self.b, self.spec
        *sums, panel = loop.carried
        ahead = self._ask(sums)
        at = [b.gep(r, self.a_type, loop.index) for r in rows]
        runs = [b.load(self.a_type.vec(count), p) for p in at] if in_runs else []
        for u in range(count):
            if register_steps.fills_registers(self.target, spec.mr, spec.nv, (spec.a, spec.b)):
                sums = register_steps.step(b, sums, [b.gep(p, self.a_type, u) for p in at], panel)
                panel = b.gep(panel, self.b_type, step)
                continue
            right = [self._right(panel, j) for j in range(spec.nv)]
            for r in range(spec.mr):
                if runs:
                    left = b.shuffle(runs[r], None, [u] * self.lanes)
                else:
                    left = b.splat(load_as(b, spec.a, spec.acc, b.gep(at[r], self.a_type, u), 1), self.lanes)
                for j in range(spec.nv):
                    i = (u % self.parts * spec.mr + r) * spec.nv + j
                    sums[i] = combine(b, "dot", spec.acc, sums[i], left, right[j])
            panel = b.gep(panel, self.b_type, step)
        loop.next(*sums, *ahead, panel)

    def _right(self, panel: Value, j: int) -> Value:
        """A vector of a row of a panel of B."""
        b, spec = self.b, self.spec
        if spec.w24:
            return weights24.load_weights24(b, b.gep(panel, I8, j * self.lanes * weights24.BYTES), self.scales[j])
        return load_as(b, spec.b, spec.acc, b.gep(panel, self.b_type, j * self.lanes), self.lanes)
