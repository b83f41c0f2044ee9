"""The code of windows sliding over lines (:mod:`MNN.backends.cpu.window.spec`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import Tail, compute_type, make_tail, storage_type
from MNN.backends.cpu.lang.halves import load_halves, store_halves
from MNN.backends.cpu.lang.module import I64, Kernel, Value
from MNN.backends.cpu.products.dot8 import multiply_add
from MNN.backends.cpu.products.epilogue import Epilogue, combine, identity, load_as, masks_work
from MNN.backends.cpu.products.packed_bytes import packed_in_lanes, saturated_end
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.window import byte_rows
from MNN.backends.cpu.window.bf16_rows import combine_rows
from MNN.backends.cpu.window.cost import UNROLLED_WIDTH, columns_of, vectors_at_once
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.window.tap_groups import TapGroups
from MNN.ir.dtype import DType


@generates(WindowSpec)
def window(spec: WindowSpec, target: Target) -> str:
    """The kernel's module."""
    return _Window(spec, target).emit()


class _Window:
    """The state of one emission."""

    def __init__(self, spec: WindowSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(spec.acc)
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.target = target
        self.masked = masks_work(target, (spec.dtype, spec.weights, spec.acc, spec.out, *self.op_dtypes))
        self.epilogue = Epilogue(self.b, spec.acc, spec.out, spec.epilogue)
        self.x_type, self.y_type = storage_type(spec.dtype), storage_type(spec.out)
        self.acc = compute_type(spec.acc)
        self.hidden = target.lane_operand
        self.vectors = vectors_at_once(target, spec.dtype, spec.acc, (spec.out, *self.op_dtypes), spec.kw, spec.pairs)

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        per_block = k.slot("lines_per_block")
        first = k.begin * per_block
        past = b.intrinsic("smin", k.end * per_block, k.slot("n_lines"))
        whole = past if spec.lines == 1 else past - b.urem(past - first, b.const(I64, spec.lines))
        with b.loop(first, whole, spec.lines) as line:
            self._lines(line.index, spec.lines)
        if spec.lines > 1:
            with b.loop(whole, past) as line:
                self._lines(line.index, 1)
        return k.finish()

    def _lines(self, line: Value, count: int) -> None:
        """``count`` lines of the output from ``line`` on, side by side."""
        k, b, spec = self.k, self.b, self.spec
        numbers = [line + r for r in range(count)]
        starts = [self._entry("lines_x", n) for n in numbers]
        self.x_line, self.down = k.pointer("x"), starts
        if not self.hidden:
            self.x_line = b.gep(self.x_line, self.x_type, starts[0])
            self.down = [b.sub(s, starts[0]) for s in starts[1:]]
        self.y_lines = [b.gep(k.pointer("y"), self.y_type, self._entry("lines_y", n)) for n in numbers]
        self.op_lines = []
        for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True)):
            pointers = [k.pointer(f"op{i}")] * count
            if kind == "pc":
                begin = [self._entry(f"lines{i}", n) for n in numbers]
                pointers = [b.gep(k.pointer(f"op{i}"), storage_type(dtype), at) for at in begin]
            self.op_lines.append(pointers)
        ow, pixels = k.slot("ow"), spec.pixels
        if pixels == 1 or "pc" in spec.operands:  # what is added to may be the result's own memory: never twice
            whole = ow - b.urem(ow, b.const(I64, pixels))
            with b.loop(0, whole, pixels) as pixel:
                self._tile(pixel.index, pixels, count)
            if pixels > 1:
                with b.loop(whole, ow) as pixel:
                    self._tile(pixel.index, 1, count)
            return

        def tiles() -> tuple[()]:
            with b.loop(0, ow, pixels) as pixel:  # the last one reaches back where it would reach past the end
                self._tile(b.intrinsic("smin", pixel.index, ow - pixels), pixels, count)
            return ()

        def singles() -> tuple[()]:
            with b.loop(0, ow) as pixel:
                self._tile(pixel.index, 1, count)
            return ()

        b.if_else(b.icmp("sge", ow, pixels), tiles, singles, likely=True)

    def _entry(self, table: str, line: Value) -> Value:
        """An entry of a table of lines, as an index."""
        return self.b.entry(self.k.pointer(table), line)

    def _tile(self, pixel: Value, pixels: int, lines: int) -> None:
        """All channels of ``pixels`` outputs from ``pixel`` on in each line."""
        k, b, spec = self.k, self.b, self.spec
        base = b.gep(self.x_line, self.x_type, pixel * spec.sx * k.slot("step_x"))
        wide = spec.kw > UNROLLED_WIDTH
        columns = [p * spec.sx for p in range(pixels)] if wide else columns_of(pixels, spec.kw, spec.sx, spec.dx)
        at = {c: b.gep(base, self.x_type, k.slot("step_x") * c) for c in columns}
        tile = [(r, p) for r in range(lines) for p in range(pixels)]
        y = [b.gep(self.y_lines[r], self.y_type, (pixel + p) * k.slot("step_y")) for r, p in tile]
        moving = {
            i: [b.gep(self.op_lines[i][r], storage_type(dtype), (pixel + p) * k.slot(f"step{i}")) for r, p in tile]
            for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True))
            if kind == "pc"
        }

        def channels(channel: Value, lanes: int, tail: Tail | None, vectors: int = 1) -> None:
            def operand(pointer: Value, dtype: DType, kind: str) -> list[Value]:
                if vectors == 1 or kind == "1":
                    at = None if kind == "1" else channel
                    return [self.epilogue.load(pointer, dtype, at, lanes, tail)] * vectors
                return load_halves(b, dtype, b.gep(pointer, storage_type(dtype), channel), lanes)

            values = self._combine(at, pixels, channel, lanes, tail, vectors)
            shared = [
                None if kind == "pc" else operand(self.op_lines[i][0], dtype, kind)
                for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True))
            ]
            for t, to in enumerate(y):
                args = [found or operand(moving[i][t], self.op_dtypes[i], "pc") for i, found in enumerate(shared)]
                results = [
                    self.epilogue.apply(values[t * vectors + v], [arg[v] for arg in args], lanes)
                    for v in range(vectors)
                ]
                if vectors == 1:
                    self.epilogue.store(results[0], b.gep(to, self.y_type, channel), tail)
                else:
                    even, odd = results
                    store_halves(b, spec.out, even, odd, b.gep(to, self.y_type, channel))

        count = k.slot("c")
        if spec.taps:
            TapGroups(k, spec, self.epilogue, self.op_lines, self.lanes).emit(at, pixels, y)
            return
        first: Value | int = 0
        if self.vectors > 1:
            first = b.and_(count, -self.vectors * self.lanes)
            with b.loop(0, first, self.vectors * self.lanes) as several:
                channels(several.index, self.lanes, None, self.vectors)
        whole = b.and_(count, -self.lanes)
        if spec.fours:
            first = self._byte_groups(at, pixels, y)
            whole = b.intrinsic("smax", whole, first)
        with b.loop(first, whole, self.lanes) as vector:
            channels(vector.index, self.lanes, None)
        if self.lanes == 1:
            return
        if self.masked:
            with b.loop(whole, count, self.lanes) as rest:  # at most once
                channels(rest.index, self.lanes, make_tail(b, count - rest.index, self.lanes))
        else:
            with b.loop(whole, count) as rest:
                channels(rest.index, 1, None)

    def _rows(self, at_x: Value) -> list[Value]:
        """Where the current row of every line's window begins, relative to ``x_line``.

        With short vectors LLVM must not see where these come from: it would move a pointer per column from row to row,
        one addition each, which weighs as much as the multiply-adds.
        """
        if self.hidden:
            return [self.b.emit(I64, f"freeze i64 {(at_x + d).text}") for d in self.down]
        return [at_x, *(at_x + d for d in self.down)]

    def _load(
        self, pointer: Value, dtype: DType, index: Value, lanes: int, tail: Tail | None, vectors: int
    ) -> list[Value]:
        address = self.b.gep(pointer, storage_type(dtype), index)
        if vectors > 1:
            return load_halves(self.b, dtype, address, lanes)
        return [load_as(self.b, dtype, self.spec.acc, address, lanes, tail)]

    def _add(self, total: Value, x: Value, weight: Value | None) -> Value:
        """``total`` with one more element of the window."""
        spec, lanes = self.spec, x.type.lanes
        if weight is not None and spec.weights is DType.I16 and self.target.can(can.PAIRS_I16) and lanes == self.lanes:
            return multiply_add(self.b, self.target, total, x, weight)
        return combine(self.b, spec.op, spec.acc, total, x, weight)

    def _tap(self, column: int, pixel: int) -> bool:
        """Whether a column belongs to the window of a pixel of the tile."""
        kx, off = divmod(column - pixel * self.spec.sx, self.spec.dx)
        return off == 0 and 0 <= kx < self.spec.kw

    def _taps(self, columns: Iterable[int], pixels: int) -> dict[int, list[tuple[int, int]]]:
        """The pixels of the tile that each column belongs to, and the column of their windows that it is."""
        sx, dx = self.spec.sx, self.spec.dx
        return {c: [(p, (c - p * sx) // dx) for p in range(pixels) if self._tap(c, p)] for c in columns}

    def _byte_groups(self, at: dict[int, Value], pixels: int, to: Sequence[Value]) -> Value:
        """The channels that are taken in groups, four rows at a time; where the others begin."""
        k, b, spec = self.k, self.b, self.spec
        end = saturated_end(spec.epilogue)
        assert end is not None
        past, count = byte_rows.in_groups_of(b, k.slot("c"), spec.cut), k.slot("c")
        cut = make_tail(b, count, byte_rows.CHANNELS) if spec.cut else None
        with b.loop(0, past, byte_rows.CHANNELS) as group:
            channel = b.const(I64, 0) if spec.cut else b.intrinsic("smin", group.index, count - byte_rows.CHANNELS)
            taps = self._taps(at, pixels)
            sums = byte_rows.combine_byte_rows(k, at, taps, spec.kw, channel, group.index, pixels, spec.planes, cut)
            operands = [
                byte_rows.load_operand(b, self.epilogue, dtype, lines[0], None if kind == "1" else channel, cut)
                for kind, dtype, lines in zip(spec.operands, self.op_dtypes, self.op_lines, strict=True)
            ]
            for pixel, pointer in enumerate(to):
                own = sums[byte_rows.VECTORS * pixel :]
                found = [
                    self.epilogue.before(end.value, own[v], [operand[v] for operand in operands], self.lanes)
                    for v in range(byte_rows.VECTORS)
                ]
                self.epilogue.store(packed_in_lanes(b, found, end), b.gep(pointer, self.y_type, channel), cut)
        return past

    def _combine(
        self, at: dict[int, Value], pixels: int, channel: Value, lanes: int, tail: Tail | None, vectors: int
    ) -> list[Value]:
        """The combined window of each pixel of the tile, line by line: ``vectors`` for channels from ``channel`` on."""
        k, b, spec = self.k, self.b, self.spec
        start = b.const(self.acc.vec(lanes), identity(spec.op, spec.acc))
        size = pixels * len(self.y_lines) * vectors
        if spec.pairs and vectors > 1:
            return combine_rows(k, at, self._taps(at, pixels), spec.kw, channel, pixels)
        if not spec.planes:
            return self._rows_of_plane(at, pixels, lanes, tail, vectors, [start] * size, channel, channel)[:size]
        with b.loop(0, k.slot("n_planes"), carry=[start] * size + [channel]) as plane:
            *sums, at_w = plane.carried
            at_x = channel + self._entry("planes", plane.index)
            found = self._rows_of_plane(at, pixels, lanes, tail, vectors, sums, at_x, at_w)
            plane.next(*found[:size], found[-1])
        return plane.results[:size]

    def _rows_of_plane(
        self,
        at: dict[int, Value],
        pixels: int,
        lanes: int,
        tail: Tail | None,
        vectors: int,
        sums: list[Value],
        at_x: Value,
        at_w: Value,
    ) -> list[Value]:
        """``sums`` with the rows of a window's plane from ``at_x`` on; where the next one and its weights are, last."""
        k, b, spec = self.k, self.b, self.spec
        size, dot = len(sums), spec.op == "dot"
        with b.loop(0, k.slot("kh"), carry=[*sums, at_x, at_w]) as ky:
            values, at_x, at_w = list(ky.carried[:size]), ky.carried[-2], ky.carried[-1]
            rows = self._rows(at_x)
            if spec.kw > UNROLLED_WIDTH:
                with b.loop(0, spec.kw, carry=[*values, b.const(I64, 0), at_w], guard=False) as kx:
                    values, column, w_index = list(kx.carried[:size]), kx.carried[-2], kx.carried[-1]
                    w = self._load(k.pointer("w"), spec.weights, w_index, lanes, tail, 1)[0] if dot else None
                    for t in range(size):
                        place = rows[t // pixels] + column
                        (x,) = self._load(at[t % pixels * spec.sx], spec.dtype, place, lanes, tail, 1)
                        values[t] = self._add(values[t], x, w)
                    kx.next(*values, column + k.slot("step_x") * spec.dx, w_index + k.slot("c"))
                values, at_w = list(kx.results[:size]), kx.results[-1]
            else:
                weights: list[list[Value] | list[None]] = [[None] * vectors] * spec.kw
                for kx_ in range(spec.kw):
                    if dot:
                        weights[kx_] = self._load(k.pointer("w"), spec.weights, at_w, lanes, tail, vectors)
                        at_w = at_w + k.slot("c")
                for r, row in enumerate(rows):
                    for column_, pointer in at.items():
                        found: list[Value] = []
                        for p in range(pixels):
                            if self._tap(column_, p):
                                kx_ = (column_ - p * spec.sx) // spec.dx
                                found = found or self._load(pointer, spec.dtype, row, lanes, tail, vectors)
                                for v in range(vectors):
                                    t = (r * pixels + p) * vectors + v
                                    values[t] = self._add(values[t], found[v], weights[kx_][v])
            ky.next(*values, at_x + k.slot("row_x"), at_w)
        return ky.results
