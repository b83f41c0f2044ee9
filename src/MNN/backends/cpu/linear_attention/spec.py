"""Kernels of layers whose states lie in slots: what they are, and the tiles that suit a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

SEGMENT = 4
"""Numbers of a segment: its first row, its rows, the slot that it goes on from, and the one that it ends in."""
COLUMNS = 256
"""Of a convolution, the columns of a block: neighbours in each row, so that lines are read whole and one after the
other."""
_MANY = 32
"""Registers of processors that have many."""


def dividing(size: int, most: int) -> int:
    """The largest power of two up to ``most`` that divides ``size``."""
    lanes = 1
    while lanes * 2 <= most and size % (lanes * 2) == 0:
        lanes *= 2
    return lanes


@dataclass(frozen=True)
class CausalConvolutionSpec(GeneratedSpec):
    """:class:`MNN.ir.prims.CausalConvolution` of ``columns`` columns with ``taps`` weights each, in place: ``pool`` is
    dense, as is ``w``; ``x`` and ``y`` have steps ``_t`` of rows, whose numbers are neighbours. Blocks:
    :data:`COLUMNS` columns of all segments."""

    columns: int
    taps: int

    def slots(self) -> tuple[str, ...]:
        return ("pool", "places", "x", "x_t", "w", "y", "y_t", "tokens", "segments", "count")

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        del target, args
        return 4 * self.taps * COLUMNS

    def traffic(self, args: Arguments) -> dict[str, int]:
        rows = number(args, "tokens") * self.columns * 4
        return {"x": rows, "y": rows, "pool": number(args, "count") * (self.taps - 1) * self.columns * 8}


@dataclass(frozen=True)
class LinearAttentionSpec(GeneratedSpec):
    """:class:`MNN.ir.prims.LinearAttention` in place: ``heads`` matrices ``[size, value_size]`` in each slot of the
    dense ``pool``, with keys and queries for ``groups`` of them. Operands have steps ``_t`` of tokens and ``_h`` of
    heads; numbers of a head are neighbours. ``rows``: each row of a matrix decays by itself.

    A block is :meth:`width` columns of one head's matrix, for all segments: columns do not depend on each other. They
    stay in the first-level cache while tokens pass; each time that a row of them is read, :meth:`tokens` tokens go by
    at once. With ``delta``, what these have to do with each other follows from the products of their keys (the
    "chunkwise" form of Yang et al. 2024, arXiv:2412.06464, for short chunks)."""

    heads: int
    groups: int
    size: int
    value_size: int
    delta: bool = False
    rows: bool = False

    def slots(self) -> tuple[str, ...]:
        names = [f"{name}{step}" for name in ("q", "k", "v", "decay", *self.more, "y") for step in ("", "_t", "_h")]
        return ("pool", "places", *names, "tokens", "segments", "count")

    @property
    def more(self) -> tuple[str, ...]:
        """What there is with ``delta`` alone."""
        return ("beta",) if self.delta else ()

    def lanes(self, target: Target) -> int:
        return dividing(self.value_size, target.lanes(DType.F32))

    def vectors(self, target: Target) -> int:
        """Of a block."""
        return 2 if self.value_size % (2 * self.lanes(target)) == 0 else 1

    def width(self, target: Target) -> int:
        """Columns of a block."""
        return self.lanes(target) * self.vectors(target)

    def tokens(self, target: Target) -> int:
        """That go by at once: their sums, values and decays are in registers with a row of the matrix."""
        return 4 if target.vector_registers >= _MANY else 2

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        del args
        return 4 * self.size * self.width(target)

    def traffic(self, args: Arguments) -> dict[str, int]:
        tokens = number(args, "tokens")
        keys, values = tokens * self.groups * self.size * 4, tokens * self.heads * self.value_size * 4
        state = self.heads * self.size * self.value_size * 8
        return {"q": keys, "k": keys, "v": values, "y": values, "pool": number(args, "count") * state}


__all__ = ["COLUMNS", "SEGMENT", "CausalConvolutionSpec", "LinearAttentionSpec", "dividing"]
