"""Windows sliding over lines of pixels, channels innermost: depthwise convolution and pooling.

Vectors run along channels. A tile of ``pixels`` neighbouring outputs of a line is kept in registers, so that a column
of the input which several windows of the tile share is loaded once per row of the window; tiles walk the channels
inside of a pixel position, so that memory is read in order. A tile may span several ``lines``, whose windows share
rows of the input while these are in the first-level cache: what is read from the second level shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.traffic import number, table
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
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

OPS = ("dot", "max", "sum")
OPERAND_KINDS = ("c", "pc", "1")
_FOURS = ("dot", DType.U8, DType.I32, 1)
"""Operation, types and lines at a time of windows that are taken four rows at a time."""


@dataclass(frozen=True)
class WindowSpec(KernelSpec):
    """For line ``l``, output pixel ``ox`` and channel ``ch``::

        y[lines_y[l] + ox*step_y + ch] = epilogue(combine_{ky < kh, kx < kw}
            x[lines_x[l] + ky*row_x + (ox*sx + kx*dx)*step_x + ch] (* w[(ky*kw + kx)*c + ch] for op "dot"), operands...)

    ``combine`` is a sum for ``"dot"`` and ``"sum"``, the maximum for ``"max"`` (NaN wins). ``dtype`` is x's, ``acc``
    that of the weights and of the sums; for 8-bit x summed in i32 the weights are i16. ``lines_x`` and ``lines_y`` are
    i32[n_lines] tables of element offsets.
    Operands of the epilogue (arguments 1.., argument 0 is the combined value) are ``"c"`` one per channel, ``"1"`` a
    scalar, or ``"pc"`` ``op{i}[lines{i}[l] + ox*step{i} + ch]``. y may be the memory of a ``"pc"`` operand addressed
    alike, and must not overlap x or w. Block ``b`` handles lines ``[b * lines_per_block, (b + 1) * lines_per_block)``.
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    acc: DType
    out: DType
    op: str
    kw: int
    sx: int
    dx: int
    pixels: int
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    lines: int = 1
    pairs: bool = field(default=False, kw_only=True)
    """Two rows of bf16 at a time (:mod:`MNN.backends.cpu.window.bf16_rows`): w, packed for that, is the argument
    ``pairs``."""
    fours: bool = field(default=False, kw_only=True)
    """Four rows of bytes at a time (:mod:`MNN.backends.cpu.window.byte_rows`), of 64 channels: w, packed for that, is
    the argument ``fours``. The epilogue ends in bytes that packing bounds."""
    cut: bool = field(default=False, kw_only=True)
    """With fewer channels than that."""
    planes: bool = field(default=False, kw_only=True)
    """Whether windows have several planes of rows (volumes): ``n_planes``, that lie at the offsets ``planes``, an i32
    table. The weights of a plane follow those of the one before."""

    def __post_init__(self) -> None:
        if self.op not in OPS or not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad window operation {self.op} or operand kinds {self.operands}")
        if self.pairs and (self.op, self.dtype, self.acc, self.lines) != ("dot", DType.BF16, DType.F32, 1):
            raise ValueError("only single lines of products of bf16 are taken two rows at a time")
        if self.pairs and self.planes:
            raise ValueError("rows of several planes are not taken two at a time")
        whole = (self.op, self.dtype, self.acc, self.lines) == _FOURS and "pc" not in self.operands
        if (self.fours and not whole) or (self.cut and not self.fours):
            raise ValueError("only single lines of products of unsigned bytes are taken four rows at a time")
        if self.fours and saturated_end(self.epilogue) is None:
            raise ValueError("four rows at a time end in bytes")
        if min(self.kw, self.sx, self.dx, self.pixels, self.lines) < 1:
            raise ValueError("widths, strides, dilations and tiles are positive")
        if self.dtype is not self.acc and self.dtype.is_float != self.acc.is_float:
            raise ValueError(f"no windows over {self.dtype.value} combined in {self.acc.value}")
        if self.epilogue is not None and len(self.epilogue.args) != 1 + len(self.operands):
            raise ValueError("the epilogue's arguments are the combined value and the operands")

    @property
    def weights(self) -> DType:
        """The type of the weights."""
        return DType.I16 if self.dtype in (DType.I8, DType.U8) and self.acc is DType.I32 else self.acc

    def slots(self) -> tuple[str, ...]:
        base = "x w y lines_x lines_y n_lines kh row_x step_x step_y ow c lines_per_block".split()
        base += ["pairs"] if self.pairs else []
        base += ["fours"] if self.fours else []
        base += ["planes", "n_planes"] if self.planes else []
        for i, kind in enumerate(self.operands):
            base += [f"op{i}", f"lines{i}", f"step{i}"] if kind == "pc" else [f"op{i}"]
        return tuple(base)

    def traffic(self, args: Arguments) -> dict[str, int]:
        lines, kh, ow, c = (number(args, slot) for slot in ("n_lines", "kh", "ow", "c"))
        columns = len(columns_of(ow, self.kw, self.sx, self.dx))
        starts = table(args, "lines_x", lines)[:, None] + np.arange(kh) * number(args, "row_x")
        if self.planes:
            planes = table(args, "planes", number(args, "n_planes"))
            starts, kh = starts[..., None] + planes, kh * planes.size
        result = lines * ow * c
        found = {"x": np.unique(starts).size * columns * c * self.dtype.size, "y": result * self.out.size}
        if self.op == "dot":
            found["w"] = kh * self.kw * c * self.weights.size
        for i, kind in enumerate(self.operands):
            assert self.epilogue is not None
            count = {"pc": result, "c": c, "1": 1}[kind]
            found[f"op{i}"] = count * self.epilogue.args[1 + i].size
        return found

    def in_place(self, args: Arguments) -> overlay.Pairs:
        lines = number(args, "n_lines")
        return tuple(
            ("y", f"op{i}")
            for i, kind in enumerate(self.operands)
            if kind == "pc"
            and self.epilogue is not None
            and overlay.fits(self.epilogue.args[1 + i], self.out)
            and args[f"step{i}"] == args["step_y"]
            and overlay.same_table(args, "lines_y", f"lines{i}", lines)
        )

    def emit(self, target: Target) -> str:
        return _Window(self, target).emit()


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
