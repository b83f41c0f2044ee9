"""How groups of a column's codes become bytes, numbers of 16 bits or floats in registers, however they lie in memory:
as they are (:mod:`.layout`), as numbers of a codebook's entries (:mod:`.codebook`), or in pieces (:mod:`.planes`)."""

from __future__ import annotations

from typing import Protocol

from MNN.backends.cpu.lang.module import F32, I16, I32, Builder, Kernel, Value
from MNN.backends.cpu.lowbit import codebook, planes
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

WORD, BYTE = 32, 8
_TABLE = 16
_EACH_BYTE = 0x01010101


class Form(Protocol):
    """What a specification says of codes."""

    @property
    def width(self) -> int: ...

    @property
    def high(self) -> int: ...

    @property
    def codebook(self) -> bool: ...


def bits_of(form: Form) -> int:
    """Bits of the whole numbers that are computed with."""
    return BYTE if form.codebook or form.high else form.width


def high_bits(width: int) -> int:
    """The highest bit of each code of a word: codes and numbers in two's complement differ by these."""
    return sum(1 << i for i in range(width - 1, WORD, width))


def as_signed(bits: int) -> int:
    """32 bits as the number that they are with a sign."""
    return bits - (1 << WORD) if bits >= 1 << (WORD - 1) else bits


def has_table(target: Target, width: int) -> bool:
    """Whether the target looks numbers up."""
    return target.vector_bytes == 64 and target.can(can.PICK_F32) and 1 << width <= _TABLE


class Reader:
    """Reads groups of codes. ``columns``: of a panel. ``flip``: what words of codes, or a codebook's entries, are
    combined with (exclusive or) to be multiplied; with ``floats``, groups give :meth:`Group.number` alone, else all
    but that."""

    def __init__(
        self, k: Kernel, target: Target, form: Form, columns: int, floats: bool = False, flip: int = 0
    ) -> None:  # fmt: skip
        self.b, self.target, self.form, self.columns = k.b, target, form, columns
        self.steps, self.words = planes.steps_of(form.width, form.high), planes.words_of(form.width, form.high)
        self.flip, self.book = flip, None
        self.lane = planes.lane_of(target)
        if form.codebook:
            self.book = codebook.floats(k, target) if floats else codebook.signed_bytes(k, target)
            if flip:
                self.book, self.flip = self.b.xor(self.book, -1 << (BYTE - 1)), 0

    def bytes_of(self, groups: Value) -> Value:
        """Bytes of so many groups of all columns."""
        return groups * (4 * self.words * self.columns)

    def places(self, codes: Value, group: Value) -> list[Value]:
        """The addresses of the words of a group; ``codes``: those of the first group."""
        return [self.b.gep(codes, I32, (group * self.words + i) * self.columns) for i in range(self.words)]

    def group(self, places: list[Value], lanes: int) -> Group:
        """The group at some :meth:`places`, of so many columns."""
        words = [self.b.load(I32.vec(lanes), place) for place in places]
        return Group(self, [self.b.xor(word, self.flip) if self.flip else word for word in words])


class Group:
    """A group of a vector of columns. Numbers in two's complement are kept, so that it is of use in one straight piece
    of code alone."""

    def __init__(self, reader: Reader, words: list[Value]) -> None:
        self._reader, self._b, self._form, self._words = reader, reader.b, reader.form, words
        self._numbers: dict[int, Value] = {}

    @property
    def words(self) -> list[Value]:
        return self._words

    def _item(self, i: int) -> Value:
        return planes.item(self._b, self._form.high, self._reader.lane, self._words, i)

    def bytes(self, i: int) -> Value:
        """Four codes of a lane that are multiplied together by rows of bytes."""
        b, width, word = self._b, self._form.width, self._words[0]
        if self._form.high:
            return self._item(i)
        if self._reader.book is not None:
            return codebook.bytes_of(b, self._reader.book, word, i % 2 == 1)
        if width == BYTE:
            return word
        return b.and_(b.lshr(word, width * i) if i else word, ((1 << width) - 1) * _EACH_BYTE)

    def pairs(self, i: int) -> Value:
        """Two codes of a lane, of 16 bits each, that are multiplied together by rows of such numbers."""
        b, width = self._b, self._form.width
        if self._form.high:
            return self._item(i)
        if bits_of(self._form) == BYTE:
            per = BYTE // width
            number, half = i // (2 * per) * per + i % per, i % (2 * per) // per
            return self._half(self.bytes(number), half)
        words = b.bitcast(self._words[0], I16.vec(2 * self._words[0].type.lanes))
        codes = b.lshr(words, width * i) if i else words
        return codes if i == I16.bits // width - 1 else b.and_(codes, (1 << width) - 1)

    def _half(self, word: Value, i: int) -> Value:
        """The lower bytes of numbers of 16 bits (0), or the upper ones (1), as such numbers. (Bytes with a sign would
        take two more shifts, of which many processors do no more at a time than products.)"""
        b, words = self._b, self._b.bitcast(word, I16.vec(2 * word.type.lanes))
        return b.lshr(words, BYTE) if i else b.and_(words, (1 << BYTE) - 1)

    def number(self, step: int) -> Value:
        """The number at ``step`` of the group, as whole floats."""
        b, target, width, words = self._b, self._reader.target, self._form.width, self._words[0]
        wide = F32.vec(words.type.lanes)
        if self._form.high:
            return self._of_pieces(step)
        if self._reader.book is not None:
            return codebook.float_of(b, target, self._reader.book, words, step)
        if has_table(target, width):
            mask, half = (1 << width) - 1, 1 << (width - 1)
            table = b.const_vector(F32, [float((i & mask) - half) for i in range(_TABLE)])
            return b.perform(can.PICK_F32, wide, table, b.lshr(words, width * step) if step else words)
        if width < BYTE:
            words = b.xor(words, as_signed(high_bits(width)))
        return b.convert("sitofp", signed(b, words, width * step, width), wide)

    def _of_pieces(self, step: int) -> Value:
        """Items become numbers in two's complement once for all of their lanes."""
        b, lane, high = self._b, self._reader.lane, self._form.high
        i, place = planes.place_of(step, lane)
        if i not in self._numbers:
            half = sum(planes.half_of(high) << first for first in range(0, WORD, lane))
            self._numbers[i] = b.xor(self._item(i), half)
        found = signed(b, self._numbers[i], lane * place, self._form.width + high)
        return b.convert("sitofp", found, F32.vec(found.type.lanes))


def signed(b: Builder, words: Value, first: int, bits: int) -> Value:
    """The ``bits`` of each word from bit ``first`` on, as numbers with a sign."""
    up = WORD - first - bits
    return b.ashr(b.shl(words, up) if up else words, WORD - bits)


__all__ = ["BYTE", "WORD", "Form", "Group", "Reader", "as_signed", "bits_of", "has_table", "high_bits", "signed"]
