"""Depthwise windows of bytes two taps at a time, where an instruction multiplies and adds pairs of bytes in 16 bits.

Bytes that are widened to 32 bits give one product per lane, and take the multiplier as long as floats do. Bytes of two
taps, interleaved, give two products per lane of 16 bits. The instruction (unsigned by signed bytes) saturates, but not
here: its unsigned side is the size of the weights, its signed side the input, moved to signed bytes and with all bits
flipped where the weight is negative, which is ``-x - 1``: at most ``2 * 128 * 128`` below zero and less above. Both are
one exclusive or with a mask; what it adds is known per channel, and sums begin with the opposite.

Sums of more pairs leave 16 bits. They are taken twice, both in 16 bits: as they are, wrapped around (``low``), and with
``shift`` bits cut off each pair (``high``). ``total - high * 2^shift`` is what was cut off, not negative and below
``2^15``, so that ``low`` has it whole, and one more multiply-add of pairs gives the total in 32 bits. Where weights are
so small that no total leaves 16 bits, ``low`` alone does.

Rows are taken in pairs, and of a last odd row neighbouring taps. Channels come in groups of four vectors of 32-bit
numbers, half a group at a time. Interleaving works within 16 bytes: so does packing, which restores the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Kernel, Value
from MNN.backends.cpu.products.packed_bytes import packs_bytes
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

WIDEST = 7
"""Columns of a window up to which they are written out one by one here."""
SMALLEST = 16
"""Channels of the smallest group."""
_PART = 16
_MOST_PAIRS = 90
"""Pairs of a window up to which what ``high`` lacks stays below 2^15."""
_BITS = 256
Pair = tuple[tuple[int, int], tuple[int, int] | None]
"""Two taps by row and column; the second one may be none."""


def has_tap_pairs(target: Target) -> bool:
    """Whether the target has the instructions, and none that sum four products."""
    needed = (can.PAIRS_BYTES, can.PAIRS_I16, can.PACK_I32, can.PACK_I16_SIGNED, can.PACK_I16_UNSIGNED)
    narrow = all(target.can(c, 8 * _PART) for c in needed)
    return narrow and packs_bytes(target) and target.vector_bytes * 8 <= _BITS


def tap_pairs(kh: int, kw: int) -> list[Pair]:
    """The pairs of a plane of a window in the order in which they are taken."""
    found: list[Pair] = [((row, column), (row + 1, column)) for row in range(0, kh - 1, 2) for column in range(kw)]
    if kh % 2:
        last = kh - 1
        found += [((last, c), (last, c + 1) if c + 1 < kw else None) for c in range(0, kw, 2)]
    return found


def groups_of(c: int, widest: int) -> Iterator[tuple[int, int]]:
    """The first channel of each group, and how many it has: groups of ``widest``, then of the fewest, the last of which
    may begin before the end of the one before."""
    whole = c // widest * widest
    yield from ((first, widest) for first in range(0, whole, widest))
    yield from ((min(first, c - SMALLEST), SMALLEST) for first in range(whole, c, SMALLEST))


def shift_of(weights: npt.NDArray[np.integer], dtype: DType) -> int | None:
    """The shift of sums for weights ``[planes, kh, kw, c]`` of 8 bits and an input of ``dtype``: 0 where 16 bits have
    the totals of every channel, whatever the input is; None where there are too many taps."""
    planes, kh, kw, _ = weights.shape
    count = int(planes) * len(tap_pairs(kh, kw))
    if count > _MOST_PAIRS:
        return None
    low, high = (0, 255) if dtype is DType.U8 else (-128, 127)
    wide = weights.astype(np.int32)
    above, below = (np.maximum(s * wide, 0).sum(axis=(0, 1, 2)) for s in (1, -1))
    most, least = above * high - below * low, above * low - below * high
    if most.max() < 1 << 15 and least.min() >= -(1 << 15):
        return 0
    return max(count - 1, 1).bit_length() + 1


def pack_tap_pairs(weights: npt.NDArray[np.integer], dtype: DType, widest: int, shift: int) -> npt.NDArray[np.int8]:
    """Weights ``[planes, kh, kw, c]`` of 8 bits for an input of ``dtype``, groups of ``widest`` channels and a
    :func:`shift_of` sums.

    By group and half: what sums begin with (i16: ``low``, and ``high`` if there is a shift), then for each pair the
    weights' sizes and the masks of the input, both of two taps in turn.
    """
    planes, kh, kw, c = weights.shape
    pairs = [(plane, *pair) for plane in range(planes) for pair in tap_pairs(kh, kw)]
    wide = weights.astype(np.int32)
    negative = wide < 0
    flipped = np.where(negative, 0xFF, 0) ^ (0x80 if dtype is DType.U8 else 0)
    moved = np.where(negative, -127, 128) if dtype is DType.U8 else negative.astype(np.int32)
    starts = (moved * np.abs(wide)).sum(axis=(0, 1, 2))
    taps = np.zeros((len(pairs), c, 4), np.uint8)
    for i, (plane, *both) in enumerate(pairs):
        for side, tap in enumerate(both):
            if tap is not None:
                taps[i, :, side] = np.abs(wide[plane, tap[0], tap[1]])
                taps[i, :, 2 + side] = flipped[plane, tap[0], tap[1]]
    begin = [starts, starts >> shift] if shift else [starts]
    parts: list[npt.NDArray[np.uint8]] = []
    for first, count in groups_of(c, widest):
        channels = np.arange(first, first + count).reshape(-1, 2, _PART // 2)
        for half in (0, 1):
            own = channels[:, half].reshape(-1)
            parts += [v[own].astype(np.int16).view(np.uint8) for v in begin]
            for tap in taps[:, own]:
                parts += [tap[:, :2].reshape(-1), tap[:, 2:].reshape(-1)]
    return np.concatenate(parts).view(np.int8)


def bytes_of_channel(planes: int, kh: int, kw: int, shift: int) -> int:
    """Bytes of packed weights for each channel of a group."""
    return 4 * planes * len(tap_pairs(kh, kw)) + (4 if shift else 2)


class HalfGroup:
    """Sums for ``pixels`` windows of half a group of channels, in vectors of ``lanes`` 32-bit numbers."""

    def __init__(
        self, k: Kernel, columns: Mapping[int, Value], taps: Mapping[int, list[int]], lanes: int, shift: int
    ) -> None:
        """``columns``: the addresses of the input's columns. ``taps``: for each pixel of the tile, the columns of its
        window. ``shift``: see :func:`shift_of`."""
        self.k, self.b, self.columns, self.taps, self.shift = k, k.b, columns, taps, shift
        self.size = 4 * lanes
        self.words = I16.vec(2 * lanes)
        self.sums = 2 if shift else 1

    def emit(self, half: int, channel: Value, weights: Value, odd: bool, planes: bool) -> tuple[list[Value], Value]:
        """Two vectors of totals for each pixel, in i32, and where the weights of what follows are. ``channel``: the
        group's first; ``weights``: the place of the half's."""
        b, words = self.b, self.words
        starts = [b.load(words, b.gep(weights, I8, self.size * i), align=1) for i in range(self.sums)]
        carry = starts * len(self.taps)
        at: Value = b.const(I64, self.size * self.sums)
        if planes:
            with b.loop(0, self.k.slot("n_planes"), carry=[*carry, at]) as plane:
                first = channel + b.entry(self.k.pointer("planes"), plane.index)
                plane.next(*self._plane(half, first, weights, plane.carried, odd))
            found = plane.results
        else:
            found = self._plane(half, channel, weights, [*carry, at], odd)
        totals: list[Value] = []
        for i in range(0, len(carry), self.sums):
            totals += self._totals(found[i : i + self.sums])
        return totals, b.gep(weights, I8, found[-1])

    def _plane(self, half: int, first: Value, weights: Value, carry: Sequence[Value], odd: bool) -> list[Value]:
        """Sums, and the place of weights behind, with a plane's rows from ``first`` on."""
        b, k = self.b, self.k
        down = k.slot("row_x")
        with b.loop(0, k.slot("kh") - 1, 2, carry=[*carry, first]) as row:
            *sums, at_w, at_x = row.carried
            pairs: dict[int, Value] = {}
            for kx in range(len(self.taps[0])):
                for pixel, own in self.taps.items():
                    column = own[kx]
                    if column not in pairs:
                        places = [b.gep(self.columns[column], I8, at_x + d) for d in (0, down)]
                        pairs[column] = self._interleaved(half, *places)
                    self._add(sums, pixel, pairs[column], weights, at_w + 2 * self.size * kx)
            at_w = at_w + 2 * self.size * len(self.taps[0])
            row.next(*sums, at_w, at_x + down * 2)
        *sums, at_w, at_x = row.results
        if not odd:
            return [*sums, at_w]
        joined: dict[tuple[int, int], Value] = {}
        for number, kx in enumerate(range(0, len(self.taps[0]), 2)):
            for pixel, own in self.taps.items():
                near = own[kx] + own[-1] - own[-2] if len(own) > 1 else own[kx]
                key = (own[kx], near if near in self.columns else own[kx])  # a tap that is none has zero weights
                if key not in joined:
                    joined[key] = self._interleaved(half, *(b.gep(self.columns[c], I8, at_x) for c in key))
                self._add(sums, pixel, joined[key], weights, at_w + 2 * self.size * number)
        return [*sums, at_w + 2 * self.size * -(-len(self.taps[0]) // 2)]

    def _interleaved(self, half: int, first: Value, second: Value) -> Value:
        """Bytes of two places in turn, of the lower or the upper half of every 16."""
        b = self.b
        x, y = (b.load(I8.vec(self.size), at, align=1) for at in (first, second))
        start = half * _PART // 2
        lanes = [at for p in range(0, self.size, _PART) for i in range(_PART // 2)
                 for at in (p + start + i, self.size + p + start + i)]  # fmt: skip
        return b.shuffle(x, y, lanes)

    def _add(self, sums: list[Value], pixel: int, x: Value, weights: Value, at: Value) -> None:
        b, vector = self.b, I8.vec(self.size)
        sizes, mask = (b.load(vector, b.gep(weights, I8, at + self.size * i), align=1) for i in (0, 1))
        both = b.perform(can.PAIRS_BYTES, self.words, sizes, b.xor(x, mask))
        first = pixel * self.sums
        sums[first] = b.add(sums[first], both)
        if self.shift:
            sums[first + 1] = b.add(sums[first + 1], b.ashr(both, self.shift))

    def _totals(self, sums: Sequence[Value]) -> list[Value]:
        """Sums of 16 bits as two vectors of 32."""
        b, lanes = self.b, self.words.lanes
        four, found = range(0, lanes, 8), []
        low = sums[0]
        if self.shift:
            pair = [sums[1], b.sub(low, b.shl(sums[1], self.shift))]
            factors = b.const_vector(I16, [1 << self.shift, 1] * (lanes // 2))
        for start in (0, 4):
            if self.shift:
                order = [at for p in four for i in range(4) for at in (p + start + i, lanes + p + start + i)]
                found.append(b.perform(can.PAIRS_I16, I32.vec(lanes // 2), b.shuffle(pair[0], pair[1], order), factors))
            else:
                order = [p + start + i for p in four for i in range(4) for _ in (0, 1)]
                found.append(b.ashr(b.bitcast(b.shuffle(low, None, order), I32.vec(lanes // 2)), 16))
        return found


__all__ = [
    "SMALLEST",
    "WIDEST",
    "HalfGroup",
    "bytes_of_channel",
    "groups_of",
    "has_tap_pairs",
    "pack_tap_pairs",
    "shift_of",
    "tap_pairs",
]
