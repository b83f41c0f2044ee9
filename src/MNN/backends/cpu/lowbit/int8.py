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

Where instructions sum two products of bytes in 16 bits (AVX2), those of codes of up to 4 bits have room for eight such
sums and more, which become 32 bits by one more product: by ones. Whole bytes, which have not, are multiplied in 16
bits, by rows of such numbers. So are codes of fewer bits where several rows have both digits: products of two numbers
of 16 bits are as many as those of four bytes by one digit and by the other, but sums are in 32 bits at once, and words
are taken apart once for both (an eighth of all instructions less; one row waits for memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lowbit import codebook, planes
from MNN.backends.cpu.lowbit.layout import VECTORS, column_bytes
from MNN.backends.cpu.lowbit.records import COMPRESSED
from MNN.backends.cpu.lowbit.words import BYTE, WORD, Form, as_signed, bits_of, high_bits
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


def sums_fours(target: Target) -> bool:
    """Whether the target sums products of four bytes in one instruction."""
    return target.can(can.DOT4_UNSIGNED) or target.can(can.DOT4_SIGNED)


def sums_bytes(target: Target) -> bool:
    """Whether the target sums products of four bytes, or of two."""
    return sums_fours(target) or (target.can(can.PAIRS_BYTES) and target.can(can.PAIRS_I16))


def is_wide(target: Target, width: int) -> bool:
    """Whether rows must be of numbers of 16 bits: pairs of bytes would not stay in 16 bits, pairs of these stay in
    32."""
    return width == BYTE and not sums_fours(target)


def words_at_once(target: Target, width: int, groups: int, wide: bool) -> int:
    """Where sums of pairs are in 16 bits: of how many words of a block, which has ``groups``, they stay there; 0: of
    all, or there are no such sums, as with ``wide`` rows."""
    if sums_fours(target) or wide:
        return 0
    largest_pair = 2 * ((1 << width) - 1) << (BYTE - 1)
    most = (1 << 15) // largest_pair // (WORD // width // DOT4)
    return 0 if groups <= most else max(n for n in range(1, most + 1) if groups % n == 0)


def half_of(target: Target, form: Form) -> int:
    """What stands for zero among codes, as they are multiplied: 0 where bytes are signed on both sides."""
    if form.high:
        return planes.half_of(form.high)
    signed, bits = target.can(can.DOT4_SIGNED) and not target.can(can.DOT4_UNSIGNED), bits_of(form)
    return 0 if bits == BYTE and signed else 1 << (bits - 1)


def flipped(target: Target, form: Form) -> int:
    """What words in memory are to be combined with (exclusive or) before their codes are taken out."""
    bits = 0 if form.high else bits_of(form)
    return as_signed(high_bits(bits)) if bits == BYTE and half_of(target, form) else 0


@dataclass(frozen=True)
class Int8Spec(ContractSpec):
    """:class:`ContractSpec` with one tap and one batch: A is of rows as :mod:`.rounded_rows` makes them (``rows_a`` in
    bytes), weights are panels of :class:`~MNN.backends.cpu.lowbit.layout.Layout`. Behind its arguments come those of
    :data:`~.records.COMPRESSED` and ``INT8``. Blocks are ``mb`` rows and ``nb`` columns, whole panels, of which
    ``nv`` is a part."""

    shaped: ClassVar[bool] = True

    width: int = 4
    zeros: str = "none"
    factors: DType = DType.F32
    parts: int = 1
    merged: bool = False
    coarse: bool = False
    """Whether the second of two digits is left out of blocks that do not have it."""
    paired: bool = False
    """Whether the last part has a byte for each pair of numbers."""
    wide: bool = False
    """Whether rows are of numbers of 16 bits."""
    words: int = 0
    """See :func:`words_at_once`."""
    codebook: bool = False
    """Whether codes are numbers of entries (:mod:`.codebook`)."""
    high: int = 0
    """Bits beside four of codes that lie in pieces (:mod:`.planes`)."""
    expanded: bool = False
    """Whether codes of a tile's columns are taken apart once for all rows of a block, in scratch memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sides = (self.a, self.b, self.acc, self.group)
        if sides != (DType.I8, DType.I8, DType.I32, DOT4) or not self.b_packed or VECTORS % self.nv:
            raise ValueError(f"no product of rows of bytes like {self.key()}")
        if self.merged and self.parts not in DIGITS:
            raise ValueError(f"no digits as in {self.key()}")
        if self.expanded and self.paired:
            raise ValueError(f"words are multiplied as they lie in memory in {self.key()}")

    @property
    def sums(self) -> DType:
        return DType.F32

    def slots(self) -> tuple[str, ...]:
        return (*super().slots(), *COMPRESSED, *INT8, *codebook.slots(self.codebook))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of sums, and the scales and offsets of a block; then the codes of a tile's columns."""
        tile = (self.mr + 2) * self.nr(target) * 4
        if not self.expanded:
            return tile
        depth = args["blocks"] * args["groups"] * planes.steps_of(self.width, self.high)
        return tile + depth * self.nr(target) * (1 + self.wide)

    def traffic(self, args: Arguments) -> dict[str, int]:
        if self.routed:
            return super().traffic(args)
        m, k, blocks, groups = (number(args, slot) for slot in ("m", "k", "blocks", "groups"))
        found = super().traffic({**args, "k": k})
        return found | {
            "a": m * k * self.parts * (1 + self.wide),
            "b": number(args, "n") * blocks * column_bytes(self, groups),
        }


__all__ = [
    "DIGITS",
    "LARGEST_OF_MERGED",
    "Int8Spec",
    "flipped",
    "half_of",
    "is_wide",
    "sums_bytes",
    "sums_fours",
    "words_at_once",
]
