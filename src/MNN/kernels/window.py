"""Windows sliding over lines of pixels, channels innermost: depthwise convolution and pooling.

Vectors run along channels. A tile of ``pixels`` neighbouring outputs of a line is kept in registers, so that a column
of the input which several windows of the tile share is loaded once per row of the window; tiles walk the channels
inside of a pixel position, so that memory is read in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.kernels.element import Tail, compute_type, make_tail, storage_type
from MNN.kernels.epilogue import Epilogue, combine, identity, load_as, masks_work
from MNN.kernels.lang import I32, I64, Kernel, Value
from MNN.kernels.spec import KernelSpec
from MNN.kernels.traffic import Arguments, number, table
from MNN.targets.base import Target

OPS = ("dot", "max", "sum")
OPERAND_KINDS = ("c", "pc", "1")
_UNROLLED_WIDTH = 11
_MAX_PIXELS = 8


@dataclass(frozen=True)
class WindowSpec(KernelSpec):
    """For line ``l``, output pixel ``ox`` and channel ``ch``::

        y[lines_y[l] + ox*step_y + ch] = epilogue(combine_{ky < kh, kx < kw}
            x[lines_x[l] + ky*row_x + (ox*sx + kx*dx)*step_x + ch] (* w[(ky*kw + kx)*c + ch] for op "dot"), operands...)

    ``combine`` is a sum for ``"dot"`` and ``"sum"``, the maximum for ``"max"`` (NaN wins). ``dtype`` is x's, ``acc``
    that of the weights and of the sums. ``lines_x`` and ``lines_y`` are i32[n_lines] tables of element offsets.
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

    def __post_init__(self) -> None:
        if self.op not in OPS or not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad window operation {self.op} or operand kinds {self.operands}")
        if min(self.kw, self.sx, self.dx, self.pixels) < 1:
            raise ValueError("widths, strides, dilations and tiles are positive")
        if self.dtype is not self.acc and self.dtype.is_float != self.acc.is_float:
            raise ValueError(f"no windows over {self.dtype.value} combined in {self.acc.value}")
        if self.epilogue is not None and len(self.epilogue.args) != 1 + len(self.operands):
            raise ValueError("the epilogue's arguments are the combined value and the operands")

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
            found["w"] = kh * self.kw * c * self.acc.size
        for i, kind in enumerate(self.operands):
            assert self.epilogue is not None
            count = {"pc": result, "c": c, "1": 1}[kind]
            found[f"op{i}"] = count * self.epilogue.args[1 + i].size
        return found

    def emit(self, target: Target) -> str:
        return _Window(self, target).emit()


