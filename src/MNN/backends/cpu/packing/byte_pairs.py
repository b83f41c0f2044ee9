"""Constant weights of 8 bits for processors that sum pairs of products of bytes in 16 bits, which saturate (AVX2).

Such a sum is exact for any u8 where the positive weights of the pair are at most 128 together, and the negative ones as
much: that is a pair's *load*. A row of weights, four neighbours along the sum for each column of a panel, may have
pairs that do not fit. Then it and the next row pair their eight values in another way, the one of 105 in which most do
(:func:`paired`). What is too much in the others is taken off, and is a row of its own, most of which is zero
(:func:`split`). Of rows that are as they were, two whose loads fit together are summed in 16 bits before they are
widened, by three multiplications instead of four (:func:`joined`).
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.products.dot8 import DOT4, FEW_ROWS, in_halves
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

COUNTS = 8
"""Words behind the starts of a panel's sums: how many rows are joined, in twos, how many are not, how many are paired
in other ways, in twos; where :data:`PICKS` begin, where the weights do, and how many rows there is room for;
:data:`NATURAL` and :data:`LIMIT`."""
NATURAL, LIMIT = 6, 7
"""Which of these words are where weights begin that lie in their own order, if there are any, and what sums of values
of A may be with any of these."""
PICKS = 32
"""Bytes that say how eight values are paired: 16 for each row, as instructions take them."""
EIGHT = 8
"""Values of two groups, which are paired in another way or summed together."""
LIGHT_PART = 3
"""Of so many eights of values one may be multiplied in 16 bits, beside light ones."""
_LARGEST = 128
_ATTEMPTS = 6
"""How often rows that are left are joined with others of these."""
_WORTH = 0.02
"""Part of them that must have been joined for another attempt."""

_JOINED, _ALONE, _PAIRED = 1.9, 1.1, 2.4
"""Cycles of a vector's products with two rows, with one, and with two that are paired in another way (Zen 3: 97, 83 and
75 GMAC/s)."""
_MOST = 1.7
"""The same of four weights in 16 bits, for which values of A are widened beforehand, too."""
_LIGHT = 1.1
"""The same where values of A are looked at."""
_AT_ONCE = 1 << 20
"""Weights that are arranged at once."""

_PAIRS = tuple(itertools.combinations(range(EIGHT), 2))

Bytes = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.intp]


def sums_byte_pairs(target: Target) -> bool:
    """Whether the target has sums of two products of bytes, and nothing better."""
    return in_halves(target) and target.can(can.PAIRS_BYTES)


def multiplies_pairs(target: Target, weights: Tensor, rows: int, run: int, columns: int) -> bool:
    """Whether products of bytes with constant ``weights`` may be taken so, for so many ``rows`` of the left side, in
    runs of so many values, and so many ``columns`` of each group: fewer than a vector's are better laid side by side.
    """
    constant = weights.const is not None and weights.dtype is DType.I8
    many = rows > FEW_ROWS and run >= DOT4 and columns >= target.lanes(DType.I32)
    return constant and many and sums_byte_pairs(target)


def shift_of(a: DType) -> int:
    """What is added to values of A so that they are unsigned."""
    return 128 if a is DType.I8 else 0


def places(run: int) -> Numbers:
    """Where groups of four of a run of at least four values begin: the last one within the run, too."""
    return np.minimum(np.arange(0, run, DOT4), run - DOT4)


def split(rows: Bytes) -> tuple[Bytes, Bytes]:
    """Rows ``[..., columns, 4]`` as a sum: what pairs are loaded with at most, and the rest."""
    pairs = rows.reshape(*rows.shape[:-1], 2, 2)
    both = np.add(pairs[..., 0], pairs[..., 1], dtype=np.int16)
    rest = np.zeros_like(pairs)
    rest[..., 0] = both - both.clip(-_LARGEST, _LARGEST)
    return (pairs - rest).reshape(rows.shape), rest.reshape(rows.shape)


def loads(rows: Bytes) -> npt.NDArray[np.uint8]:
    """What each pair of rows ``[R, columns, 4]`` has in positive weights, and in negative ones: ``[R, 2 columns]``
    twice."""
    positive, negative = rows.clip(0, None).view(np.uint8), (-rows.clip(None, 0)).view(np.uint8)
    both = [(sign[..., ::2] + sign[..., 1::2]).reshape(*rows.shape[:-2], -1) for sign in (positive, negative)]
    return np.concatenate(both, -1)


@functools.cache
def _ways() -> tuple[Numbers, Numbers]:
    """All ways to pair eight values: the numbers of their :data:`_PAIRS` ``[105, 4]``, and the values ``[105, 8]``."""
    found = [
        four
        for four in itertools.combinations(range(len(_PAIRS)), EIGHT // 2)
        if len({value for pair in four for value in _PAIRS[pair]}) == EIGHT
    ]
    return np.array(found), np.array(_PAIRS)[found].reshape(-1, EIGHT)


def paired(rows: Bytes) -> Numbers:
    """The order of eight weights for each column, ``[R, columns, 8]``, in which most pairs fit in all columns:
    ``[R, 8]``."""
    fit = np.zeros((len(_PAIRS), len(rows)), np.int8)
    for number, (i, j) in enumerate(_PAIRS):
        both = np.add(rows[..., i], rows[..., j], dtype=np.int16)
        fit[number] = (np.abs(both) <= _LARGEST).all(-1)
    pairs, values = _ways()
    return np.asarray(values[fit[pairs].sum(1, dtype=np.int8).argmax(0)])


def joined(load: npt.NDArray[np.uint8], kind: Numbers) -> tuple[Numbers, Numbers]:
    """The order of rows of panels with loads ``[P, R, pairs]`` in which neighbours are summed together, of those of
    ``kind`` 0, then others of it, then those of higher ones: ``[P, R]``; and how many are summed together, in twos."""
    panels, rows = kind.shape
    left = np.argsort(np.where(kind > 0, 255, load.max(-1)), axis=-1, kind="stable")
    panel, twos, count = np.arange(panels)[:, None], np.zeros(panels, np.intp), (kind == 0).sum(-1)
    rank = 2 * rows + kind  # what the order is by: first those that are joined
    for attempt in range(_ATTEMPTS):
        half = (count - 2 * twos) // 2
        if not half.max(initial=0):
            break
        i = np.arange(half.max())
        light = left[:, : len(i)]
        at = count[:, None] - 2 * twos[:, None] - half[:, None] + (i + attempt) % np.maximum(half, 1)[:, None]
        heavy = np.take_along_axis(left, np.minimum(at, rows - 1), -1)
        fit = (i < half[:, None]) & (load[panel, light] <= _LARGEST - load[panel, heavy]).all(-1)
        number = 2 * (twos[:, None] + np.cumsum(fit, -1) - 1)
        which = np.nonzero(fit)
        rank[which[0], light[fit]] = number[fit]
        rank[which[0], heavy[fit]] = number[fit] + 1
        twos = twos + fit.sum(-1)
        taken = np.take_along_axis(rank, left, -1) < 2 * rows
        left = np.take_along_axis(left, np.argsort(taken, axis=-1, kind="stable"), -1)
        if fit.sum() < _WORTH * half.sum():
            break
    return np.argsort(rank, axis=-1, kind="stable"), twos


def pack_byte_pairs(matrices: Bytes, run: int, nr: int, shift: int, light: bool = False) -> Bytes:
    """B ``[Z, K, N]`` in panels ``[Z, ceil(N / nr), bytes]`` of ``nr`` columns, each as long as the longest.

    K is taps of ``run`` values, at least four, which are groups of four (:func:`places`). A panel has the i32 starts of
    ``nr`` sums, for values of A moved by ``shift``; :data:`COUNTS` words; for every row its place in a tap, then for
    every row its tap; :data:`PICKS` for every two that are paired in another way; and for every row ``[nr, 4]``
    bytes. Rows are in the order of the counts. With ``light``, and runs of eight values at least, all weights follow
    in their own order, two rows for eight values.
    """
    z, k, n = matrices.shape
    panels, at = -(-n // nr), places(run)
    wide = np.zeros((z, k // run, run, panels * nr), np.int8)
    wide[..., :n] = matrices.reshape(z, k // run, run, n)
    starts = (-shift * wide.sum((1, 2), dtype=np.int32)).reshape(z * panels, nr)
    groups = wide[:, :, at[:, None] + np.arange(DOT4)]
    groups[:, :, -1, : DOT4 * len(at) - run] = 0  # what the group before has
    rows = groups.reshape(z, -1, DOT4, panels, nr).transpose(0, 3, 1, 4, 2).reshape(z * panels, -1, nr, DOT4)
    some = max(1, _AT_ONCE // (rows[0].size))
    found = [_packed(rows[i : i + some], at, starts[i : i + some], run) for i in range(0, len(rows), some)]
    packed = np.zeros((len(rows), max(part.shape[1] for part in found)), np.int32)
    for i, part in enumerate(found):
        packed[i * some : (i + 1) * some, : part.shape[1]] = part
    if light:
        packed[:, nr + NATURAL] = packed.shape[1]
        packed[:, nr + LIMIT] = ((1 << 15) - 1) // max(1, int(np.abs(matrices.astype(np.int16)).max(initial=0)))
        packed = np.concatenate([packed, _natural(wide, run, nr)], -1)
    return packed.reshape(z, panels, -1).view(np.int8)


def _natural(wide: Bytes, run: int, nr: int) -> npt.NDArray[np.int32]:
    """Weights ``[Z, taps, run, columns]`` in panels of rows ``[nr, 4]``, two for eight values; the last eight of a run
    begin within it, and have zeros for what those before have."""
    z, taps, _, columns = wide.shape
    at = np.minimum(np.arange(0, run, EIGHT), run - EIGHT)
    eights = wide[:, :, at[:, None] + np.arange(EIGHT)]
    eights[:, :, -1, : EIGHT * len(at) - run] = 0
    rows = eights.reshape(z, taps * len(at), 2, DOT4, columns // nr, nr).transpose(0, 4, 1, 2, 5, 3)
    return np.ascontiguousarray(rows).reshape(z * (columns // nr), -1).view(np.int32)


def tells_little(matrix: Bytes, run: int, nr: int) -> bool:
    """Whether few sums of pairs of weights ``[K, N]`` fit two at a time with any values of A, so that these are better
    looked at."""
    words = pack_byte_pairs(matrix[None], run, nr, 0)[0].view(np.int32)
    cycles = words[:, nr : nr + 3].mean(0) @ [_JOINED, _ALONE, _PAIRED]
    return bool(cycles > _LIGHT * (len(matrix) // run) * len(places(run)))


def pays(matrix: Bytes, run: int, nr: int) -> bool:
    """Whether weights ``[K, N]`` are multiplied faster so than in 16 bits."""
    words = pack_byte_pairs(matrix[None], run, nr, 0)[0].view(np.int32)
    cycles = words[:, nr : nr + 3].mean(0) @ [_JOINED, _ALONE, _PAIRED]
    return bool(cycles <= _MOST * (len(matrix) // run) * len(places(run)))


def _packed(rows: Bytes, at: Numbers, starts: npt.NDArray[np.int32], run: int) -> npt.NDArray[np.int32]:
    """Panels of rows ``[P, R, nr, 4]``, whose groups lie ``at`` these places of taps of so long a ``run``."""
    panels, groups, nr, _ = rows.shape
    panel = np.arange(panels)[:, None]
    whole, rest = split(rows)
    first = np.arange(groups).reshape(-1, len(at))[:, : run // EIGHT * 2 : 2].reshape(-1)
    other, picks = _paired_in_twos(rows, whole, rest, first)
    kind = np.zeros((panels, groups), np.intp)
    kind[:, first], kind[:, first + 1] = other, other
    twos = other.sum(-1)
    picks = picks[panel, np.argsort(~other, axis=-1, kind="stable")[:, : twos.max()]]
    both, kind = np.concatenate([whole, rest], 1), np.concatenate([kind, np.where(rest.any((-2, -1)), 0, 2)], 1)
    which = np.argsort(kind, axis=-1, kind="stable")[:, : (kind < 2).sum(-1).max()]  # without rests that are none
    kind = kind[panel, which]
    order, sums = joined(loads(both[panel, which]), kind)
    which = np.take_along_axis(which, order, -1)
    tap, place = np.divmod(which % groups, len(at))
    named = np.concatenate([at[place], tap], -1)
    head = COUNTS + -(-named.shape[1] // COUNTS) * COUNTS
    words = np.zeros((panels, head), np.int32)
    counts = [sums, (kind == 0).sum(-1) - 2 * sums, twos]
    words[:, :3] = np.stack(counts, -1)
    words[:, 3:6] = nr + head, nr + head + picks.shape[1] * (PICKS // 4), which.shape[1]
    words[:, COUNTS : COUNTS + named.shape[1]] = named
    parts = [np.ascontiguousarray(part).reshape(panels, -1).view(np.int32) for part in (picks, both[panel, which])]
    return np.concatenate([starts, words, *parts], -1)


def _paired_in_twos(
    rows: Bytes, whole: Bytes, rest: Bytes, first: Numbers
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int8]]:
    """Pairs values of the ``first`` rows and their next ones in other ways where fewer have a ``rest`` then: changes
    ``whole`` and ``rest``, and gives where that is and the :data:`PICKS`, ``[P, first, 32]``."""
    other, picks = np.zeros((len(rows), len(first)), np.bool_), np.zeros((len(rows), len(first), PICKS), np.int8)
    beyond = np.asarray(rest.any((-2, -1)))
    before = beyond[:, first].astype(np.int8) + beyond[:, first + 1]
    panel, place = np.nonzero(before)
    eight = np.concatenate([rows[panel, first[place]], rows[panel, first[place] + 1]], -1)
    values, two = paired(eight), (*eight.shape[:2], 2, DOT4)
    turned, more = split(np.take_along_axis(eight, values[:, None], -1).reshape(two))
    back = np.empty_like(eight)
    np.put_along_axis(back, np.broadcast_to(values[:, None], eight.shape), more.reshape(eight.shape), -1)
    left = back.reshape(two)
    fewer = np.asarray(left.any((1, 3)).sum(-1) < before[panel, place])
    if len(left):  # what is left of neighbours may not fit
        fewer &= (loads(left.reshape(len(left), -1, DOT4)) <= _LARGEST).all(-1)
    panel, place, values, turned, left = (part[fewer] for part in (panel, place, values, turned, left))
    other[panel, place] = True
    for i in range(2):
        at = first[place] + i
        whole[panel, at], rest[panel, at] = turned[:, :, i], left[:, :, i]
        picks[panel, place, i * 16 : (i + 1) * 16] = np.tile(values[:, i * DOT4 : (i + 1) * DOT4], 4)
    return other, picks


__all__ = [
    "COUNTS",
    "EIGHT",
    "LIGHT_PART",
    "LIMIT",
    "NATURAL",
    "PICKS",
    "joined",
    "loads",
    "multiplies_pairs",
    "pack_byte_pairs",
    "paired",
    "pays",
    "places",
    "shift_of",
    "split",
    "sums_byte_pairs",
    "tells_little",
]
