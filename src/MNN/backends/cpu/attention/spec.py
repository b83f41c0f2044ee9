"""Kernels of a cache in pages: what they are, and the tiles that suit a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from MNN.backends.base.kernel import Arguments
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

FLOATS = (DType.F32, DType.F16, DType.BF16)
"""What a pool may hold, besides codes."""
CODES = {16: DType.I16, 8: DType.U8, 4: DType.U8}
"""How codes of so many bits are kept."""
_LINE = 16
"""Numbers of f32 in a line."""
_MOST_PARTS = 32
_ENOUGH = 4
"""Blocks for each thread with which it does not matter much that some have one more."""
_ACCUMULATORS = 24
"""Sums that 32 registers hold beside what is multiplied; half as many in 16."""


@dataclass(frozen=True)
class Pools:
    """The pools of :class:`MNN.ir.prims.CacheWrite`: ``groups`` heads with keys of ``size`` and values of
    ``value_size`` numbers, kept as ``held`` and ``padded`` ones, in pages of ``page`` tokens. ``key_type`` and
    ``value_type`` are the types of the pools, with ``key_bits`` and ``value_bits`` where those are codes. All pools are
    dense."""

    groups: int
    size: int
    value_size: int
    held: int
    padded: int
    page: int
    key_type: DType
    value_type: DType
    key_bits: int
    value_bits: int

    def pools(self) -> tuple[str, ...]:
        """Slots with their addresses."""
        scales = [f"{name}_scales" for name, bits in (("keys", self.key_bits), ("values", self.value_bits)) if bits]
        return ("keys", "values", *scales)

    def head_bytes(self, name: str) -> int:
        """Bytes of a head of a page in the pool ``keys`` or ``values``, without scales."""
        keys = name == "keys"
        size, bits = (self.held, self.key_bits) if keys else (self.padded, self.value_bits)
        return self.page * (size * bits // 8 if bits else size * (self.key_type if keys else self.value_type).size)

    def token_bytes(self) -> int:
        """What a token takes in all heads."""
        key = self.held * self.key_bits // 8 + 8 if self.key_bits else self.size * self.key_type.size
        value = self.padded * self.value_bits // 8 + 8 if self.value_bits else self.padded * self.value_type.size
        return self.groups * (key + value)


@dataclass(frozen=True)
class PageWriteSpec(Pools, GeneratedSpec):
    """:class:`MNN.ir.prims.CacheWrite` in place. ``k`` and ``v`` have steps ``_t`` of tokens and ``_g`` of heads, their
    innermost dimension is contiguous. Blocks: tokens."""

    def slots(self) -> tuple[str, ...]:
        return (*self.pools(), "pages", "k", "k_t", "k_g", "v", "v_t", "v_g", "places", "tokens")

    def traffic(self, args: Arguments) -> dict[str, int]:
        tokens = number(args, "tokens")
        given = {"k": tokens * self.groups * self.size * 4, "v": tokens * self.groups * self.value_size * 4}
        return given | {"keys": tokens * self.token_bytes()}


@dataclass(frozen=True)
class PagedAttentionSpec(Pools, GeneratedSpec):
    """:class:`MNN.ir.prims.PagedAttention` for ``heads`` heads of queries. ``q`` and ``out`` have steps ``_t`` of
    tokens and ``_h`` of heads, their innermost dimension is contiguous. ``scale`` and ``cap`` are the bits of f32
    numbers; ``window`` is larger than any text where there is none.

    A block is a tile for one head of keys: its rows are the tile's tokens times the heads of queries that share these
    keys. Page by page, a tile of registers takes ``rows`` of them, or ``rest`` where fewer are left: scores, then the
    running softmax (Milakov & Gimelshein 2018, arXiv:1805.02867), then the sums of values. The scores of a page are all
    that is ever written of them.

    Keys and values in codes are multiplied as integers, with queries and powers in 16 bits, where the processor sums up
    products of these: twice as many at once as of f32.

    With ``parts`` a block is only one of so many parts of the pages, for more threads than there are heads of keys
    (split-K). Its sums are left in ``partial``, :attr:`partial_row` numbers for each row, and
    :class:`PartsMergeSpec` makes results of them.

    Where it is ``sloped`` or ``sunk``, ``slopes`` and ``sinks`` have an f32 number for each head of queries.
    """

    heads: int
    tile: int
    capped: bool
    rows: int
    rest: int
    parts: int = 1
    sloped: bool = False
    sunk: bool = False

    def slots(self) -> tuple[str, ...]:
        to = ("partial",) if self.parts > 1 else ("out", "out_t", "out_h")
        names = ("pages", "q", "q_t", "q_h", *to, "table", "entries", "tiles", "tokens")
        more = tuple(name for name, has in (("slopes", self.sloped), ("sinks", self.sunk)) if has)
        return (*self.pools(), *names, "scale", "cap", "window", *more)

    @property
    def partial_row(self) -> int:
        """Sums of values, then the largest score and the sum of powers, in whole lines."""
        return partial_row(self.padded)

    @property
    def share(self) -> int:
        """Heads of queries for each of keys."""
        return self.heads // self.groups

    @property
    def most(self) -> int:
        """Rows of the largest tile."""
        return self.tile * self.share

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        del args
        lanes = target.lanes(DType.F32)
        row = self.page + self.padded + lanes * len(SPREAD) + self.held
        return 4 * (self.most * row + self.room(lanes) * len(NUMBERS))

    def room(self, lanes: int) -> int:
        """A number for each row, in whole vectors."""
        return -(-self.most // lanes) * lanes


def partial_row(padded: int) -> int:
    """Numbers that a part leaves of a row."""
    return padded + _LINE


@dataclass(frozen=True)
class PartsMergeSpec(GeneratedSpec):
    """Results of what ``parts`` parts of the pages have left of each row, see :class:`PagedAttentionSpec`. Blocks:
    tiles times ``groups``; all slots and other fields as there."""

    groups: int
    value_size: int
    padded: int
    heads: int
    tile: int
    parts: int

    def slots(self) -> tuple[str, ...]:
        return ("partial", "out", "out_t", "out_h", "tiles", "tokens")

    @property
    def share(self) -> int:
        """Heads of queries for each of keys."""
        return self.heads // self.groups

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        del target, args
        return 4 * self.parts


def parts_of(groups: int, threads: int) -> int:
    """In how many parts the pages of a single text are taken, so that threads have as much to do as each other, or
    nearly."""
    some = [n for n in range(1, _MOST_PARTS + 1) if groups * n % threads == 0 or groups * n >= _ENOUGH * threads]
    return some[0] if some else _MOST_PARTS


NUMBERS = ("highest", "top", "decay", "share", "query_sum", "query_scale", "weight_scale", "weight_factor")
"""Of each row, beside its scores and sums: the largest score of all pages so far, that of this page, what sums so far
and those of this page are multiplied by, the sum of the query where keys have offsets, and what a unit of the query's
codes, and of those of this page's powers, is worth, and how many of the latter are one."""
SPREAD = ("total", "value_offset", "page_total", "page_offset", "page_squares")
"""Of each row as a vector, whose lanes are added up at the end: the sum of powers, and that of offsets of values; and
those of this page, and the sum of squares of its weights."""


def tile_of(target: Target) -> tuple[int, int]:
    """Rows and vectors of a register tile: keys lie as a matrix, whose rows are read from front to back only where a
    tile is as wide as a page."""
    many = target.vector_registers >= 32
    wide = 4 if many else 2
    return (_ACCUMULATORS if many else _ACCUMULATORS // 2) // wide, wide


def row_tiles(share: int) -> tuple[int, int]:
    """Rows that are taken in a sequence of register tiles, and those of what is left, which divide ``share``."""
    most = _ACCUMULATORS // 2
    rest = max(n for n in range(1, most + 1) if share % n == 0)
    return most // rest * rest, rest


__all__ = [
    "CODES", "FLOATS", "NUMBERS", "SPREAD", "PageWriteSpec", "PagedAttentionSpec", "PartsMergeSpec", "Pools",
    "parts_of", "row_tiles", "tile_of",
]  # fmt: skip
