"""How weights in 2, 4 or 8 bits lie in memory for products, and how a kernel gets numbers out of them.

Codes of neighbouring k of one column share 32 bits, the first in the lowest ones, and the columns of a vector lie side
by side: one load brings ``32 / width`` steps of the sum for all lanes. Four vectors of columns are a panel, a sequence
of records, one for each block of k that has a scale of its own::

    what :func:`block_record` says | codes u32 [groups, columns]

so that a product reads the weights once, from front to back. AVX512 finds the numbers of codes of up to four bits in a
table of 16 floats (``vpermps``, which looks at the lowest four bits only: no mask is needed); elsewhere they are turned
to two's complement, shifted up and down again and converted. Codes of 8 bits are stored in two's complement.

Sums over a block are of A times whole numbers; they stay finite wherever A is, since A is multiplied by 2^-20 first and
the scales by 2^20: both exact, but for numbers below 2^-106.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from MNN.backends.base.record import Record, word
from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

WORD = 32
VECTORS = 4
"""Vectors of columns in a panel."""
SHIFT = 20
"""A is multiplied by ``2^-SHIFT``, scales by ``2^SHIFT``."""
_TABLE, _BYTE = 16, 8
_OFFSET_BYTES = {"none": 0, "i8": 1, "f32": 4}
_AT_ONCE = 1 << 22
"""Bytes of codes that are packed at a time."""
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """Weights of ``width`` bits in ``blocks`` blocks of ``groups`` words for each column."""

    width: int
    zeros: str
    """What stands for zero: "none" (code 2^(width - 1)), "i8" (a number subtracted from the code's value) or "f32" (a
    number added after scaling)."""
    columns: int
    blocks: int
    groups: int

    @property
    def steps(self) -> int:
        """Numbers in a word."""
        return WORD // self.width

    @property
    def record(self) -> int:
        """Bytes of a block in a panel."""
        return block_record(self.zeros, self.columns).size + 4 * self.groups * self.columns

    @property
    def panel(self) -> int:
        return self.record * self.blocks

    def nbytes(self, n: int) -> int:
        """Bytes of ``n`` columns."""
        return -(-n // self.columns) * self.panel


@functools.cache
def block_record(zeros: str, columns: int) -> Record:
    """What a block of a panel begins with, in front of its codes."""
    words = [word("scales", "f32 [columns], times 2^SHIFT", size=4 * columns)]
    if zeros == "i8":
        words.append(word("zeros", "i8 [columns]: zero points", size=columns))
    elif zeros == "f32":
        words.append(word("zeros", "f32 [columns]: offsets, times 2^SHIFT", size=4 * columns))
    return Record("block", *words, unit=4)


def column_bytes(zeros: str) -> int:
    """Bytes of a column of a block in front of its codes."""
    return 4 + _OFFSET_BYTES[zeros]


def has_table(target: Target, width: int) -> bool:
    """Whether the target looks numbers up."""
    return target.vector_bytes == 64 and target.can(can.PICK_F32) and 1 << width <= _TABLE


def high_bits(width: int) -> int:
    """The highest bit of each code of a word: codes and numbers in two's complement differ by these."""
    return sum(1 << i for i in range(width - 1, WORD, width))


