"""Convolutions with stride 1 or 2 by Winograd's minimal filtering, in one kernel per block of tiles.

A block takes ``group`` tiles of ``mh x mw`` outputs through all three stages while their numbers are in the caches of
one core: (1) the transform of the input into ``V[position][tile][channel]``, vectors along channels; (2) for each of
the ``(mh + rh - 1)(mw + rw - 1)`` positions (more with stride 2) one product of a ``group x C`` matrix with the
transformed weights ``U[position]``; (3) the transform of the sums ``M[position][tile][n]`` back, with the epilogue.
Nothing but the result leaves the worker's scratch memory. Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks" (2015); the points are those of :mod:`MNN.backends.cpu.winograd.points`.

The error comes mostly from the sums over channels, amplified by the transform of the outputs. These sums are 9 times
shorter than those of a direct convolution; with ``chunk`` positive they are cut further, into partial sums of so many
channels, which brings F(4, 3) to the error of plain fp32 sums.

Windows with taps along a third axis (``deep``) take a tile of several results along it. Their sums over that axis'
taps are formed between the transforms: the tile's slices of the input are transformed once each, every tap multiplies
with weights of its own the slices that it meets, and what they give is added to ``M``. Slices lie in such an order that
all results of a tap read neighbours, whatever the stride and dilation along the axis. (Tiles along three axes would
multiply less and transform much more, at a larger error.)

A tile that holds an infinity or a NaN gives NaN in all its outputs (as inf - inf does), where a direct convolution
gives them only in the outputs whose windows touch it; and values beyond about 1e37 overflow in the transforms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.products.epilogue import OPERAND_KINDS
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.int16 import factor_of
from MNN.backends.cpu.winograd.layout import Layout
from MNN.backends.cpu.winograd.points import Filtering, filtering, supported, whole_filtering
from MNN.backends.cpu.winograd.records import (
    DEEP,
    FIXED,
    GROUPED,
    NOTES,
    WEIGHTS,
    WINOGRAD,
    operand_arguments,
    tile_record,
)
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body


@dataclass(frozen=True)
class WinogradSpec(GeneratedSpec):
    """``y = epilogue(convolution of x with rh x rw windows, operands...)`` over tiles, channels innermost.

    Everything is computed in f32; ``x`` and ``out`` are the types in memory. With ``x`` of bytes, or i16 which then
    holds bytes, everything is exact, in integers (x86, F(2, 3) and F(4, 3) only): V and U are of 16 bits, in pairs of
    channels, M is of 32 bits. See :mod:`MNN.backends.cpu.winograd.int16`.

    Its arguments are the record :data:`~.records.WINOGRAD`, with ``fixed`` those of :data:`~.records.FIXED` behind
    them, with ``deep`` those of :data:`~.records.DEEP`, and last the operands'. Input (i, j) of a tile and channel ch
    is ``x[tile + i*row_x + j*col_x + ch]``; outputs and ``"mn"`` operands alike, ``"m"`` operands without ``ch``.

    ``fixed``: ``u``, ``scales`` and ``factors`` are the parts of what
    :func:`MNN.backends.cpu.winograd.fixed.pack_fixed` makes; x is bf16, c a multiple of 8, and ``chunk`` in pairs of
    channels; ``c_tail``: c may be no multiple of 32.

    ``deep``: U of one tap follows that of the tap before (``factors`` are the first one's), a block's ``group`` tiles
    have ``depths`` results each along the third axis, and rows of products go slice by slice.

    ``u`` otherwise is what :class:`WinogradWeightsSpec` makes for the same ``mh mw rh rw stride`` and ``nr`` = nv
    vectors. Block ``g * ceil(n / n_block) + i`` computes tiles ``[g*group, ...)`` and columns ``[i*n_block, ...)``.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = WINOGRAD

    mh: int
    mw: int
    rh: int
    rw: int
    mr: int
    nv: int
    chunked: bool
    """Whether ``chunk`` is looked at; otherwise there is one sum over all channels."""
    c_tail: bool
    """Whether c may be no multiple of a vector."""
    n_tail: bool
    out: DType = DType.F32
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    x: DType = DType.F32
    stride: int = 1
    """Of the windows, along both sides."""
    fixed: bool = field(default=False, kw_only=True)
    """Whether products are of 16-bit integers, see :mod:`MNN.backends.cpu.winograd.fixed`."""
    inner_product: bool = field(default=False, kw_only=True)
    """Whether they are inner products of f32, see :mod:`MNN.backends.cpu.winograd.code_inner_products`: c is a multiple
    of a vector, ``chunk`` of ``STEPS``, ``group`` of mr, and U's panels are as
    :mod:`MNN.backends.cpu.inner_product.pack` makes them."""

    deep: bool = field(default=False, kw_only=True)
    """Whether windows have taps along a third axis."""

    grouped: bool = field(default=False, kw_only=True)
    """Whether there are groups of channels: all blocks of one, then those of the next; neither fixed nor integers."""

    fits: bool = field(default=False, kw_only=True)
    """Whether i32 has all numbers that the epilogue bounds, see
    :func:`MNN.backends.cpu.products.packed_bytes.fits`."""

    def __post_init__(self) -> None:
        sizes = (self.mh, self.rh), (self.mw, self.rw)
        if not all(supported(m, r, self.stride) for m, r in sizes) or self.mh * self.mw < 2:
            raise ValueError(f"no F({self.mh}x{self.mw}, {self.rh}x{self.rw}) with stride {self.stride}")
        if self.mr < 1 or self.nv < 1 or not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad tile {self.mr}x{self.nv} or operand kinds {self.operands}")
        small = self.stride == 1 and factor_of(self.mh, self.mw, self.rh, self.rw)
        if self.acc is DType.I32 and (self.chunked or not small):
            raise ValueError("integers take one sum, stride 1 and windows of three, with tiles of two or four")
        if self.fixed and self.x is not DType.BF16:
            raise ValueError(f"no fixed point for inputs of {self.x.value}")
        if self.inner_product and (self.int16 or self.c_tail or self.x is not DType.F32):
            raise ValueError("inner products take f32 and whole vectors of channels")
        if self.grouped and self.int16:
            raise ValueError("no groups of integers")
        if self.epilogue is None:
            if self.operands or self.out is not self.acc:
                raise ValueError("operands or another result type without an epilogue")
        elif (
            len(self.epilogue.args) != 1 + len(self.operands)
            or self.epilogue.args[0] is not self.acc
            or self.epilogue.result_dtypes != (self.out,)
        ):
            raise ValueError(f"the epilogue must take {self.acc.value} and {self.operands}, and give {self.out.value}")

    @property
    def acc(self) -> DType:
        """The type of the sums."""
        return DType.I32 if self.x.is_int else DType.F32

    @property
    def filterings(self) -> tuple[Filtering, Filtering]:
        """Down and across."""
        if self.acc is DType.I32:
            return whole_filtering(self.mh, self.rh)[0], whole_filtering(self.mw, self.rw)[0]
        return filtering(self.mh, self.rh, self.stride), filtering(self.mw, self.rw, self.stride)

    @property
    def positions(self) -> int:
        return math.prod(f.positions for f in self.filterings)

    def nr(self, target: Target) -> int:
        """Columns of a register tile."""
        return self.nv * target.lanes(DType.F32)

    def slots(self) -> tuple[str, ...]:
        return (
            *self.arguments,
            *(FIXED if self.fixed else ()),
            *(DEEP if self.deep else ()),
            *(GROUPED if self.grouped else ()),
            *operand_arguments(self.operands, self.deep),
        )

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """V and M of one block, and one tile of outputs."""
        layout = Layout(target.lanes(DType.F32), self.positions, self.mr, self.nr(target))
        columns = min(args["n_block"], args["n"])
        depth = -(-args["c"] // 2) if self.int16 else args["c"]
        group = args["group"]
        into, out = (group * args["n_slices"], group * args["depths"]) if self.deep else (group, group)
        notes = self.positions * into // self.mr * NOTES.size if self.inner_product else 0
        return layout.bytes(into, out, depth, columns, self.mh * self.mw) + 8 * group * self.fixed + notes

    @property
    def int16(self) -> bool:
        """Whether numbers of 16 bits are multiplied, in pairs."""
        return self.fixed or self.acc is DType.I32

    def arithmetic(self, target: Target) -> str:
        return "int16" if self.int16 else super().arithmetic(target)

    def blocks(self, n_tiles: int, group: int, n: int, n_block: int) -> int:
        """The size of the block index space, of each group of channels."""
        return -(-n_tiles // group) * -(-n // n_block)

    def traffic(self, args: Arguments) -> dict[str, int]:
        """Tiles count in full, the overlap of neighbours once: an estimate at the edges."""
        tiles, c, n = number(args, "n_tiles"), number(args, "c"), number(args, "n")
        into, out, taps = (number(args, slot) if self.deep else 1 for slot in ("n_slices", "depths", "n_taps"))
        groups = number(args, "groups") if self.grouped else 1
        c, n, pixels = c * groups, n * groups, tiles * self.mh * self.mw * out
        found = {
            "x": tiles * math.prod(f.stride * f.m for f in self.filterings) * into * c * self.x.size,
            "u": math.prod(f.factors for f in self.filterings) * taps * c * (n // groups) * (2 if self.int16 else 4),
            "y": pixels * n * self.out.size,
        }
        for i, kind in enumerate(self.operands):
            assert self.epilogue is not None
            found[f"op{i}"] = {"mn": pixels * n, "m": pixels, "n": n, "1": 1}[kind] * self.epilogue.args[1 + i].size
        return found

    def in_place(self, args: Arguments) -> overlay.Pairs:
        if "mn" not in self.operands:
            return ()
        record, third = tile_record(len(self.operands), self.deep), ("deep",) if self.deep else ()
        entries = table(args, "tiles", number(args, "n_tiles") * record.count).reshape(-1, record.count)
        tiles = dict(zip(record, entries.T, strict=True))
        return tuple(
            ("y", f"op{i}")
            for i, kind in enumerate(self.operands)
            if kind == "mn"
            and self.epilogue is not None
            and overlay.fits(self.epilogue.args[1 + i], self.out)
            and all(args[f"{step}{i}"] == args[f"{step}_y"] for step in ("row", "col", *third))
            and np.array_equal(tiles["y"], tiles[f"op{i}"])
        )


@dataclass(frozen=True)
class WinogradWeightsSpec(GeneratedSpec):
    """``U = (G_h x G_w) W``, computed in f64 and rounded once, packed for :class:`WinogradSpec`.

    Positions that share a factor (see :class:`MNN.backends.cpu.winograd.points.Filtering`) have one place in U.

    Its arguments are the record :data:`~.records.WEIGHTS`. Weight (o, ch, i, j) is
    ``w[o*w_n + ch*w_c + i*w_h + j*w_w]`` in f32. The result is
    ``u[((position * panels + o / nr) * (head + c) + head + ch) * nr + o % nr]`` with ``panels = ceil(n / nr)``; columns
    past n repeat the last one. Block ``b`` makes channels ``[(b % parts)*step, ...)`` of panel ``b / parts``, where
    ``parts = ceil(c / step)``.
    """

    arguments: ClassVar[Record] = WEIGHTS

    mh: int
    mw: int
    rh: int
    rw: int
    nr: int
    stride: int = 1
    in_rows: bool = False
    """Whether ``w_n`` is 1, so that filters are read a vector at a time."""

    @property
    def filterings(self) -> tuple[Filtering, Filtering]:
        """Down and across."""
        return filtering(self.mh, self.rh, self.stride), filtering(self.mw, self.rw, self.stride)

    def slots(self) -> tuple[str, ...]:
        return tuple(self.arguments)

    def blocks(self, c: int, n: int, step: int) -> int:
        return -(-n // self.nr) * -(-c // step)

    def panels(self, n: int) -> int:
        """Panels of all positions."""
        return math.prod(f.factors for f in self.filterings) * -(-n // self.nr)

    def size(self, c: int, n: int, head: int = 0) -> int:
        """Elements of u."""
        return self.panels(n) * self.nr * (c + head)
