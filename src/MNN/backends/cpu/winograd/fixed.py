"""Winograd's method in fixed point, for networks in bf16: products of 16-bit integers at twice the rate of f32.

Rounded to bf16, what Winograd's transforms give would lose more than plain products of bf16 do: four times their error
with F(4x4, 3x3). Sixteen bits of fixed point hold seven bits more. The transformed inputs of a tile share a scale, from
the largest input that the tile has (:func:`largest`), so that none overflows; the transformed weights have one for
every position, output channel and partial sum of :data:`CHUNK` channels, so that no sum of 32 bits can overflow,
whatever the inputs are. Sums become f32 between the partial sums. Channels of the input are weighed by their largest
weight first, so that rounding follows what counts for the result. With normal numbers behind a ReLU, the root mean
square of the error relative to the results' is 0.0013 for F(4x4, 3x3), where plain products of bf16 have 0.0017 from
their weights alone.

A tile that holds an infinity or a NaN gives NaN everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.winograd.points import Filtering

CHUNK = 64
"""Channels of a partial sum: more would leave the weights fewer bits."""
GROUP = 8
"""Channels that are put in the order of :data:`ORDER` together; their number must be a multiple of it."""
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Neighbours at even places come first, as joining two vectors within their 128 bits leaves them (VPACKSSDW)."""
WIDTH = 32
"""Channels of a vector."""
_LARGEST = 32767
_MOST = 32700.0
"""Largest transformed input in fixed point, with room for the rounding of the transform."""
_SUM = 65000.0
"""The sum of a partial sum's weights: times the largest input below 2^31, with room for their rounding."""
_LINE = 64


def applies(target: Target, c: int) -> bool:
    """Whether the processor has these products, and the inputs have a number of channels that the kernel takes."""
    has = target.vector_bytes == 64 and target.can(can.DOT2_I16) and not target.can(can.TILE_DOT_BF16)
    return has and c % GROUP == 0


Filterings = tuple[Filtering, Filtering]
"""Down and across."""


def largest(filterings: Filterings) -> float:
    """The most by which the inputs' transform may enlarge the largest of them."""
    return math.prod(max(float(sum(map(abs, row))) for row in f.bt) for f in filterings)


def scale_of(filterings: Filterings) -> float:
    """What a transformed input is multiplied by, times the largest input."""
    return _MOST / largest(filterings)


@dataclass(frozen=True)
class FixedLayout:
    """Where the parts of a layer's weights lie in one piece of memory, in bytes: first U, i16
    ``[positions][panels][c / 2][nr][2]``, then the sums' scales, f32 ``[positions][panels][chunks][nr]``, and the
    channels' factors, f32 ``[ceil(c / 32)][2][16]``, even channels before odd ones."""

    filterings: Filterings
    c: int
    n: int
    nr: int

    @property
    def positions(self) -> int:
        """With different weights."""
        return math.prod(f.factors for f in self.filterings)

    @property
    def panels(self) -> int:
        return -(-self.n // self.nr)

    @property
    def chunks(self) -> int:
        return -(-self.c // CHUNK)

    @property
    def scales(self) -> int:
        return _lines(2 * self.positions * self.panels * self.c * self.nr)

    @property
    def factors(self) -> int:
        return self.scales + _lines(4 * self.positions * self.panels * self.chunks * self.nr)

    @property
    def nbytes(self) -> int:
        return self.factors + 4 * -(-self.c // WIDTH) * WIDTH


def _lines(nbytes: int) -> int:
    return -(-nbytes // _LINE) * _LINE


def largest_weights(w: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """The largest of every channel of weights ``[..., N, C, rh, rw]``."""
    return np.asarray(np.abs(np.moveaxis(w, -3, 0)).reshape(w.shape[-3], -1).max(1, initial=0), np.float32)


def pack_fixed(
    w: npt.NDArray[np.generic],
    layout: FixedLayout,
    out: npt.NDArray[np.uint8],
    most: npt.NDArray[np.float32] | None = None,
) -> None:
    """Fills ``out`` from weights ``[N, C, rh, rw]`` (finite numbers). ``most``: :func:`largest_weights` of what they
    are one tap of, if not of themselves."""
    n, c, rh, rw = w.shape
    panels, chunks, nr = layout.panels, layout.chunks, layout.nr
    most = largest_weights(w) if most is None else most
    tiny = np.float32(most.max(initial=0) * 2.0**-40)
    used = most > tiny
    factors = np.where(used, most, 0).astype(np.float32)
    even = np.zeros(-(-c // WIDTH) * WIDTH, np.float32)
    even[:c] = factors
    out[layout.factors : layout.nbytes].view(np.float32)[:] = even.reshape(-1, WIDTH // 2, 2).transpose(0, 2, 1).ravel()
    equal = (
        np.asarray(w, np.float32)
        * np.where(used, 1 / np.where(used, most, 1), 0).astype(np.float32)[None, :, None, None]
    )
    order = (np.arange(0, c, GROUP)[:, None] + np.array(ORDER)).reshape(-1)
    taps = np.ascontiguousarray(equal[:, order].reshape(n, c, rh * rw).transpose(2, 0, 1)).reshape(rh * rw, n * c)
    g_h, g_w = (np.array(f.g[: f.factors], np.float64) for f in layout.filterings)
    rows = np.kron(g_h, g_w).astype(np.float32)
    size = 2 * panels * c * nr
    scales = out[layout.scales : layout.factors].view(np.float32)[: layout.positions * panels * chunks * nr]
    by_panel = scales.reshape(layout.positions, panels, chunks, nr)
    padded = np.zeros((panels * nr, c), np.int16)
    starts = np.arange(0, c, CHUNK)
    step = np.zeros((chunks, panels * nr), np.float32)
    for position, row in enumerate(rows):
        u = (row @ taps).reshape(n, c)
        size_of = np.abs(u)
        sums = np.add.reduceat(size_of, starts, axis=1)
        tops = np.maximum.reduceat(size_of, starts, axis=1)
        limit = np.minimum(_SUM / np.maximum(sums, 1e-30), _LARGEST / np.maximum(tops, 1e-30)).astype(np.float32)
        padded[:n] = np.rint(u * np.repeat(limit, CHUNK, axis=1)[:, :c])
        step[:, :n] = (1 / limit).T
        by_panel[position] = step.reshape(chunks, panels, nr).transpose(1, 0, 2)
        pairs = padded.reshape(panels, nr, c // 2, 2).transpose(0, 2, 1, 3)
        out[position * size : (position + 1) * size].view(np.int16).reshape(pairs.shape)[:] = pairs


__all__ = [
    "CHUNK",
    "GROUP",
    "ORDER",
    "WIDTH",
    "FixedLayout",
    "applies",
    "largest",
    "largest_weights",
    "pack_fixed",
    "scale_of",
]