def layout_of(target: Target, k: int, width: int, blocks: int, zeros: str) -> Layout:
    """The layout of rows of ``k`` numbers; with several blocks, these must be whole words."""
    return Layout(width, zeros, VECTORS * target.vector_bytes // 4, blocks, -(-k // blocks * width // WORD))


def zero_points(scale: Numbers, offset: Numbers | None, width: int) -> tuple[str, Numbers | None]:
    """How offsets are kept, and what is kept: whole numbers of steps of the scale where they are such, but for the
    rounding of what they were computed from."""
    if offset is None:
        return "none", None
    with np.errstate(all="ignore"):
        ratio = np.where(scale != 0, -offset / np.where(scale != 0, scale, 1), np.where(offset == 0, 0, np.inf))
        whole = np.rint(ratio)
        near = np.abs(ratio - whole) <= 2.0 ** (width - 22)
    if near.all() and whole.min() >= -128 and whole.max() <= 127:
        return "i8", whole.astype(np.int8)
    return "f32", offset


def pack(
    layout: Layout, codes: npt.NDArray[np.uint8], scale: Numbers, points: Numbers | None,
    out: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Fills ``out`` with the rows ``[N, bytes]`` of :class:`MNN.ir.quant.QuantizedArray` as columns."""
    n, have = codes.shape
    fields: list[tuple[str, str, tuple[int, ...]]] = [("scale", "<f4", (layout.columns,))]
    if points is not None:
        fields.append(("zero", "i1" if layout.zeros == "i8" else "<f4", (layout.columns,)))
    fields.append(("codes", "<u4", (layout.groups, layout.columns)))
    panels = -(-n // layout.columns)
    records = out.view(np.dtype(fields)).reshape(panels, layout.blocks)
    flip = high_bits(layout.width) if layout.width == _BYTE else 0
    row = layout.blocks * layout.groups * 4
    some = max(_AT_ONCE // (row * layout.columns), 1)
    for first in range(0, panels, some):
        part = records[first : first + some]
        rows = slice(first * layout.columns, (first + len(part)) * layout.columns)
        wide = np.zeros((len(part) * layout.columns, row), np.uint8)
        wide[: codes[rows].shape[0], :have] = codes[rows]
        words = wide.view("<u4").reshape(len(part), layout.columns, layout.blocks, layout.groups)
        part["codes"] = words.transpose(0, 2, 3, 1) ^ np.uint32(flip)
        part["scale"] = _columns(scale[rows].astype(np.float32) * np.float32(2.0**SHIFT), layout, len(part))
        if points is not None:
            kept = points[rows] if layout.zeros == "i8" else points[rows].astype(np.float32) * np.float32(2.0**SHIFT)
            part["zero"] = _columns(kept, layout, len(part))


def _columns(numbers: Numbers, layout: Layout, panels: int) -> Numbers:
    """One number per row and block as ``[panels, blocks, columns]``, zeros where there is no row."""
    wide = np.zeros((panels * layout.columns, layout.blocks), numbers.dtype)
    wide[: numbers.shape[0]] = numbers
    transposed: Numbers = wide.reshape(panels, layout.columns, layout.blocks).transpose(0, 2, 1)
    return transposed


def as_signed(bits: int) -> int:
    """32 bits as the number that they are with a sign."""
    return bits - (1 << WORD) if bits >= 1 << (WORD - 1) else bits


def look_up(b: Builder, target: Target, width: int, words: Value, step: int) -> Value:
    """The numbers at ``step`` of the words of a vector, as whole floats."""
    lanes = words.type.lanes
    if has_table(target, width):
        mask, half = (1 << width) - 1, 1 << (width - 1)
        table = b.const_vector(F32, [float((i & mask) - half) for i in range(_TABLE)])
        index = b.lshr(words, width * step) if step else words
        return b.perform(can.PICK_F32, F32.vec(lanes), table, index)
    if width < _BYTE:
        words = b.xor(words, as_signed(high_bits(width)))
    up = WORD - width * (step + 1)
    whole = b.ashr(b.shl(words, up) if up else words, WORD - width)
    return b.convert("sitofp", whole, F32.vec(lanes))


class BlockCode:
    """Reads what a block at ``start`` says about ``lanes`` columns from ``column`` (i64) of its panel on."""

    def __init__(self, b: Builder, zeros: str, columns: int, start: Value, column: Value, lanes: int) -> None:
        self._b, self._zeros, self._record = b, zeros, block_record(zeros, columns)
        self._start, self._column, self._lanes = start, column, lanes

    def scale(self) -> Value:
        """Times ``2^SHIFT``."""
        return self._b.load(F32.vec(self._lanes), self._b.gep(self._start, F32, self._column))

    def zero(self) -> Value:
        """The zero points, or offsets times ``2^SHIFT``, as floats."""
        b, after = self._b, self._b.gep(self._start, F32, self._record.index("zeros"))
        if self._zeros == "i8":
            small = b.load(I8.vec(self._lanes), b.gep(after, I8, self._column))
            return b.convert("sitofp", b.convert("sext", small, I32.vec(self._lanes)), F32.vec(self._lanes))
        return b.load(F32.vec(self._lanes), b.gep(after, F32, self._column))

    def codes(self) -> Value:
        """The address of the first words."""
        b = self._b
        return b.gep(b.gep(self._start, I8, self._record.size), I32, self._column)
