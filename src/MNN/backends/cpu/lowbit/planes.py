"""Codes of 5 and 6 bits, which lie in pieces.

Weights of Q5_0, Q5_K and Q6_K in GGUF are bytes in arrays of integers, of which two or three bits say nothing. In
memory, a *group* is 3 words for 16 numbers of 6 bits of a column, or 5 words for 32 of 5. Kernels multiply vectors of
*items*: of four bytes a word, or of two numbers of 16 bits where bytes cannot be summed. Words are made of lanes as
wide as the numbers of an item, so that a shift and a mask bring all of them to their places; an item that lies in
several pieces takes an operation more for each::

    bytes   : word 0 has the upper bits of all items, the others the lower four of two items each
    16 bits : words have two items of 6 bits (three of 5), the last one in the highest bits, so that a shift is all it
              takes; the bits between these are the pieces of what is left (two items of 6 bits, one of 5)

Codes are numbers plus half of their range, whichever way they are multiplied. What is computed from there on is what
weights of 8 bits have.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import I16, I32, Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.schema.files import release

WIDTH = 4
"""Bits that all such codes have."""
HIGH = 1, 2
"""Bits that codes have beside these."""
BITS = 8
"""Bits of the numbers in arrays of integers."""
_WORD, _BYTE, _PAIR = 32, 8, 16
_CENTER = 1 << (BITS - 1)
_AS_ONE = 8
"""Numbers whose items follow each other in rows (:mod:`.rounded_rows`): as many as a word of 4 bits has."""
_AT_ONCE = 1 << 20
Codes = npt.NDArray[np.uint8]


class Piece(NamedTuple):
    """``bits`` of an item, from bit ``to`` of it on, which lie from bit ``at`` of the lanes of a word on."""

    word: int
    at: int
    to: int
    bits: int


def steps_of(width: int, high: int) -> int:
    """Numbers of a group."""
    return _WORD // (high or width)


def words_of(width: int, high: int) -> int:
    """Words of a group."""
    return 1 + width // high if high else 1


def half_of(high: int) -> int:
    """What stands for zero among codes."""
    return 1 << (WIDTH + high - 1)


def high_of(codes: Codes, k: int, blocks: int, width: int) -> int:
    """Bits beside four of weights ``codes`` (as :class:`MNN.ir.quant.QuantizedArray` has them, in rows of ``k``
    in ``blocks``); 0 where numbers have more than 6 bits, or blocks would not be whole groups."""
    if width != BITS:
        return 0
    fit = [high for high in HIGH if k % (blocks * steps_of(WIDTH, high)) == 0]
    rows = max(_AT_ONCE // max(codes.shape[1], 1), 1)
    for first in range(0, len(codes), rows):
        if not fit:
            break
        some = codes[first : first + rows, :k]
        least, most = int(some.min(initial=_CENTER)), int(some.max(initial=_CENTER))
        fit = [high for high in fit if least >= _CENTER - half_of(high) and most < _CENTER + half_of(high)]
    release(codes)  # packing reads them again, when their turn comes
    return fit[0] if fit else 0


def lane_of(target: Target) -> int:
    """Bits of the numbers of an item: bytes where the target sums products of four of them."""
    return _BYTE if target.can(can.DOT4_UNSIGNED) or target.can(can.DOT4_SIGNED) else _PAIR


@functools.cache
def items_of(high: int, lane: int) -> tuple[tuple[Piece, ...], ...]:
    """The pieces of each item of a group."""
    count = steps_of(WIDTH, high) * lane // _WORD
    if lane == _BYTE:
        pieces = [(Piece(1 + i // 2, i % 2 * WIDTH, 0, WIDTH), Piece(0, high * i, WIDTH, high)) for i in range(count)]
        return tuple(pieces)
    bits, words = WIDTH + high, words_of(WIDTH, high)
    last = lane - bits
    starts = [*range(0, last - bits + 1, bits), last]
    whole: list[tuple[Piece, ...]] = [(Piece(word, at, 0, bits),) for word in range(words) for at in starts]
    between = [(word, at) for word in range(words) for at in range(starts[-2] + bits, last)]
    for first in range(0, len(between), bits):
        some, found = between[first : first + bits], list[Piece]()
        several = Counter(word for word, _ in some)
        some.sort(key=lambda bit: -several[bit[0]])  # the largest piece lowest, so that few masks do
        for to, (word, at) in enumerate(some):
            if found and found[-1].word == word:
                found[-1] = found[-1]._replace(bits=found[-1].bits + 1)
            else:
                found.append(Piece(word, at, to, 1))
        whole.append(tuple(found))
    assert len(whole) == count
    return tuple(whole)


def place_of(step: int, lane: int) -> tuple[int, int]:
    """The item that has the number at ``step`` of a group, and in which of a word's lanes."""
    some, place = divmod(step, _AS_ONE)
    per = _AS_ONE * lane // _WORD
    return some * per + place % per, place // per


def parted(codes: Codes, high: int, lane: int) -> Codes:
    """Rows of codes of 8 bits, of whole groups, as the bytes of these."""
    rows, lanes, steps = len(codes), _WORD // lane, steps_of(WIDTH, high)
    moved = (codes - np.uint8(_CENTER - half_of(high))).astype(f"<u{lane // _BYTE}")
    items = moved.reshape(rows, -1, steps // _AS_ONE, lanes, _AS_ONE // lanes).swapaxes(3, 4)
    items = items.reshape(rows, -1, steps // lanes, lanes)
    found = np.zeros((rows, items.shape[1], words_of(WIDTH, high), lanes), moved.dtype)
    for i, pieces in enumerate(items_of(high, lane)):
        for word, at, to, bits in pieces:
            found[:, :, word] |= (items[:, :, i] >> to & (1 << bits) - 1) << at
    return found.reshape(rows, -1).view(np.uint8)


def item(b: Builder, high: int, lane: int, words: list[Value], i: int) -> Value:
    """Item ``i`` of a group of such ``words``, as words."""
    found: Value | None = None
    for word, at, to, bits in items_of(high, lane)[i]:
        part = words[word]
        if lane == _PAIR:  # shifted lane by lane, of which the highest bits need no mask
            part = b.bitcast(part, I16.vec(2 * part.type.lanes))
        if at != to:
            part = b.lshr(part, at - to) if at > to else b.shl(part, to - at)
        if lane == _BYTE or to or at + bits < lane:
            each = 1 if lane == _PAIR else sum(1 << place for place in range(0, _WORD, lane))
            part = b.and_(part, ((1 << bits) - 1 << to) * each)
        found = part if found is None else b.or_(found, part)
    assert found is not None
    return b.bitcast(found, I32.vec(words[0].type.lanes))


__all__ = [
    "BITS",
    "HIGH",
    "WIDTH",
    "half_of",
    "high_of",
    "item",
    "items_of",
    "lane_of",
    "parted",
    "place_of",
    "steps_of",
    "words_of",
]
