"""Depthwise windows of bytes four rows at a time: an instruction multiplies and adds four neighbours in a column.

Bytes that are widened give one product per 32-bit lane. Vectors of 64 channels from four rows, interleaved in bytes and
then in pairs, are four vectors whose lanes hold a column's four rows of one channel: eight instructions, for as many
windows as the column belongs to, and a quarter of the multiply-adds. Interleaving works within 16 bytes, and so does
packing the results, which puts the channels in order again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.element import Tail, make_tail
from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Builder, Kernel, Value
from MNN.backends.cpu.products.epilogue import Epilogue
from MNN.backends.cpu.products.packed_bytes import packs_bytes
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

ROWS = 4
CHANNELS = 64
VECTORS = 4
_LANES = 16
_BITS = 512
_FEWEST = _LANES + 1
"""Channels behind whole groups from which on one more group costs less than vectors of channels one by one."""
_FEW = 2 * _LANES
"""Channels up to which a group costs more than that, for it is cut."""


def in_groups(c: int) -> int:
    """How many channels groups of 64 have together, where there are ``c``; the last one may begin before the end of the
    one before, and a single one may have fewer channels."""
    return (c + CHANNELS - _FEWEST) // CHANNELS * CHANNELS if c >= CHANNELS else CHANNELS if c > _FEW else 0


def in_groups_of(b: Builder, c: Value, cut: bool) -> Value:
    """The same as code; ``cut``: it is known that there is a single group of fewer."""
    if cut:
        return b.const(I64, CHANNELS)
    rounded = b.and_(c + (CHANNELS - _FEWEST), -CHANNELS)
    return b.select(b.icmp("sge", c, CHANNELS), rounded, b.const(I64, 0))


def has_byte_rows(target: Target) -> bool:
    """Whether the target has the instructions."""
    return target.vector_bytes * 8 == _BITS and packs_bytes(target) and target.can(can.DOT4_UNSIGNED)


def pack_byte_rows(weights: npt.NDArray[np.integer]) -> npt.NDArray[np.int8]:
    """Weights ``[kh, kw, c]`` as ``[ceil(kh / 4), kw, groups, 4, 16, 4]``: by vector and lane, the rows of a channel;
    zeros past the last row. Groups are those of :func:`in_groups`, the last one the last 64 channels. With planes
    ``[planes, kh, kw, c]`` these follow each other."""
    if weights.ndim == 4:
        return np.stack([pack_byte_rows(plane) for plane in weights])
    kh, kw, c = weights.shape
    steps, groups = -(-kh // ROWS), in_groups(c) // CHANNELS
    padded = np.zeros((steps * ROWS, kw, groups, CHANNELS), np.int8)
    for group in range(groups):
        first = max(0, min(group * CHANNELS, c - CHANNELS))
        padded[:kh, :, group, : c - first] = weights[..., first : first + CHANNELS]
    parts = padded.reshape(steps, ROWS, kw, groups, 4, VECTORS, 4)  # channel 16 * part + 4 * vector + number
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 5, 4, 6, 1)).reshape(steps, kw, groups, VECTORS, _LANES, ROWS)


def _interleaved(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Elements of two vectors in turn, within every 16 bytes: of their lower halves, and of their upper ones."""
    part = 128 // x.type.element.bits
    half, lanes = part // 2, x.type.lanes
    low, high = (
        [at for p in range(0, lanes, part) for i in range(half) for at in (p + first + i, lanes + p + first + i)]
        for first in (0, half)
    )
    return b.shuffle(x, y, low), b.shuffle(x, y, high)


