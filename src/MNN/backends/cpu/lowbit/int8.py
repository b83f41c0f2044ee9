"""Products of rows rounded to 8 bits (:mod:`.rounded_rows`), or to several parts of 8 bits that are added up, with
weights in 2, 4 or 8 bits, on sums of four products.

Codes are unsigned bytes once their bits are taken out of the words, and rows are signed: what the instructions take, as
they are. With codes ``c`` that stand for ``(c - half - zero) * scale``, a block of a sum is::

    scale * a_scale * (sum(c * a) - half * sum(a))  -  scale * zero * a_scale * sum(a)

so that behind the integers of a block come a conversion, a product and one or two multiply-adds in f32.

The parts of ``merged`` rows are digits, whose sums become one integer before they are scaled. With codes of 4 bits,
half of what an instruction could multiply is zeros. The last digit uses it: it is multiplied by the words as they lie
in memory, each byte ``c + 16 * c'`` of which holds two codes, so that it is of use for both of their numbers
(:mod:`.rounded_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lowbit.layout import VECTORS, WORD, column_bytes, has_table
from MNN.backends.cpu.lowbit.records import COMPRESSED
from MNN.backends.cpu.lowbit.rounded_rows import WIDTH_OF_PAIRS
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

DIGITS = (2, 3)
"""Numbers of parts of ``merged`` rows."""
LARGEST_OF_MERGED = 64
"""Numbers of a block up to which sums of ``merged`` parts, 18 bits and a sign of the largest, stay in 32 bits."""
INT8 = Record(
    "rows of bytes",
    word("meta", "where the numbers of a row's blocks begin, in bytes"),
    word("part", "bytes from one part of a row to the next"),
)


def sums_bytes(target: Target) -> bool:
    """Whether the target sums products of four bytes."""
    return target.can(can.DOT4_UNSIGNED) or target.can(can.DOT4_SIGNED)


def half_of(target: Target, width: int) -> int:
    """What stands for zero among codes, as they are multiplied: 0 where bytes are signed on both sides."""
    return 0 if width == 8 and not target.can(can.DOT4_UNSIGNED) else 1 << (width - 1)


def flipped(target: Target, width: int) -> int:
    """What words in memory are to be combined with (exclusive or) before their codes are taken out."""
    if has_table(target, width) or half_of(target, width) == 0:
        return 0
    bits = sum(1 << i for i in range(width - 1, WORD, width))
    return bits - (1 << WORD) if bits >= 1 << (WORD - 1) else bits


@dataclass(frozen=True)
class Int8Spec(ContractSpec):
    """:class:`ContractSpec` with one tap and one batch: A is of rows as :mod:`.rounded_rows` makes them (``rows_a`` in
    bytes), weights are panels of :class:`~MNN.backends.cpu.lowbit.layout.Layout`. Behind its arguments come those of
    :data:`~.records.COMPRESSED` and ``INT8``. Blocks are ``mb`` rows and ``nb`` columns, whole panels, of which
    ``nv`` is a part."""

    shaped: ClassVar[bool] = True

    width: int = 4
    zeros: str = "none"
    parts: int = 1
    merged: bool = False
    coarse: bool = False
    """Whether the second of two digits is left out of blocks that do not have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sides = (self.a, self.b, self.acc, self.group)
        if sides != (DType.I8, DType.I8, DType.I32, DOT4) or not self.b_packed or VECTORS % self.nv:
            raise ValueError(f"no product of rows of bytes like {self.key()}")
        if self.merged and self.parts not in DIGITS:
            raise ValueError(f"no digits as in {self.key()}")

    @property
    def paired(self) -> bool:
        """Whether the last part has a byte for each pair of numbers."""
        return self.merged and self.width == WIDTH_OF_PAIRS

    @property
    def sums(self) -> DType:
        return DType.F32

    def slots(self) -> tuple[str, ...]:
        return (*super().slots(), *COMPRESSED, *INT8)

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of sums, and the scales and offsets of a block."""
        return (self.mr + 2) * self.nr(target) * 4

    def traffic(self, args: Arguments) -> dict[str, int]:
        if self.routed:
            return super().traffic(args)
        m, k, blocks, groups = (number(args, slot) for slot in ("m", "k", "blocks", "groups"))
        found = super().traffic({**args, "k": k})
        return found | {
            "a": m * k * self.parts,
            "b": number(args, "n") * blocks * (column_bytes(self.zeros) + 4 * groups),
        }


__all__ = [
    "DIGITS",
    "LARGEST_OF_MERGED",
    "Int8Spec",
    "flipped",
    "half_of",
    "sums_bytes",
]
