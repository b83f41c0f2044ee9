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

Scales that are numbers of f16, as those of most GGUF files are, lie in f16 where the processor converts it: in blocks
of 32 codes of 4 bits, a tenth to a sixth of all bytes less, and bytes are what a single row waits for. Offsets are then
kept as the number that code 0 stands for, which is what such files have.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from MNN.backends.base.record import Record, word
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.module import F32, I8, I32, Builder, Value
from MNN.backends.cpu.lowbit import codebook, planes
from MNN.backends.cpu.lowbit.words import BYTE, Form, bits_of, high_bits
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

VECTORS = 4
"""Vectors of columns in a panel."""
SHIFT = 20
"""A is multiplied by ``2^-SHIFT``, scales by ``2^SHIFT``."""
_SHIFTS = {DType.F32: SHIFT, DType.F16: 8}
_NEARLY = 2.0**-11
"""Of a number that is rounded to f16, what may be lost; of small ones, so much of that of the largest."""
_UP = np.float32(2.0 ** _SHIFTS[DType.F16])
"""Scales and offsets in memory are times two to the power of these: f16 has fewer digits below 2^-14."""
_AT_ONCE = 1 << 22
"""Bytes of codes that are packed at a time."""
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """Weights of ``width`` bits in ``blocks`` blocks of ``groups`` groups of words for each column."""

    width: int
    zeros: str
    """What stands for zero: "none" (code 2^(width - 1)), "i8" (a number subtracted from the code's value) or "offset"
    (a number added after scaling)."""
    columns: int
    blocks: int
    groups: int
    factors: DType = DType.F32
    """How scales and offsets lie: f32, or f16, where offsets are those of code 0."""
    entries: tuple[int, ...] = ()
    """What codes stand for, where they are numbers of a codebook's entries (:mod:`.codebook`)."""
    high: int = 0
    """Bits beside four of codes that lie in pieces (:mod:`.planes`)."""
    lane: int = 8
    """Bits of what such pieces are brought to: numbers of so many bits are multiplied."""

    @property
    def codebook(self) -> bool:
        """Whether codes are numbers of entries."""
        return bool(self.entries)

    @property
    def bits(self) -> int:
        """Of the whole numbers that are computed with."""
        return bits_of(self)

    @property
    def steps(self) -> int:
        """Numbers in a group."""
        return planes.steps_of(self.width, self.high)

    @property
    def record(self) -> int:
        """Bytes of a block in a panel."""
        return column_bytes(self, self.groups) * self.columns

    @property
    def panel(self) -> int:
        return self.record * self.blocks

    def nbytes(self, n: int) -> int:
        """Bytes of ``n`` columns."""
        return -(-n // self.columns) * self.panel


@functools.cache
def block_record(zeros: str, factors: DType, columns: int) -> Record:
    """What a block of a panel begins with, in front of its codes."""
    kind = f"{factors.value} [columns], times 2^{_SHIFTS[factors]}"
    words = [word("scales", kind, size=factors.size * columns)]
    of_code = " of code 0" if factors is DType.F16 else ""
    if zeros == "i8":
        words.append(word("zeros", "i8 [columns]: zero points", size=columns))
    elif zeros == "offset":
        words.append(word("zeros", f"offsets{of_code}: {kind}", size=factors.size * columns))
    return Record("block", *words, unit=4)


def column_bytes(form: Compressed, groups: int) -> int:
    """Bytes of a column of a block of so many groups."""
    head = form.factors.size + {"none": 0, "i8": 1, "offset": form.factors.size}[form.zeros]
    return head + 4 * groups * planes.words_of(form.width, form.high)


def layout_of(
    target: Target, k: int, width: int, blocks: int, zeros: str = "none", factors: DType = DType.F32,
    entries: tuple[int, ...] = (), high: int = 0,
) -> Layout:  # fmt: skip
    """The layout of rows of ``k`` numbers of ``width`` bits, or of those of a codebook's ``entries``, or with ``high``
    bits beside four; with several blocks, these must be whole groups."""
    width = codebook.WIDTH if entries else planes.WIDTH if high else width
    columns, groups = VECTORS * target.vector_bytes // 4, -(-k // blocks // planes.steps_of(width, high))
    return Layout(width, zeros, columns, blocks, groups, factors, entries, high, planes.lane_of(target))


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
    return "offset", offset


def kinds_of(
    target: Target, scale: Numbers, offset: Numbers | None, width: int, rounded: bool = False
) -> tuple[str, DType]:
    """``zeros`` and ``factors`` of a :class:`Layout`: scales and offsets lie in f16 where it holds each of them, or,
    where they may be ``rounded``, nearly (:data:`_NEARLY`)."""
    zeros, points = zero_points(scale, offset, width)
    if not target.can(can.CONVERT_F16):
        return zeros, DType.F32
    with np.errstate(all="ignore"):
        held = _halves(scale) / _UP
        fit = _equal(held, scale, rounded)
        if fit and zeros == "offset" and points is not None:
            least = _of_code_0(scale, points, width)
            if rounded:
                fit = _equal(_halves(least) / _UP, least, rounded)
            else:
                fit = np.array_equal(_halves(least) / _UP + _half_range(scale, width), points)
    return zeros, DType.F16 if fit else DType.F32


def _equal(held: Numbers, numbers: Numbers, rounded: bool) -> bool:
    """Whether all numbers are ``held``, or nearly."""
    if not rounded:
        return np.array_equal(held, numbers)
    largest = np.abs(numbers).max(initial=0)
    return bool((np.abs(held - numbers) <= np.maximum(np.abs(numbers), largest * _NEARLY) * _NEARLY).all())


def _halves(numbers: Numbers) -> Numbers:
    """As they lie in f16, in f32."""
    found: Numbers = (numbers * _UP).astype(np.float16).astype(np.float32)
    return found


def _half_range(scale: Numbers, width: int) -> Numbers:
    """What lies between code 0 and the one whose value is 0."""
    found: Numbers = scale * np.float32(1 << (width - 1))
    return found


def _of_code_0(scale: Numbers, offset: Numbers, width: int) -> Numbers:
    found: Numbers = offset - _half_range(scale, width)
    return found


def pack(
    layout: Layout, codes: npt.NDArray[np.uint8], scale: Numbers, points: Numbers | None,
    out: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Fills ``out`` with the rows ``[N, bytes]`` of :class:`MNN.ir.quant.QuantizedArray` as columns."""
    n = codes.shape[0]
    kind, up = ("<f2" if layout.factors is DType.F16 else "<f4"), np.float32(2.0 ** _SHIFTS[layout.factors])
    fields: list[tuple[str, str, tuple[int, ...]]] = [("scale", kind, (layout.columns,))]
    if points is not None:
        fields.append(("zero", "i1" if layout.zeros == "i8" else kind, (layout.columns,)))
    count = layout.groups * planes.words_of(layout.width, layout.high)
    fields.append(("codes", "<u4", (count, layout.columns)))
    panels = -(-n // layout.columns)
    records = out.view(np.dtype(fields)).reshape(panels, layout.blocks)
    flip = high_bits(layout.width) if layout.width == BYTE else 0
    row = layout.blocks * count * 4
    some = max(_AT_ONCE // (row * layout.columns), 1)
    for first in range(0, panels, some):
        part = records[first : first + some]
        rows = slice(first * layout.columns, (first + len(part)) * layout.columns)
        wide = np.zeros((len(part) * layout.columns, row), np.uint8)
        some_codes = codes[rows]
        if layout.high:
            some_codes = planes.parted(
                some_codes[:, : layout.blocks * layout.groups * layout.steps], layout.high, layout.lane
            )
        elif layout.entries:
            some_codes = codebook.numbered(some_codes, layout.entries)
        wide[: some_codes.shape[0], : some_codes.shape[1]] = some_codes
        words = wide.view("<u4").reshape(len(part), layout.columns, layout.blocks, count)
        part["codes"] = words.transpose(0, 2, 3, 1) ^ np.uint32(flip)
        part["scale"] = _columns(scale[rows].astype(np.float32) * up, layout, len(part))
        if points is not None:
            kept = points[rows]
            if layout.zeros == "offset":
                half = layout.factors is DType.F16
                kept = (_of_code_0(scale[rows], kept, layout.bits) if half else kept).astype(np.float32) * up
            part["zero"] = _columns(kept, layout, len(part))


def _columns(numbers: Numbers, layout: Layout, panels: int) -> Numbers:
    """One number per row and block as ``[panels, blocks, columns]``, zeros where there is no row."""
    wide = np.zeros((panels * layout.columns, layout.blocks), numbers.dtype)
    wide[: numbers.shape[0]] = numbers
    transposed: Numbers = wide.reshape(panels, layout.columns, layout.blocks).transpose(0, 2, 1)
    return transposed


class Compressed(Form, Protocol):
    """What a specification says of how weights lie (see :class:`Layout`)."""

    @property
    def zeros(self) -> str: ...

    @property
    def factors(self) -> DType: ...


class BlockCode:
    """Reads what a block at ``start`` says about ``lanes`` columns from ``column`` (i64) of its panel on."""

    def __init__(
        self, b: Builder, spec: Compressed, columns: int, start: Value, column: Value, lanes: int
    ) -> None:  # fmt: skip
        self._b, self._zeros, self._factors, self._bits = b, spec.zeros, spec.factors, bits_of(spec)
        self._record = block_record(spec.zeros, spec.factors, columns)
        self._start, self._column, self._lanes = start, column, lanes

    def scale(self, shift: int = SHIFT) -> Value:
        """Times ``2^shift``."""
        return self._factor(self._start, shift)

    def zero(self, shift: int = SHIFT) -> Value:
        """The zero points, or offsets times ``2^shift``, as floats."""
        b, after = self._b, self._b.gep(self._start, I8, self._record["zeros"])
        if self._zeros == "i8":
            small = b.load(I8.vec(self._lanes), b.gep(after, I8, self._column))
            return b.convert("sitofp", b.convert("sext", small, I32.vec(self._lanes)), F32.vec(self._lanes))
        number = self._factor(after, shift)
        if self._factors is not DType.F16:
            return number
        return b.fma(self.scale(shift), b.const(F32.vec(self._lanes), 1 << (self._bits - 1)), number)

    def _factor(self, place: Value, shift: int) -> Value:
        b, kind = self._b, self._factors
        value = element.load(b, kind, b.gep(place, element.storage_type(kind), self._column), self._lanes)
        shift -= _SHIFTS[kind]
        return b.mul(value, 2.0**shift) if shift else value

    def codes(self) -> Value:
        """The address of the first words."""
        b = self._b
        return b.gep(b.gep(self._start, I8, self._record.size), I32, self._column)
