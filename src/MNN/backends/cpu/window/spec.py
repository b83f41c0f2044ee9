"""Windows sliding over lines of pixels, channels innermost: depthwise convolution and pooling.

Vectors run along channels. A tile of ``pixels`` neighbouring outputs of a line is kept in registers, so that a column
of the input which several windows of the tile share is loaded once per row of the window; tiles walk the channels
inside of a pixel position, so that memory is read in order. A tile may span several ``lines``, whose windows share
rows of the input while these are in the first-level cache: what is read from the second level shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.products.packed_bytes import saturated_end
from MNN.backends.cpu.window.cost import columns_of
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

OPS = ("dot", "max", "sum")
OPERAND_KINDS = ("c", "pc", "1")
_FOURS = ("dot", DType.U8, DType.I32, 1)
"""Operation, types and lines at a time of windows that are taken four rows at a time."""


@dataclass(frozen=True)
class WindowSpec(GeneratedSpec):
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
    """``fours``: with fewer channels than that. ``taps``: channels are no multiple of the largest group."""
    taps: bool = field(default=False, kw_only=True)
    """Two taps of bytes at a time (:mod:`MNN.backends.cpu.window.tap_pairs`): w, packed for that, is the argument
    ``taps``, with ``tap_bytes`` bytes for each channel. There are enough channels for the smallest group."""
    shift: int = field(default=0, kw_only=True)
    """Of sums of ``taps``."""
    odd: bool = field(default=False, kw_only=True)
    """Whether the windows of ``taps`` have an odd number of rows."""
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
        if (self.fours and not whole) or (self.cut and not (self.fours or self.taps)):
            raise ValueError("only single lines of products of unsigned bytes are taken four rows at a time")
        if self.fours and saturated_end(self.epilogue) is None:
            raise ValueError("four rows at a time end in bytes")
        bytes_ = self.op == "dot" and self.dtype in (DType.I8, DType.U8) and self.acc is DType.I32 and self.lines == 1
        if self.taps and (not bytes_ or self.fours or "pc" in self.operands):
            raise ValueError("two taps at a time are of single lines of products of bytes")
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
        base += ["taps", "tap_bytes"] if self.taps else []
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
