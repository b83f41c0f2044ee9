"""Where :class:`MNN.backends.cpu.amx.spec.AmxSpec` puts A in its scratch: the tables that drive the kernel.

Two layouts: the rows of the product one behind the other (matrix products; windows over few channels, whose taps are
joined to one dense row), or the pixels of a region of the input, each once, for windows over many channels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.amx.records import FIRST, FIRST_MOVE, FROM, LENGTH, PAST, PAST_MOVE, REGION, TILES, TO
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.products.geometry import Window

DEPTH = 32
"""Products of one step of the sum."""
HEIGHT = 4
"""Row tiles of a block at most, where they are summed together (``tall``)."""
LEAST = 3
"""Row tiles that are summed at least: what blocks of fewer do not have is not stored. Kernels for one or two of their
own would be compiled for next to nothing."""
Table = npt.NDArray[np.int64]
MOST_BETWEEN = 1.15
"""Rows that are loaded where they lie, at most, beside those that are wanted: bringing takes a fifth of a product."""


@dataclass(frozen=True)
class Layout:
    """The tables and numbers of a call, named as the kernel's slots."""

    items: Table
    regions: Table
    first: Table
    place: Table
    kofs: Table
    chunks: int
    pitch: int
    plane: int
    step: int
    clear: int
    clear_rows: int
    pairs: int
    taps: int
    run: int
    """Steps take runs of so many rows of B, one for each tap, filled up with nothing."""
    moves: Table | None = None
    """How rows are joined from lines of pixels, where they are; with the next two."""
    width: int = 0
    move_step: int = 0
    lines: bool = False
    """Rows of tiles reach up to 64 bytes further than the runs that are brought."""
    direct: bool = False
    """Tiles are loaded from A itself."""
    tall: bool = False
    """All row tiles of a block are summed together, a few steps at a time."""
    sections: tuple[int, int] | None = None
    """Columns of a section, and elements of A that it has of every pixel (:mod:`MNN.backends.cpu.amx.sections`)."""
    beside: int = 0
    """Bytes from one section's rows to those of the next."""
    sliced: bool = False
    """Blocks have the same rows, each another part of the sums' depth (:mod:`MNN.backends.cpu.amx.slices`)."""

    @property
    def n_steps(self) -> int:
        return self.kofs.size

    @property
    def b_rows(self) -> Table:
        """For every product of every step, which row of B it takes (tap by tap, channel by channel); -1: none."""
        found = np.full((self.taps, -(-self.run // DEPTH) * DEPTH), -1)
        found[:, : self.run] = np.arange(self.taps * self.run).reshape(self.taps, self.run)
        return found.reshape(-1)

    @property
    def m_blocks(self) -> int:
        return len(self.regions) // self.chunks

    @property
    def pace(self) -> int:
        """Results to finish in every step, so that a pair of tiles is done with the fewest steps that a region has.

        Four tiles have twice as many steps, for one column tile after the other."""
        return -(-2 * ROWS // int((self.regions[:, TO] - self.regions[:, FROM]).min()))

    @property
    def tiles(self) -> int:
        """Row tiles of the largest block."""
        return int(self.regions[:, TILES].max())


def _pitch(size: int) -> int:
    """Bytes between rows of ``size`` bytes: whole lines, and no multiple of 256, since such rows share few sets."""
    lines = -(-size // ROW_BYTES)
    return (lines + (lines % 4 == 0)) * ROW_BYTES


def _plane(rows: int, pitch: int) -> int:
    """Bytes of a part's plane: an odd number of lines, so that the parts of a row do not share a set."""
    return (rows * pitch // ROW_BYTES | 1) * ROW_BYTES


def _firsts(place: Table, starts: Table, pairs: int) -> Table:
    """The kernel's table ``first``; block ``i`` has the results from ``starts[i]`` on."""
    span = pairs * 2 * ROWS  # of rows that all blocks have less than
    block = np.zeros(place.size, np.int64)
    block[starts[1:]] = span
    wanted = np.arange(starts.size * pairs) * (2 * ROWS)
    return np.append(np.searchsorted(np.cumsum(block) + place, wanted), place.size)


def rows_layout(rows: Table, taps: Table, k: int, mb: int, chunk: int = 0) -> Layout:
    """Rows at ``rows[i] + taps[t]``, ``k`` elements for each tap, joined; ``mb`` rows per block.

    ``chunk``: so many elements of a row at a time (a multiple of 32, one tap only); 0 brings whole rows.
    """
    m, n_taps = rows.size, taps.size
    n_steps = -(-n_taps * k // DEPTH)
    if not chunk or n_taps > 1:
        chunk = n_steps * DEPTH
    chunks = -(-n_steps * DEPTH // chunk)
    per = chunk // DEPTH
    reach = (n_taps - 1) * k * 2 + -(-k // DEPTH) * ROW_BYTES
    pitch = _pitch(max(reach, n_steps * ROW_BYTES) if chunks == 1 else per * ROW_BYTES)
    step = int(rows[1] - rows[0]) if m > 1 else 0
    starts = np.arange(0, m, mb)
    new = np.ones(m, bool)
    new[1:] = np.diff(rows) != step
    new[starts] = True
    begin = np.flatnonzero(new)
    count = np.diff([*begin, m])
    local = begin - begin // mb * mb
    runs = np.empty((begin.size, n_taps, 3), np.int64)
    runs[:, :, 0] = rows[begin][:, None] + taps
    runs[:, :, 1] = local[:, None] * pitch + np.arange(n_taps) * k * 2
    runs[:, :, 2] = count[:, None]
    part = np.arange(chunks)
    items = np.repeat(runs.reshape(1, -1, 3), chunks, axis=0)
    items[:, :, 0] += (part * chunk)[:, None]
    low = np.searchsorted(begin, starts) * n_taps
    past = np.array([*low[1:], begin.size * n_taps])
    tiles = -(-np.minimum(m - starts, mb) // ROWS)
    regions = np.zeros((starts.size, chunks, REGION.count), np.int64)
    regions[:, :, FIRST] = low[:, None] + part * (begin.size * n_taps)
    regions[:, :, PAST] = past[:, None] + part * (begin.size * n_taps)
    regions[:, :, TILES] = tiles[:, None]
    regions[:, :, LENGTH] = k if chunks == 1 else np.minimum(k - part * chunk, chunk)
    regions[:, :, FROM] = part * per
    regions[:, :, TO] = np.minimum((part + 1) * per, n_steps)
    pairs = int(-(-tiles.max() // 2))
    place = np.arange(m) - np.arange(m) // mb * mb
    return Layout(
        items.reshape(-1, 3),
        regions.reshape(-1, REGION.count),
        _firsts(place, starts, pairs),
        place,
        np.arange(n_steps) % per * ROW_BYTES,
        chunks,
        pitch,
        _plane(int(tiles.max()) * ROWS, pitch),
        step,
        (n_steps - 1) * ROW_BYTES,
        int(min(mb, m)) if reach < n_steps * ROW_BYTES else 0,
        pairs,
        1,
        n_taps * k,
    )


def tall_layout(layout: Layout, steps: int) -> Layout:
    """The same for tall sums: one chunk becomes several, of about ``steps`` steps each.

    Raises ``ValueError`` for blocks of too many rows."""
    if layout.tiles > HEIGHT:
        raise ValueError(f"tall sums are of {HEIGHT} row tiles at most, not of {layout.tiles}")
    chunks = max(1, layout.n_steps // steps)
    bounds = layout.n_steps * np.arange(chunks + 1) // chunks
    regions = np.repeat(layout.regions[:, None], chunks, axis=1)
    regions[:, :, FROM], regions[:, :, TO] = bounds[:-1], bounds[1:]
    regions[:, 1:, FIRST] = regions[:, 1:, PAST]
    rows = LEAST * ROWS + int(layout.kofs.max()) // layout.pitch + 1
    return dataclasses.replace(
        layout,
        regions=regions.reshape(-1, regions.shape[-1]),
        chunks=chunks,
        plane=max(layout.plane, _plane(rows, layout.pitch)),
        tall=True,
    )


def direct_layout(rows: Table, k: int, mb: int, chunk: int = 0, parts: int = 1) -> Layout | None:
    """As :func:`rows_layout` for one tap, tiles being loaded from the rows themselves, which are bf16 (``parts`` of
    them), and what lies between them: results of that are not stored.

    None where :func:`direct_rows` gives none.
    """
    at = direct_rows(rows, k)
    if at is None:
        return None
    m = int(at[-1]) + 1
    every = int(rows[0]) + np.arange(m) * (int(rows[1]) - int(rows[0]))
    plain = rows_layout(every, np.zeros(1, np.int64), k, mb, chunk)
    starts = np.arange(0, m, mb)
    heights = np.minimum(m - starts, mb)
    regions = plain.regions.reshape(starts.size, plain.chunks, -1).copy()
    regions[:, :, FIRST] = regions[:, :, PAST] = 0
    regions[:, :, FIRST_MOVE] = every[starts][:, None]
    regions[:, :, PAST_MOVE] = (heights - ROWS)[:, None]
    place = plain.place[at]
    height = heights[at // mb]
    last = place >= (height - 1) // ROWS * ROWS  # in the last tile, which ends with the block
    place = place + last * (-height % ROWS)
    return dataclasses.replace(
        plain,
        items=np.zeros((1, 3), np.int64),
        regions=regions.reshape(-1, regions.shape[-1]),
        first=_firsts(place, np.searchsorted(at, starts), plain.pairs),
        place=place,
        kofs=np.arange(plain.n_steps) * (parts * ROW_BYTES),
        pitch=plain.step * (parts * 2),
        plane=(parts - 1) * ROW_BYTES,
        clear_rows=0,
        direct=True,
    )


def direct_rows(rows: Table, k: int) -> Table | None:
    """Which of the evenly spaced rows that begin with the first two these are, in order: lines of an image within a
    border, say. None where tiles cannot be loaded from them: fewer than 16, no whole steps of the sum, or too much
    between them."""
    if rows.size < ROWS or k % DEPTH:
        return None
    step = int(rows[1] - rows[0])
    if step < k:
        return None
    at: Table
    at, rest = np.divmod(rows - rows[0], step)
    if rest.any() or (np.diff(at) <= 0).any() or at[-1] + 1 > MOST_BETWEEN * rows.size:
        return None
    return at


def joined_layout(rows: Table, taps: Table, k: int, mb: int) -> Layout | None:
    """As :func:`rows_layout` without chunks, for runs that overlap along lines of pixels: every line is converted once.

    None where rows do not come in lines of equal length, or lines have little in common.
    """
    line = int(np.argmax(np.diff(rows, append=rows[-1]) != rows[min(1, rows.size - 1)] - rows[0])) + 1
    plain = rows_layout(rows, taps, k, max(1, mb // line) * line)  # no block cuts a line
    counts = plain.items[:, 2]
    step, count = plain.step, int(counts[0])
    if not 0 < step < k or (counts != count).any():
        return None
    length = (count - 1) * step + k
    line_pitch = -(-length // DEPTH) * ROW_BYTES
    base = plain.tiles * ROWS * plain.pitch
    regions, items, moves, most = plain.regions.copy(), [], plain.items.copy(), 0
    brought = 0
    for region in regions:
        low, past = int(region[FIRST]), int(region[PAST])
        lines, which = np.unique(plain.items[low:past, 0], return_inverse=True)
        most = max(most, lines.size)
        at = base + np.arange(lines.size) * line_pitch
        items.append(np.stack([lines, at, np.ones(lines.size, np.int64)], axis=1))
        moves[low:past, 0] = at[which]
        region[FIRST], region[PAST], region[LENGTH] = brought, brought + lines.size, length
        region[FIRST_MOVE], region[PAST_MOVE] = low, past
        brought += lines.size
    # A few rows at a time, all their taps: what is being joined then stays in the first-level cache.
    starts = np.arange(0, count, ROWS)
    split = np.repeat(moves.reshape(-1, 1, taps.size, 3), starts.size, axis=1)
    split[..., 0] += starts[:, None] * step * 2
    split[..., 1] += starts[:, None] * plain.pitch
    split[..., 2] = np.minimum(count - starts, ROWS)[:, None]
    regions[:, FIRST_MOVE:] *= starts.size
    return dataclasses.replace(
        plain,
        items=np.concatenate(items),
        regions=regions,
        plane=_plane(1, base + most * line_pitch + ROW_BYTES),
        moves=split.reshape(-1, 3),
        width=k,
        move_step=step * 2,
    )


def window_layout(w: Window, rows: int, pitch: int = 0, line: int = 0) -> Layout:
    """Pixels of the region that ``rows`` rows (of the first spatial dimension) of the result of one image need.

    ``pitch``: bytes between pixels, and ``line``: pixels between lines, where they are not to be chosen here.
    """
    shifts = [np.arange(k) * d for k, d in zip(w.kernel, w.dilations, strict=True)]
    phases = [np.array(sorted(set((at % s).tolist()))) for at, s in zip(shifts, w.strides, strict=True)]
    reach = [int(at[-1]) // s for at, s in zip(shifts, w.strides, strict=True)]
    extents = [rows + reach[0], *(o + q for o, q in zip(w.outputs[1:], reach[1:], strict=True))]
    extents[-1] = line or extents[-1]
    weights = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
    pixels, planes = math.prod(extents), math.prod([p.size for p in phases])
    pitch = pitch or _pitch(-(-w.channels // DEPTH) * ROW_BYTES)

    # Which plane of pixels a tap takes, those of its phases, and which pixel of it.
    first = [
        (np.searchsorted(p, at % s) * (planes * pixels), at // s * weight)
        for at, s, p, weight in zip(shifts, w.strides, phases, weights, strict=True)
    ]
    taps, count = np.zeros(1, np.int64), 1
    for (plane, pixel), phase in zip(first, phases, strict=True):
        count *= phase.size
        taps = np.add.outer(taps, plane // count + pixel).reshape(-1)
    kofs = np.add.outer(taps * pitch, np.arange(0, w.channels, DEPTH) * 2).reshape(-1)

    starts = np.arange(0, w.outputs[0], rows)
    per_row = math.prod(w.outputs[1:])
    place = np.zeros(1, np.int64)
    for n, weight in zip((min(rows, w.outputs[0]), *w.outputs[1:]), weights, strict=True):
        place = np.add.outer(place, np.arange(n) * weight).reshape(-1)
    results = np.minimum(w.outputs[0] - starts, rows) * per_row
    places = np.concatenate([place[:n] for n in results] * w.images)
    results = np.tile(results, w.images)
    begin = np.cumsum(results) - results
    tiles = place[results - 1] // ROWS + 1
    pairs = -(-int(tiles.max()) // 2)

    items, ends = _runs(w, starts, phases, extents, weights, pixels)
    items[:, 1] *= pitch
    regions = np.zeros((results.size, REGION.count), np.int64)
    regions[1:, FIRST], regions[:, PAST] = ends[:-1], ends
    regions[:, TILES], regions[:, LENGTH], regions[:, TO] = tiles, w.channels, kofs.size
    last = int(tiles.max()) * ROWS + int(kofs.max()) // pitch + 1
    return Layout(
        items,
        regions,
        _firsts(places, begin, pairs),
        places,
        kofs,
        1,
        pitch,
        _plane(max(last, planes * pixels), pitch),
        w.strides[-1] * w.steps[-1],
        0,
        0,
        pairs,
        math.prod(w.kernel),
        w.channels,
    )


def orders(w: Window) -> list[tuple[int, ...]]:
    """Orders of the spatial dimensions, regions being cut along the first: each of them but the last, along which
    pixels lie side by side."""
    dims = range(len(w.outputs))
    return [(first, *[d for d in dims if d != first]) for first in dims[: max(1, len(dims) - 1)]]


def turned_layout(w: Window, order: Sequence[int], rows: int) -> Layout:
    """As :func:`window_layout` for regions of ``rows`` rows of the spatial dimension that comes first in ``order``:
    results come in that order, steps of the sum in B's."""
    plain = window_layout(w.turned(order), rows)
    taps = plain.kofs.reshape(*[w.kernel[i] for i in order], -1)
    kofs = taps.transpose(*np.argsort(order), len(order)).reshape(-1)
    return dataclasses.replace(plain, kofs=kofs)


def _runs(
    w: Window, starts: Table, phases: Sequence[Table], extents: Sequence[int], weights: Sequence[int], pixels: int
) -> tuple[Table, Table]:
    """The items that bring the regions whose results begin at rows ``starts`` of all images, their places as pixels,
    and the end of every region's: a run for each line of pixels of each phase that the input has."""
    first, last = 0, len(extents) - 1
    shape = (starts.size, *[p.size for p in phases], *extents[:-1])
    axes = np.ogrid[tuple([slice(n) for n in shape])]
    begin, phase, line = starts[axes[0]], axes[1 : last + 2], axes[last + 2 :]
    source = begin * (w.strides[0] * w.steps[0])
    to = np.zeros_like(source)
    there = np.ones(shape, bool)
    count = np.full_like(source, extents[-1])
    for d, (n, s, step) in enumerate(zip(w.inputs, w.strides, w.steps, strict=True)):
        offset = phases[d][phase[d]]
        source = source + offset * step
        to = to * phases[d].size + phase[d] * pixels
        left = -(-(n - offset) // s) - (begin if d == first else 0)  # pixels of the input from here on
        if d < last:
            source, there = source + line[d] * (s * step), there & (line[d] < left)
        else:
            count = np.minimum(count, left)
            there = there & (left > 0)
    for at, weight in zip(line, weights[:-1], strict=True):
        to = to + at * weight
    one = np.stack([np.broadcast_to(table, shape)[there] for table in (source, to, count)], axis=1)
    ends = np.cumsum(there.reshape(starts.size, -1).sum(axis=1))
    items = np.tile(one, (w.images, 1))
    items[:, 0] += np.repeat(np.arange(w.images) * w.image_step, len(one))
    return items, np.add.outer(np.arange(w.images) * len(one), ends).reshape(-1)
