"""Code generation of :class:`MNN.backends.cpu.lowbit.spec.CompressedSpec`."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.routed_rows import rows_of_block
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Value
from MNN.backends.cpu.lowbit.layout import SHIFT, VECTORS, BlockCode, block_record
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.lowbit.words import Group, Reader
from MNN.backends.cpu.products.dot import DOT2, interleave
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

LINE = 64
AHEAD = 4096
"""Bytes that codes are asked for ahead: the second-level cache asks ahead within a page only."""


@generates(CompressedSpec)
def emit_compressed(spec: CompressedSpec, target: Target) -> str:
    """The module's text."""
    return (FewRows if spec.few else Expanding)(spec, target).emit()


def asks_ahead(b: Builder, target: Target, words: list[Value]) -> None:
    """Asks for what is read a little later than the vectors at ``words``, line by line."""
    for place in words[:: max(LINE // target.vector_bytes, 1)]:
        b.prefetch(b.gep(place, I8, AHEAD))


class _Compressed(Contract):
    """What both ways share: where records lie."""

    begins = False

    def __init__(self, spec: CompressedSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.weights = spec
        self.columns_of_panel = VECTORS * self.lanes
        self.prefetches = False
        self.reader = Reader(self.k, target, spec, self.columns_of_panel, floats=True)
        self.steps = self.reader.steps

    def groups(self, codes: list[Value], group: Value) -> list[Group]:
        """A group of each vector of columns; ``codes``: where those of a block begin."""
        places = [self.reader.places(start, group) for start in codes]
        for some in zip(*places, strict=True):
            asks_ahead(self.b, self.target, list(some))
        return [self.reader.group(some, self.lanes) for some in places]

    def record_bytes(self) -> Value:
        head = block_record(self.weights.zeros, self.weights.factors, self.columns_of_panel).size
        return self.reader.bytes_of(self.k.slot("groups")) + head

    def record(self, start: Value, column: Value, lanes: int) -> BlockCode:
        return BlockCode(self.b, self.weights, self.columns_of_panel, start, column, lanes)


class Expanding(_Compressed):
    """Panels are expanded, then multiplied."""

    def _panel(self, base: Value, m0: Value) -> tuple[Value, Value | int]:
        k, b, spec = self.k, self.b, self.weights
        packed = b.gep(k.scratch, self.acc, spec.mr * spec.nv)
        size, groups = self.record_bytes(), k.slot("groups")
        last = b.udiv(k.slot("n") + (self.columns_of_panel - 1), self.columns_of_panel) - 1
        starts, columns = [], []
        for j in range(spec.nv):  # a vector of columns past the last panel repeats some of it, and is not stored
            at = self.column + j * self.lanes
            panel = b.intrinsic("smin", b.udiv(at, self.columns_of_panel), last)
            starts.append(b.gep(base, I8, panel * k.slot("blocks") * size))
            columns.append(b.urem(at, self.columns_of_panel))
        with b.loop(0, k.slot("blocks")) as block:
            records = [
                self.record(b.gep(start, I8, block.index * size), column, self.lanes)
                for start, column in zip(starts, columns, strict=True)
            ]
            scales = [r.scale(0) for r in records]
            zeros = [r.zero(0) for r in records] if spec.zeros != "none" else []
            codes = [r.codes() for r in records]
            with b.loop(0, groups) as group:
                here = self.groups(codes, group.index)
                line = (block.index * groups + group.index) * self.steps
                for u in range(0, self.steps, spec.group):
                    for j in range(spec.nv):
                        parts = [self._number(here[j].number(u + i), scales[j], zeros, j) for i in range(spec.group)]
                        self._store(parts, b.gep(packed, self.b_type, (line + u) * self.nr), j)
        return packed, self.nr * spec.group

    def _number(self, code: Value, scale: Value, zeros: list[Value], j: int) -> Value:
        b = self.b
        if self.weights.zeros == "offset":
            return b.fma(code, scale, zeros[j])
        return b.mul(b.sub(code, zeros[j]) if zeros else code, scale)

    def _store(self, parts: list[Value], line: Value, j: int) -> None:
        """One step of the sum, or two side by side in bf16."""
        b = self.b
        if len(parts) == DOT2:
            halves = [element.narrow(b, DType.BF16, p) for p in parts]
            b.store(interleave(b, halves, DOT2), b.gep(line, I32, j * self.lanes), align=4)
        else:
            b.store(parts[0], b.gep(line, F32, j * self.lanes))


class FewRows(_Compressed):
    """Codes become numbers in registers. Rows of A lie in scratch memory, times 2^-20, zeros past their ends."""

    def __init__(self, spec: CompressedSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.spread = 1 if spec.mr * spec.nv >= 4 else 2
        """In how many parts sums are, so that enough multiply-adds are in flight."""

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.weights
        n, nb = k.slot("n"), k.slot("nb")
        n_blocks = b.udiv(n + nb - 1, nb)
        self.a, self.c = k.pointer("a"), k.pointer("c")
        self.ops = [k.pointer(f"op{i}") for i in range(len(spec.operands))]
        with b.loop(k.begin, k.end) as block:
            part = b.udiv(block.index, n_blocks)
            m0, self.m1, right = rows_of_block(k, spec.routed, part)
            n0 = (block.index - part * n_blocks) * nb
            n1 = b.intrinsic("smin", n0 + nb, n)
            self._prepare(m0)
            with b.loop(n0, n1, self.nr) as column:
                self.column, self.columns = column.index, n1 - column.index
                self.first = b.urem(self.column, self.columns_of_panel)
                number = b.udiv(self.column, self.columns_of_panel)
                panel = b.gep(right, I8, number * k.slot("blocks") * self.record_bytes())
                with b.loop(m0, self.m1, spec.mr) as row:
                    self.finish(row.index, self._tiles(row.index, panel), spec.mr)
        return k.finish()

    def _prepare(self, m0: Value) -> None:
        """Copies the rows from ``m0`` on, and sums them block by block."""
        k, b, spec = self.k, self.b, self.weights
        self.m0, blocks = m0, k.slot("blocks")
        self.run = k.slot("groups") * self.steps
        self.depth = blocks * self.run
        rows = self.m1 - m0
        self.left = b.gep(k.scratch, F32, spec.mr * self.nr)
        self.totals = b.gep(self.left, F32, rows * self.depth)
        end = b.and_(k.slot("k"), -self.lanes)
        with b.loop(0, rows) as row:
            offset = b.load(I32, b.gep(k.pointer("rows_a"), I32, m0 + row.index))
            source, to = b.gep(self.a, self.a_type, offset), b.gep(self.left, F32, row.index * self.depth)
            with b.loop(self.depth - self.steps, self.depth) as last:
                b.store(b.const(F32, 0), b.gep(to, F32, last.index))

            def copy(at: Value, lanes: int, source: Value = source, to: Value = to) -> None:
                value = element.load(b, spec.a, b.gep(source, self.a_type, at), lanes)
                b.store(b.mul(value, 2.0**-SHIFT), b.gep(to, F32, at))

            with b.loop(0, end, self.lanes) as main:
                copy(main.index, self.lanes)
            with b.loop(end, k.slot("k")) as rest:
                copy(rest.index, 1)
        if spec.zeros == "none":
            return
        with b.loop(0, rows * blocks, carry=[b.const(F32, 0)]) as line:
            total = self._total(b.gep(self.left, F32, line.index * self.run))
            b.store(total, b.gep(self.totals, F32, line.index))
            line.next(b.fma(total, b.const(F32, 0), line.carried[0]))
        self.strange = b.fcmp("uno", line.results[0], line.results[0])

    def _total(self, start: Value) -> Value:
        """The sum of a block of A, in parts."""
        b, wide = self.b, F32.vec(self.lanes)
        whole = b.and_(self.run, -self.lanes)
        with b.loop(0, whole, self.lanes, carry=[b.const(wide, 0)]) as main:
            main.next(b.add(main.carried[0], b.load(wide, b.gep(start, F32, main.index))))
        total = main.results[0]
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low, high = (b.shuffle(total, None, range(i * lanes, (i + 1) * lanes)) for i in (0, 1))
            total = b.add(low, high)
        with b.loop(whole, self.run, carry=[total]) as rest:
            rest.next(b.add(rest.carried[0], b.load(F32, b.gep(start, F32, rest.index))))
        return rest.results[0]

    def _tiles(self, row: Value, panel: Value) -> list[Value]:
        if self.weights.zeros == "none":
            return self._tile(row, panel, False)
        # Where A holds infinities or what is none, zero points must be taken off before the products are.
        return self.b.if_else(self.strange, lambda: self._tile(row, panel, True), lambda: self._tile(row, panel, False))

    def _tile(self, row: Value, panel: Value, exact: bool) -> list[Value]:
        """The sums of a tile; ``exact``: zero points are taken off every number, not off the sums of a block."""
        k, b, spec = self.k, self.b, self.weights
        at = [b.intrinsic("smin", row + r, self.m1 - 1) - self.m0 for r in range(spec.mr)]
        rows = [b.gep(self.left, F32, r * self.depth) for r in at]
        totals = [b.gep(self.totals, F32, r * k.slot("blocks")) for r in at]
        size, count = self.record_bytes(), spec.mr * spec.nv
        nothing = [b.const(self.acc, 0)] * count
        with b.loop(0, k.slot("blocks"), carry=[*nothing, panel]) as block:
            start = block.carried[-1]
            records = [self.record(start, self.first + j * self.lanes, self.lanes) for j in range(spec.nv)]
            change = self._exactly(records) if exact else None
            found = self._block(records, rows, block.index * self.run, change)
            sums = []
            for j, record in enumerate(records):
                scale = record.scale() if not exact or spec.zeros == "i8" else None
                zero = record.zero() if not exact and spec.zeros != "none" else None
                for r in range(spec.mr):
                    total, part = block.carried[j * spec.mr + r], found[j * spec.mr + r]
                    if zero is not None:
                        taken = b.splat(b.load(F32, b.gep(totals[r], F32, block.index)), self.lanes)
                        if spec.zeros == "i8":
                            part = b.fma(b.fneg(zero), taken, part)
                        else:
                            total = b.fma(zero, taken, total)
                    sums.append(b.add(part, total) if scale is None else b.fma(part, scale, total))
            block.next(*sums, b.gep(start, I8, size))
        transposed = block.results
        return [transposed[j * spec.mr + r] for r in range(spec.mr) for j in range(spec.nv)]

    def _exactly(self, records: list[BlockCode]) -> Callable[[Value, int], Value]:
        b, zeros = self.b, [r.zero() for r in records]
        if self.weights.zeros == "i8":
            return lambda code, j: b.sub(code, zeros[j])
        scales = [r.scale() for r in records]
        return lambda code, j: b.fma(code, scales[j], zeros[j])

    def _block(
        self, records: list[BlockCode], rows: list[Value], first: Value, change: Callable[[Value, int], Value] | None
    ) -> list[Value]:
        """Sums over a block, vector of columns by vector."""
        b, spec = self.b, self.weights
        places = [r.codes() for r in records]
        count = spec.mr * spec.nv
        with b.loop(0, self.k.slot("groups"), carry=[b.const(self.acc, 0)] * (count * self.spread)) as group:
            sums = list(group.carried)
            here = self.groups(places, group.index)
            at = [b.gep(r, F32, first + group.index * self.steps) for r in rows]
            for u in range(self.steps):
                left = [b.splat(b.load(F32, b.gep(p, F32, u)), self.lanes) for p in at]
                for j in range(spec.nv):
                    number = here[j].number(u)
                    number = number if change is None else change(number, j)
                    for r in range(spec.mr):
                        i = u % self.spread * count + j * spec.mr + r
                        sums[i] = b.fma(left[r], number, sums[i])
            group.next(*sums)
        found = group.results
        return [b.add(x, y) for x, y in zip(found, found[count:], strict=False)] if self.spread > 1 else found