def choose_pixels(target: Target, op: str, kw: int, sx: int, dx: int, ow: int, c: int) -> int:
    """Output pixels per tile of lines of ``ow`` pixels.

    Wide tiles load least per window, but sums and weights must fit the vector registers, addresses that do not fit the
    general registers are loaded again in every row of the window, and what is left of a line is done pixel by pixel.
    """
    del c
    best, best_cost = 1, float("inf")
    for pixels in range(1, min(_MAX_PIXELS, max(ow, 1)) + 1):
        columns = len(_columns(pixels, kw, sx, dx)) if kw <= _UNROLLED_WIDTH else pixels
        weights = kw if op == "dot" and kw <= _UNROLLED_WIDTH else 1
        if pixels > 1 and pixels + weights + 2 > target.vector_registers:
            continue
        spilled = max(0, columns + 4 - target.general_registers)
        tile = max(
            (columns + weights + spilled) / target.loads_per_cycle,
            pixels * kw / target.fma_per_cycle,
            target.fma_latency,
        )
        one = max((kw + weights) / target.loads_per_cycle, target.fma_latency)
        whole, rest = divmod(ow, pixels)
        cost = whole * (tile + 2) + rest * (one + 2)
        if cost < best_cost * 0.999:
            best, best_cost = pixels, cost
    return best


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
        self.masked = masks_work(target, (spec.dtype, spec.acc, spec.out, *self.op_dtypes))
        self.epilogue = Epilogue(self.b, spec.acc, spec.out, spec.epilogue)
        self.x_type, self.y_type = storage_type(spec.dtype), storage_type(spec.out)
        self.acc = compute_type(spec.acc)

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        ow, per_block = k.slot("ow"), k.slot("lines_per_block")
        first = k.begin * per_block
        past = b.intrinsic("smin", k.end * per_block, k.slot("n_lines"))
        whole = ow - b.urem(ow, b.const(I64, spec.pixels))
        with b.loop(first, past) as line:
            self.x_line = b.gep(k.pointer("x"), self.x_type, self._entry("lines_x", line.index))
            self.y_line = b.gep(k.pointer("y"), self.y_type, self._entry("lines_y", line.index))
            self.op_lines = []
            for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True)):
                pointer = k.pointer(f"op{i}")
                if kind == "pc":
                    pointer = b.gep(pointer, storage_type(dtype), self._entry(f"lines{i}", line.index))
                self.op_lines.append(pointer)
            with b.loop(0, whole, spec.pixels) as pixel:
                self._tile(pixel.index, spec.pixels)
            if spec.pixels > 1:
                with b.loop(whole, ow) as pixel:
                    self._tile(pixel.index, 1)
        return k.finish()

    def _entry(self, table: str, line: Value) -> Value:
        return self.b.load(I32, self.b.gep(self.k.pointer(table), I32, line))

    def _tile(self, pixel: Value, pixels: int) -> None:
        """All channels of ``pixels`` outputs from ``pixel`` on."""
        k, b, spec = self.k, self.b, self.spec
        base = b.gep(self.x_line, self.x_type, pixel * spec.sx * k.slot("step_x"))
        wide = spec.kw > _UNROLLED_WIDTH
        columns = [p * spec.sx for p in range(pixels)] if wide else _columns(pixels, spec.kw, spec.sx, spec.dx)
        at = {c: b.gep(base, self.x_type, k.slot("step_x") * c) for c in columns}
        y = [b.gep(self.y_line, self.y_type, (pixel + p) * k.slot("step_y")) for p in range(pixels)]
        ops: list[list[Value]] = []
        for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True)):
            line = self.op_lines[i]
            moves = kind == "pc"
            ops.append(
                [
                    b.gep(line, storage_type(dtype), (pixel + p) * k.slot(f"step{i}")) if moves else line
                    for p in range(pixels)
                ]
            )

        def channels(channel: Value, lanes: int, tail: Tail | None) -> None:
            values = self._combine(at, pixels, channel, lanes, tail)
            for p, value in enumerate(values):
                args = [
                    self.epilogue.load(ops[i][p], dtype, None if kind == "1" else channel, lanes, tail)
                    for i, (kind, dtype) in enumerate(zip(spec.operands, self.op_dtypes, strict=True))
                ]
                result = self.epilogue.apply(value, args, lanes)
                self.epilogue.store(result, b.gep(y[p], self.y_type, channel), tail)

        count = k.slot("c")
        whole = b.and_(count, -self.lanes)
        with b.loop(0, whole, self.lanes) as vector:
            channels(vector.index, self.lanes, None)
        if self.lanes == 1:
            return
        if self.masked:
            with b.loop(whole, count, self.lanes) as rest:  # at most once
                channels(rest.index, self.lanes, make_tail(b, count - rest.index, self.lanes))
        else:
            with b.loop(whole, count) as rest:
                channels(rest.index, 1, None)

    def _load(self, pointer: Value, dtype: DType, index: Value, lanes: int, tail: Tail | None) -> Value:
        address = self.b.gep(pointer, storage_type(dtype), index)
        return load_as(self.b, dtype, self.spec.acc, address, lanes, tail)

    def _combine(self, at: dict[int, Value], pixels: int, channel: Value, lanes: int, tail: Tail | None) -> list[Value]:
        """The combined window of every pixel of the tile for the channels from ``channel`` on."""
        k, b, spec = self.k, self.b, self.spec
        start = b.const(self.acc.vec(lanes), identity(spec.op, spec.acc))
        dot = spec.op == "dot"
        carry = [start] * pixels + [channel, channel]
        with b.loop(0, k.slot("kh"), carry=carry) as ky:
            values, at_x, at_w = list(ky.carried[:pixels]), ky.carried[-2], ky.carried[-1]
            if spec.kw > _UNROLLED_WIDTH:
                with b.loop(0, spec.kw, carry=[*values, at_x, at_w], guard=False) as kx:
                    values, column, w_index = list(kx.carried[:pixels]), kx.carried[-2], kx.carried[-1]
                    w = self._load(k.pointer("w"), spec.acc, w_index, lanes, tail) if dot else None
                    for p in range(pixels):
                        x = self._load(at[p * spec.sx], spec.dtype, column, lanes, tail)
                        values[p] = combine(b, spec.op, spec.acc, values[p], x, w)
                    kx.next(*values, column + k.slot("step_x") * spec.dx, w_index + k.slot("c"))
                values, at_w = list(kx.results[:pixels]), kx.results[-1]
            else:
                weights: list[Value | None] = [None] * spec.kw
                for kx_ in range(spec.kw):
                    if dot:
                        weights[kx_] = self._load(k.pointer("w"), spec.acc, at_w, lanes, tail)
                        at_w = at_w + k.slot("c")
                for column_, pointer in at.items():
                    x = None
                    for p in range(pixels):
                        kx_, off = divmod(column_ - p * spec.sx, spec.dx)
                        if off == 0 and 0 <= kx_ < spec.kw:
                            x = x or self._load(pointer, spec.dtype, at_x, lanes, tail)
                            values[p] = combine(b, spec.op, spec.acc, values[p], x, weights[kx_])
            ky.next(*values, at_x + k.slot("row_x"), at_w)
        return ky.results[:pixels]
