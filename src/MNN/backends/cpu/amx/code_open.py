"""Code generation of :class:`MNN.backends.cpu.amx.open_rows.AmxOpenSpec`: blocks find their rows themselves."""

from __future__ import annotations

import functools

from MNN.backends.cpu.amx import scale as amx_scale
from MNN.backends.cpu.amx.code import Amx
from MNN.backends.cpu.amx.fill import Filling
from MNN.backends.cpu.amx.layout import DEPTH
from MNN.backends.cpu.amx.open_rows import AmxOpenSpec
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import I8, I64, Value
from MNN.backends.cpu.targets.base import Target


@generates(AmxOpenSpec)
def emit_open(spec: AmxOpenSpec, target: Target) -> str:
    """The module's text."""
    return _Open(spec, target).emit()


class _Open(Amx):
    """The sums are those of every product; what a block needs of A comes from numbers in the place of tables."""

    def __init__(self, spec: AmxSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.filling: _RowFilling = _RowFilling(self.k, spec, self.rows, self.second)

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        n, nb, m, mb, depth, per = (k.slot(s) for s in ("n", "nb", "m", "mb", "k", "per"))
        n_blocks = b.udiv(n + nb - 1, nb)
        n_steps = b.udiv(depth + (DEPTH - 1), DEPTH)
        self._chunks = b.udiv(n_steps + per - 1, per)
        parted = b.icmp("sgt", self._chunks, 1)
        with self.tiles.configured(), b.loop(k.begin, k.end, carry=[b.const(I64, -1)]) as block:
            filled = b.udiv(block.index, n_blocks)
            z = b.udiv(filled, k.slot("m_blocks"))
            im = filled - z * k.slot("m_blocks")
            self.n0 = (block.index - filled * n_blocks) * nb
            self.n1 = b.intrinsic("smin", self.n0 + nb, n)
            self.bases(z)
            self._low = low = b.intrinsic("smin", im * mb, m)
            self._past = b.intrinsic("smin", low + mb, m)
            self.finishing.first = low
            stale = b.icmp("ne", filled, block.carried[0])
            if spec.half:
                b.if_(stale, functools.partial(self.filling.measure_rows, self.a, low, self._past, depth))
            with b.loop(0, self._chunks) as chunk:
                begin = chunk.index * per
                end = b.intrinsic("smin", begin + per, n_steps)
                self.region = {"from": begin, "to": end}
                steps = end - begin
                if spec.overlap:  # a pair of tiles is finished in the steps of the next one
                    self.finishing.pace = b.udiv(steps + (2 * ROWS - 1), steps)
                self.fresh = b.icmp("eq", chunk.index, 0)
                self.last = b.icmp("eq", chunk.index, self._chunks - 1)
                first = begin * DEPTH
                length = b.intrinsic("smin", depth - first, steps * DEPTH)
                bring = functools.partial(self.filling.fill_rows, self.a, low, self._past, first, length)
                b.if_(self.brings_rows(stale, parted), bring)
                self.columns(im, parted)
            block.next(filled)
        return k.finish()

    def chunks(self) -> Value:
        return self._chunks

    def row_tiles(self, im: Value, first: Value) -> Value:
        del im, first
        return self.b.udiv(self._past - self._low + (ROWS - 1), ROWS)

    def results_of(self, im: Value, tile: Value) -> tuple[Value, Value]:
        del im
        begin = self._low + tile * ROWS
        return begin, self.b.intrinsic("smin", begin + 2 * ROWS, self._past)

    def step_rows(self, rows: Value, step: Value) -> Value:
        return self.b.gep(rows, I8, (step - self.region["from"]) * ROW_BYTES)

    def behind_block(self, behind: Value) -> Value:
        """The columns behind, or the first ones again, for other rows; within a sum of several chunks, the next."""
        k, b = self.k, self.b
        chunk = self.region["to"] * (2 * self.step_bytes)
        rest = b.gep(b.gep(self.right, I8, b.udiv(self.n0, 2 * ROWS) * k.slot("panel")), I8, chunk)
        block = b.select(b.icmp("eq", self.n1, k.slot("n")), self.right, behind)
        return b.select(self.last, block, rest)


class _RowFilling(Filling):
    """Rows that begin where a table says."""

    def measure_rows(self, a: Value, low: Value, past: Value, length: Value) -> None:
        """Finds the scale of rows ``low <= i < past``, of so many elements."""
        b = self._b

        def measured(finite: bool) -> Value:
            with b.loop(low, past, carry=[amx_scale.nothing(b)]) as row:
                row.next(self.largest(self._row(a, row.index), length, row.carried[0], finite))
            return row.results[0]

        amx_scale.store_scale(b, measured, self._scale)

    def fill_rows(self, a: Value, low: Value, past: Value, first: Value, length: Value) -> None:
        """Brings so many elements of rows ``low <= i < past``, from the ``first`` one on."""
        b = self._b
        self.begin()
        bring = self.of_length(length)
        with b.loop(low, past) as row:
            to = b.gep(self._rows, I8, (row.index - low) * self._pitch)
            bring(b.gep(self._row(a, row.index), self._type, first), to)

    def _row(self, a: Value, number: Value) -> Value:
        return self._b.gep(a, self._type, self._b.entry(self._k.pointer("rows_a"), number))
