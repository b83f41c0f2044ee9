"""Code generation of :class:`MNN.backends.cpu.winograd.spec.WinogradSpec`: the three stages of a block."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import Tail, load, make_tail, storage_type
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Kernel, Loop, Value
from MNN.backends.cpu.lang.records import entry
from MNN.backends.cpu.math.scalar_code import cast
from MNN.backends.cpu.products import register_steps
from MNN.backends.cpu.products.dot8 import dot_int16
from MNN.backends.cpu.products.epilogue import masks_work
from MNN.backends.cpu.products.packed_bytes import packs_bytes, saturated_end
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.winograd.layout import LINE, Layout
from MNN.backends.cpu.winograd.records import tile_record
from MNN.backends.cpu.winograd.results import Results
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.backends.cpu.winograd.transform import all_rows, step_of_rows
from MNN.ir.dtype import DType


@generates(WinogradSpec)
def emit_winograd(spec: WinogradSpec, target: Target) -> str:
    """The module's text."""
    return Winograd(spec, target).emit()


class Winograd(Results):
    """The state of one emission: the kernel, and the values that hold for the current block."""

    def __init__(self, spec: WinogradSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(DType.F32)
        self.int16 = spec.fixed or spec.acc is DType.I32
        self.word = I32 if self.int16 else F32
        self.sum = I32 if spec.acc is DType.I32 else F32
        """What V, M and U are addressed in: numbers, or pairs of neighbouring channels' ones in 16 bits (M: sums)."""
        self.vector = self.word.vec(self.lanes)
        self.nr = spec.nr(target)
        self.f_h, self.f_w = spec.filterings
        self.layout = Layout(self.lanes, spec.positions, spec.mr, self.nr)
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.out_type = storage_type(spec.out)
        whole = spec.acc is DType.I32 and packs_bytes(target)
        self.end = saturated_end(spec.epilogue, spec.fits) if whole else None
        self.record = tile_record(len(spec.operands), spec.deep)
        self.between = spec.mr if spec.inner_product else 1
        """From a vector of channels in V to the next one, in vectors."""
        self.vector_a = target.lane_operand and self.lanes > 1 and spec.mr > 1
        # Measured: AVX2's narrow panels gain up to 28 %; whole lines per vector (AVX512) lose up to 3 % on processors
        # that fetch ahead, and gain up to 45 % on others. Products of 16 bits, which take a register more on the way,
        # lose up to half.
        asks = target.vector_bytes < 4 * LINE or not target.fetches_ahead
        one_step = not self.int16 or target.can(can.DOT2_I16, 8 * target.vector_bytes)
        self.prefetches = asks and not target.lane_operand and one_step
        work = spec.mr * spec.nv + spec.mr + spec.nv
        self.unroll = self.lanes if self.vector_a else 2 if target.has_fma and work < 24 else 1

    def emit(self) -> str:
        k, b = self.k, self.b
        n, n_block, group, c = (k.slot(s) for s in ("n", "n_block", "group", "c"))
        columns = b.intrinsic("smin", n_block, n)
        c = self.depth = b.lshr(c + 1, 1) if self.int16 else c
        into, out = (group * k.slot("n_slices"), group * k.slot("depths")) if self.spec.deep else (group, group)
        self.row_v, self.step_v = self.layout.row_v(c), self.layout.step_v(into, c)
        self.row_m, self.step_m = self.layout.row_m(columns), self.layout.step_m(out, columns)
        self.v = k.scratch
        self.m = b.gep(self.v, F32, self.step_v * self.spec.positions)
        self.tile_memory = b.gep(self.m, F32, self.step_m * self.spec.positions)
        parts = b.udiv(n + n_block - 1, n_block)
        blocks = parts * b.udiv(k.slot("n_tiles") + group - 1, group) if self.spec.grouped else parts
        with b.loop(k.begin, k.end) as block:
            number = self._within(block.index, blocks)
            tiles = b.udiv(number, parts)
            part = number - tiles * parts
            first = tiles * group
            self.count = b.intrinsic("smin", group, k.slot("n_tiles") - first)
            self.table = entry(b, self.record, k.pointer("tiles"), first)
            self.across = self.slice_rows() if self.spec.deep else self.count
            self.rows = self.across * k.slot("depths") if self.spec.deep else self.count
            self.n0 = part * n_block
            self.n1 = b.intrinsic("smin", self.n0 + n_block, n)
            self.fresh = b.or_(b.icmp("eq", part, 0), b.icmp("eq", block.index, k.begin))
            b.if_(self.fresh, self._inputs)  # the next part of the same tiles finds V made
            self._products()
            self._outputs()
        return k.finish()

    def row_of_v(self, tile: Value) -> Value:
        """Where the row of a tile begins in V."""
        return tile * self.row_v

    # -- stage 1: B^T d B ---------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        k, b = self.k, self.b
        masked, x_type = masks_work(self.target, (self.spec.x,)), storage_type(self.spec.x)
        with self._slices() as place, b.loop(0, self.count) as tile:
            base = b.gep(k.pointer("x"), x_type, self._entry(tile.index, "x"))
            base = self._group_in(self._slice(base, x_type, tile.index, place), x_type)
            last_row, last_column = self._entry(tile.index, "last_row"), self._entry(tile.index, "last_column")
            height, width = self.f_h.inputs, self.f_w.inputs
            ends = [(i, last_row, "row_x") for i in range(1, height)] + [
                (j, last_column, "col_x") for j in range(1, width)
            ]
            offsets = [b.intrinsic("smin", b.const(I64, i), last) * k.slot(slot) for i, last, slot in ends]
            hidden = self._hide([*offsets, self.step_v])
            to = b.gep(self.v, F32, self.row_of_v(self._row(tile.index, place)))

            def transform(channel: Value, lanes: int, tail: Tail | None) -> None:
                *found, step = hidden()
                first = b.gep(base, x_type, channel)
                rows = [first, *(b.gep(first, x_type, offset) for offset in found[: height - 1])]
                columns = [b.const(I64, 0), *found[height - 1 :]]
                at = b.gep(to, F32, b.lshr(channel, 1) if self.int16 else channel * self.between)
                self._input_tile(rows, columns, at, step, lanes, tail)

            if self.int16:
                self._pairs_of_channels(k.slot("c"), masked, transform)
                return
            self._channels(b.const(I64, 0), k.slot("c"), self.spec.c_tail, masked, transform)

    def _pairs_of_channels(self, c: Value, masked: bool, body: Callable[..., None]) -> None:
        """``body(index, lanes, tail)`` for vectors of 16-bit numbers; a last one that is not whole has zeros."""
        b, lanes = self.b, 2 * self.lanes
        whole = b.and_(c, -lanes) if self.spec.c_tail else c
        with b.loop(0, whole, lanes) as both:
            body(both.index, lanes, None)
        if self.spec.c_tail:
            with b.loop(whole, c, lanes) as rest:  # at most once
                body(rest.index, lanes, make_tail(b, c - rest.index, lanes))

    def _input_tile(
        self, rows: list[Value], offsets: list[Value], to: Value, step_v: Value, lanes: int, tail: Tail | None
    ) -> None:
        """``rows`` are the addresses of the tile's rows at the current channels, ``offsets`` those of its columns."""
        b = self.b
        x_type = storage_type(self.spec.x)

        def element(i: int, j: int) -> Value:
            value = load(b, self.spec.x, b.gep(rows[i], x_type, offsets[j]), lanes, None, tail)
            return cast(b, value, self.spec.x, DType.I16) if self.sum is I32 else value

        width = range(self.f_w.inputs)
        for step in self.f_h.steps():
            matrix = [self.f_h.bt[i] for i in step]
            columns: list[list[Value]] = []
            for j in width:
                loaded: dict[int, Value] = {}

                def value(i: int, j: int = j, loaded: dict[int, Value] = loaded) -> Value:
                    if i not in loaded:
                        loaded[i] = element(i, j)
                    return loaded[i]

                columns.append(step_of_rows(b, matrix, value))
            for row in range(len(step)):
                for out in all_rows(b, self.f_w.bt, self.f_w, [columns[j][row] for j in width]):
                    b.store(out, to)
                    to = b.gep(to, F32, step_v)

    # -- stage 2: the products ----------------------------------------------------------------------------------------

    def _products(self) -> None:
        k, b, spec = self.k, self.b, self.spec
        panel_size = self.depth * self.nr
        panels = b.udiv(k.slot("n") + (self.nr - 1), b.const(I64, self.nr))
        first = b.udiv(self.n0, b.const(I64, self.nr)) * panel_size
        # While a panel is used the next one, which comes from far away, is asked for: a part in every tile of rows.
        share = b.udiv(panel_size * 4, b.udiv(self.rows + (spec.mr - 1), spec.mr))
        self.stride = b.udiv(share, b.udiv(k.slot("c") + (self.unroll - 1), self.unroll)) + 1
        with b.loop(0, spec.positions) as position:
            v = b.gep(self.v, F32, position.index * self.step_v)
            m = b.gep(self.m, F32, position.index * self.step_m)
            u = b.gep(self.weights, F32, self._factor(position.index) * (panels * panel_size) + first)
            self.position = position.index
            with b.loop(0, self.n1 - self.n0, self.nr, carry=[u]) as column:
                self.panel_column = column.index

                def rows(v: Value, panel: Value, m: Value = m, column: Value = column.index) -> None:
                    ahead = [b.gep(panel, F32, panel_size)] if self.prefetches else []
                    with b.loop(0, self.rows, spec.mr, carry=ahead) as row:
                        to = b.gep(m, F32, row.index * self.row_m + column)
                        self._product(v, row.index, [*row.carried, panel], to)
                        row.next(*(b.gep(far, I8, share) for far in row.carried))

                self._taps(v, column.carried[0], rows)
                column.next(b.gep(column.carried[0], F32, panel_size))

    def _factor(self, position: Value) -> Value:
        """The number of a position's factor: with stride 2 positions may share one."""
        b, f_h, f_w = self.b, self.f_h, self.f_w
        if (f_h.factors, f_w.factors) == (f_h.positions, f_w.positions):
            return position
        row = b.udiv(position, b.const(I64, f_w.positions))
        column = b.intrinsic("smin", position - row * f_w.positions, b.const(I64, f_w.factors - 1))
        return b.intrinsic("smin", row, b.const(I64, f_h.factors - 1)) * f_w.factors + column

    def _product(self, v: Value, row: Value, right: list[Value], to: Value) -> None:
        """A register tile of sums; rows past the block's tiles repeat the last one. ``right``: what to ask for ahead,
        and the panel of U."""
        k, b, spec = self.k, self.b, self.spec
        rows = []
        for r in range(spec.mr):
            index = row if r == 0 else b.intrinsic("smin", row + r, self.rows - 1)
            rows.append(b.gep(v, F32, index * self.row_v))
        c = self.depth
        if not spec.chunked:
            sums = self._sums(rows, b.const(I64, 0), c, right)
            self._first(None, lambda add: self._write(sums, to, add))
            return
        with b.loop(0, c, k.slot("chunk"), carry=right) as part:
            past = b.intrinsic("smin", part.index + k.slot("chunk"), c)
            results = self._sums(rows, part.index, past, part.carried)
            self._first(part.index, lambda add: self._write(results, to, add))
            part.next(*results[-len(right) :])

    def _sums(self, rows: list[Value], lo: Value, hi: Value, right: list[Value]) -> list[Value]:
        """Sums over channels ``lo ..``, then ``right`` behind them."""
        b, spec = self.b, self.spec
        start = [b.const(self.vector, 0)] * (spec.mr * spec.nv) + right
        if self.unroll == 1:
            with b.loop(lo, hi, carry=start, guard=False) as main:
                self._steps(main, rows, 1)
            return main.results
        whole = lo + b.and_(hi - lo, -self.unroll)
        with b.loop(lo, whole, self.unroll, carry=start) as main:
            self._steps(main, rows, self.unroll, self.vector_a)
        with b.loop(whole, hi, carry=main.results) as last:
            self._steps(last, rows, 1)
        return last.results

    def _steps(self, loop: Loop, rows: list[Value], count: int, in_runs: bool = False) -> None:
        b, spec = self.b, self.spec
        *sums, panel = loop.carried
        ahead: list[Value] = []
        if self.prefetches:
            far = sums.pop()
            b.prefetch(far, 2)
            ahead = [b.gep(far, I8, self.stride)]
        at = [b.gep(r, F32, loop.index) for r in rows]
        runs = [b.load(F32.vec(count), p) for p in at] if in_runs else []
        for u in range(count):
            if not self.int16 and register_steps.fills_registers(self.target, spec.mr, spec.nv):
                sums = register_steps.step(b, sums, [b.gep(p, F32, u) for p in at], panel)
                panel = b.gep(panel, F32, self.nr)
                continue
            right = [b.load(self.vector, b.gep(panel, self.vector, j)) for j in range(spec.nv)]
            for r in range(spec.mr):
                if runs:
                    left = b.shuffle(runs[r], None, [u] * self.lanes)
                else:
                    left = b.splat(b.load(self.word, b.gep(at[r], F32, u)), self.lanes)
                for j in range(spec.nv):
                    i = r * spec.nv + j
                    if self.int16:
                        sums[i] = self._dot(sums[i], left, right[j])
                    else:
                        sums[i] = b.fma(left, right[j], sums[i])
            panel = b.gep(panel, F32, self.nr)
        loop.next(*sums, *ahead, panel)

    def _dot(self, total: Value, left: Value, right: Value) -> Value:
        """A sum of integers with two more products."""
        return dot_int16(self.b, self.target, total, left, right)

    def _write(self, sums: list[Value], to: Value, add: bool = False) -> tuple[()]:
        """Stores what ``sums`` begins with, or adds it."""
        b, spec = self.b, self.spec
        for r in range(spec.mr):
            row = b.gep(to, F32, self.row_m * r)
            for j in range(spec.nv):
                value, pointer = sums[r * spec.nv + j], b.gep(row, self.vector, j)
                b.store(b.add(b.load(self.vector, pointer), value) if add else value, pointer)
        return ()