def _columns_of_four(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """Of vectors of 64 bytes from four rows, the four vectors of their columns."""
    words = I16.vec(CHANNELS // 2)
    upper, lower = (_interleaved(b, *rows[i : i + 2]) for i in (0, 2))
    found: list[Value] = []
    for first, second in zip(upper, lower, strict=True):
        found += _interleaved(b, b.bitcast(first, words), b.bitcast(second, words))
    return [b.bitcast(x, I8.vec(CHANNELS)) for x in found]


def combine_byte_rows(
    k: Kernel,
    columns: dict[int, Value],
    taps: dict[int, list[tuple[int, int]]],
    kw: int,
    channel: Value,
    group: Value,
    size: int,
    planes: bool,
    cut: Tail | None,
) -> list[Value]:
    """Sums of products for ``size`` pixels of 64 channels from ``channel`` on, in the four vectors' order of channels.

    With ``planes`` windows have several, one after the other. Weights begin at the ``group``-th channel of those in
    groups. ``columns`` are the addresses of the input's columns; ``taps`` gives for each the pixels that it belongs to
    and the column of their windows that it is. ``cut``: there are fewer channels.
    """
    b, vector = k.b, I8.vec(CHANNELS)
    stride = in_groups_of(b, k.slot("c"), cut is not None)
    zeros = [b.const(I32.vec(_LANES), 0)] * (VECTORS * size)

    def row_of(pointer: Value) -> Value:
        return b.load(vector, pointer, align=1) if cut is None else b.load_masked(vector, pointer, cut.mask)

    def rows_of_plane(sums: Sequence[Value], at_x: Value, at_w: Value) -> list[Value]:
        """``sums`` with the rows from ``at_x`` on; where the next weights are, last."""
        with b.loop(0, k.slot("kh"), ROWS, carry=[*sums, at_x, at_w]) as row:
            *values, at_x, at_w = row.carried
            left = k.slot("kh") - row.index - 1  # rows past the last, whose weights are zero, are the last one
            places = [at_x + b.intrinsic("smin", left, b.const(left.type, i)) * k.slot("row_x") for i in range(ROWS)]
            for column, pointer in columns.items():
                b.in_order()
                found = _columns_of_four(b, [row_of(b.gep(pointer, I8, at)) for at in places])
                for pixel, kx in taps[column]:
                    for v, four in enumerate(found):
                        at = b.gep(k.pointer("fours"), I32, at_w + stride * kx + v * _LANES)
                        weights, number = b.load(vector, at, align=4), VECTORS * pixel + v
                        values[number] = b.perform(
                            can.DOT4_UNSIGNED, values[number].type, values[number], four, weights
                        )
            row.next(*values, at_x + k.slot("row_x") * ROWS, at_w + stride * kw)
        return [*row.results[: VECTORS * size], row.results[-1]]

    if not planes:
        return rows_of_plane(zeros, channel, group)[: VECTORS * size]
    with b.loop(0, k.slot("n_planes"), carry=[*zeros, group]) as plane:
        *sums, at_w = plane.carried
        plane.next(*rows_of_plane(sums, channel + b.entry(k.pointer("planes"), plane.index), at_w))
    return plane.results[: VECTORS * size]


def _in_channel_order(b: Builder, vectors: Sequence[Value]) -> list[Value]:
    """Four vectors of 32-bit numbers, one per channel, in the order that sums have (or the other way round)."""
    quarters = _LANES // 4

    def pick(x: Value, y: Value, parts: Sequence[int]) -> Value:
        return b.shuffle(x, y, [quarters * part + i for part in parts for i in range(quarters)])

    low = [pick(vectors[i], vectors[i + 1], (0, 1, 4, 5)) for i in (0, 2)]
    high = [pick(vectors[i], vectors[i + 1], (2, 3, 6, 7)) for i in (0, 2)]
    return [pick(first, second, parts) for first, second in (low, high) for parts in ((0, 2, 4, 6), (1, 3, 5, 7))]


def load_operand(
    b: Builder, epilogue: Epilogue, dtype: DType, pointer: Value, channel: Value | None, cut: Tail | None
) -> list[Value]:
    """An operand's 64 numbers from ``channel`` on, in the order of sums; its one number where that is None."""
    if channel is None:
        return [epilogue.load(pointer, dtype, None, _LANES, None)] * VECTORS
    natural = []
    for v in range(VECTORS):
        place, tail = channel + v * _LANES, None
        if cut is not None:
            left = b.intrinsic("smax", cut.count - v * _LANES, b.const(I64, 0))
            place, tail = b.intrinsic("smin", place, cut.count - 1), make_tail(b, left, _LANES)
        natural.append(epilogue.load(pointer, dtype, place, _LANES, tail))
    return _in_channel_order(b, natural)


__all__ = [
    "CHANNELS",
    "VECTORS",
    "combine_byte_rows",
    "has_byte_rows",
    "in_groups",
    "in_groups_of",
    "load_operand",
    "pack_byte_rows",
]
