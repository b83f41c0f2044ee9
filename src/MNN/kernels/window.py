"""Windows sliding over lines of pixels, channels innermost: depthwise convolution and pooling.

Vectors run along channels. A tile of ``pixels`` neighbouring outputs of a line is kept in registers, so that a column
of the input which several windows of the tile share is loaded once per row of the window; tiles walk the channels
inside of a pixel position, so that memory is read in order. A tile may span several ``lines``, whose windows share
rows of the input while these are in the first-level cache: what is read from the second level shrinks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.kernels import overlay
from MNN.kernels.contract_cost import KEPT
from MNN.kernels.dot8 import multiply_add
from MNN.kernels.element import Tail, compute_type, make_tail, storage_type
from MNN.kernels.epilogue import Epilogue, combine, identity, load_as, masks_work
from MNN.kernels.halves import load_halves, store_halves
from MNN.kernels.lang import I32, I64, Kernel, Value
from MNN.kernels.spec import KernelSpec
from MNN.kernels.traffic import Arguments, number, table
from MNN.targets.base import Target

OPS = ("dot", "max", "sum")
OPERAND_KINDS = ("c", "pc", "1")
_UNROLLED_WIDTH = 11
_WIDEST_IN_TWOS = 3
"""Measured: 3x3 windows gain 10 to 18 %, 5x5 lose 8 %, for want of registers for sums and weights."""
_MAX_PIXELS = 8
_MAX_LINES = 2
_ROW_CYCLES = 2.0
_TILE_CYCLES = 20.0
_OTHER_REGISTERS = 12
"""General registers for strides, counters and addresses of weights. Short vectors weigh no more than an address that is
reloaded: then pointers to the columns must fit, but for one or two."""


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

    def __post_init__(self) -> None:
        if self.op not in OPS or not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad window operation {self.op} or operand kinds {self.operands}")
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
        for i, kind in enumerate(self.operands):
            base += [f"op{i}", f"lines{i}", f"step{i}"] if kind == "pc" else [f"op{i}"]
        return tuple(base)

    def traffic(self, args: Arguments) -> dict[str, int]:
        lines, kh, ow, c = (number(args, slot) for slot in ("n_lines", "kh", "ow", "c"))
        columns = len(_columns(ow, self.kw, self.sx, self.dx))
        starts = table(args, "lines_x", lines)[:, None] + np.arange(kh) * number(args, "row_x")
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
            and self.epilogue.args[1 + i].size == self.out.size
            and args[f"step{i}"] == args["step_y"]
            and overlay.same_table(args, "lines_y", f"lines{i}", lines)
        )

    def emit(self, target: Target) -> str:
        return _Window(self, target).emit()


def choose_window(
    target: Target,
    op: str,
    kernel: tuple[int, int],
    sx: int,
    dx: int,
    lines: int,
    ow: int,
    vectors: int = 1,
    made: Collection[tuple[int, int]] = (),
    spare: float = 0.0,
) -> tuple[int, int]:
    """Lines and pixels of a tile for ``lines`` lines of ``ow`` pixels under windows of ``kernel`` (height, width).

    Large tiles load least per window and pay least for their start and end, but sums and weights must fit the vector
    registers and addresses the general ones, and the last tile of a line reaches back over pixels that it does twice.
    ``vectors`` of sums per pixel are kept at a time (see :func:`vectors_at_once`). The best tile for which a kernel was
    ``made`` is taken while it is close to the best of all: no more than ``spare`` cycles per vector of channels slower,
    or a small share.
    """
    kh, kw = kernel
    weights = (kw if op == "dot" and kw <= _UNROLLED_WIDTH else 1) * vectors
    most = max(1, min((target.vector_registers - weights - 3) // vectors, target.general_registers - 1))
    best, best_cost = (1, 1), float("inf")
    close, close_cost = (1, 1), float("inf")
    for pixels in range(1, min(_MAX_PIXELS, max(ow, 1)) + 1):
        columns = len(_columns(pixels, kw, sx, dx)) if kw <= _UNROLLED_WIDTH else pixels
        for deep in range(1, _MAX_LINES + 1):
            if deep * pixels > 1 and (deep * pixels > most or deep > lines):
                continue
            if pixels > 1 and target.lane_operand and columns + deep + _OTHER_REGISTERS > target.general_registers:
                continue
            groups, rest = divmod(lines, deep)
            tiles = -(-ow // pixels)
            cost = tiles * (groups * _tile_cycles(target, kh, kw, columns, weights, deep, pixels, vectors))
            cost += tiles * rest * _tile_cycles(target, kh, kw, columns, weights, 1, pixels, vectors)
            if cost < best_cost * 0.999:
                best, best_cost = (deep, pixels), cost
            if cost < close_cost and (deep, pixels) in made:
                close, close_cost = (deep, pixels), cost
    for deep, pixels in made:
        if pixels > ow and deep <= lines:  # such a kernel takes the pixels of a line one by one
            groups, rest = divmod(lines, deep)
            columns = kw if kw <= _UNROLLED_WIDTH else 1
            single = [_tile_cycles(target, kh, kw, columns, weights, n, 1, vectors) for n in (deep, 1)]
            cost = ow * (groups * single[0] + rest * single[1])
            if cost < close_cost:
                close, close_cost = (deep, pixels), cost
    return close if close_cost <= max(KEPT * best_cost, best_cost + spare) else best


def vectors_at_once(target: Target, dtype: DType, acc: DType, others: Sequence[DType], kw: int) -> int:
    """Vectors of channels that a tile takes together: two where one of bf16 is (see :mod:`MNN.kernels.halves`).

    ``others`` are the types of the result and of the operands.
    """
    pairs = dtype is DType.BF16 and acc is DType.F32 and target.has("avx512bf16") and target.lanes(acc) == 16
    known = all(d in (DType.F32, DType.BF16) for d in others)
    return 2 if pairs and known and kw <= _WIDEST_IN_TWOS else 1


def _tile_cycles(
    target: Target, kh: int, kw: int, columns: int, weights: int, lines: int, pixels: int, vectors: int
) -> float:
    """The vectors of channels taken together in one tile: arithmetic or loads, whichever is more, its start and end."""
    spilled = max(0, columns + lines + 4 - target.general_registers)
    row = max(
        (lines * columns + weights + spilled) / target.loads_per_cycle,
        vectors * lines * pixels * kw / target.fma_per_cycle,
        target.fma_latency,
    )
    return kh * (row + _ROW_CYCLES) + 2.0 * vectors * lines * pixels + _TILE_CYCLES


def _columns(pixels: int, kw: int, sx: int, dx: int) -> list[int]:
    """Input columns that a tile reads, relative to its first."""
    return sorted({p * sx + kx * dx for p in range(pixels) for kx in range(kw)})


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
        self.vectors = vectors_at_once(target, spec.dtype, spec.acc, (spec.out, *self.op_dtypes), spec.kw)

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
        return self.b.convert("sext", self.b.load(I32, self.b.gep(self.k.pointer(table), I32, line)), I64)

    def _tile(self, pixel: Value, pixels: int, lines: int) -> None:
        """All channels of ``pixels`` outputs from ``pixel`` on in each line."""
        k, b, spec = self.k, self.b, self.spec
        base = b.gep(self.x_line, self.x_type, pixel * spec.sx * k.slot("step_x"))
        wide = spec.kw > _UNROLLED_WIDTH
        columns = [p * spec.sx for p in range(pixels)] if wide else _columns(pixels, spec.kw, spec.sx, spec.dx)
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
        if weight is not None and spec.weights is DType.I16 and self.target.family == "x86" and lanes == self.lanes:
            return multiply_add(self.b, self.target, total, x, weight)
        return combine(self.b, spec.op, spec.acc, total, x, weight)

    def _combine(
        self, at: dict[int, Value], pixels: int, channel: Value, lanes: int, tail: Tail | None, vectors: int
    ) -> list[Value]:
        """The combined window of each pixel of the tile, line by line: ``vectors`` for channels from ``channel`` on."""
        k, b, spec = self.k, self.b, self.spec
        start = b.const(self.acc.vec(lanes), identity(spec.op, spec.acc))
        dot = spec.op == "dot"
        size = pixels * len(self.y_lines) * vectors
        with b.loop(0, k.slot("kh"), carry=[start] * size + [channel, channel]) as ky:
            values, at_x, at_w = list(ky.carried[:size]), ky.carried[-2], ky.carried[-1]
            rows = self._rows(at_x)
            if spec.kw > _UNROLLED_WIDTH:
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
                            kx_, off = divmod(column_ - p * spec.sx, spec.dx)
                            if off == 0 and 0 <= kx_ < spec.kw:
                                found = found or self._load(pointer, spec.dtype, row, lanes, tail, vectors)
                                for v in range(vectors):
                                    t = (r * pixels + p) * vectors + v
                                    values[t] = self._add(values[t], found[v], weights[kx_][v])
            ky.next(*values, at_x + k.slot("row_x"), at_w)
        return ky.results[:size]
