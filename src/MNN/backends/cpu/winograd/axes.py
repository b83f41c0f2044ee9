"""Along which axes of a convolution's images tiles lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from MNN.backends.base.program import Place
from MNN.ir.prims import Conv
from MNN.ir.traced import OpenSize

MOST_AXES = 3
"""Axes that windows may have several taps along."""


@dataclass(frozen=True)
class Axes:
    """Spatial axes: tiles lie along ``row`` (None: images are lines) and ``column``; windows have taps along ``depth``,
    if any, which are summed between the transforms; along ``others`` they have one tap, and what lies there are images
    of their own."""

    row: int | None
    column: int
    depth: int | None
    others: tuple[int, ...]

    def plane(self, numbers: Sequence[int], line: int) -> tuple[int, int]:
        """Down and across, of one number for each axis; ``line`` stands for rows of lines."""
        return line if self.row is None else numbers[self.row], numbers[self.column]

    def along_depth(self, numbers: Sequence[int], none: int) -> int:
        return none if self.depth is None else numbers[self.depth]

    def filters(self, w: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Weights ``[N, C, kernel...]`` as ``[taps along depth, N, C, rh, rw]``, a view."""
        spatial = [axis + 2 for axis in (self.depth, self.row, self.column) if axis is not None]
        flat = w.transpose(0, 1, *spatial, *(a + 2 for a in self.others))
        n, c = w.shape[:2]
        kernel = w.shape[2:]
        rh, rw = self.plane(kernel, 1)
        return np.moveaxis(flat.reshape(n, c, self.along_depth(kernel, 1), rh, rw), 2, 0)


@dataclass(frozen=True)
class Phases:
    """Results of a dilated convolution between which lie as many others as between its taps: what they read has no
    dilation, and nothing of what others read. Along each axis as many of these begin one behind the other as
    ``dilations`` says; ``counts`` of them, from the ``first`` on, have ``sizes`` results each. They are images of their
    own, along further axes behind those of the convolution."""

    dilations: tuple[int, ...]
    first: tuple[int, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]

    def axes(self, axes: Axes) -> Axes:
        rank = len(self.sizes)
        return replace(axes, others=(*axes.others, *range(rank, 2 * rank)))

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:2], *self.sizes, *self.counts)

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """``strides`` of the dimensions ``[N, C, spatial...]`` of a tensor."""
        spatial = strides[2:]
        return (*strides[:2], *(s * d for s, d in zip(spatial, self.dilations, strict=True)), *spatial)

    def place(self, place: Place, strides: Sequence[int]) -> Place:
        """Where the first of them begin."""
        return place._replace(offset=place.offset + sum(f * s for f, s in zip(self.first, strides[2:], strict=True)))


def dilations_apart(prim: Conv, axes: Axes) -> tuple[int, ...] | None:
    """How far taps lie apart along the axes, but for that of :attr:`Axes.depth`; None where windows there move by more
    than 1 as well, or the results are of open sizes."""
    taps, sizes = prim.inputs[1].shape[2:], prim.outputs[0].shape[2:]
    found = [d if n > 1 and a != axes.depth else 1 for a, (d, n) in enumerate(zip(prim.dilations, taps, strict=True))]
    for dilation, stride, size in zip(found, prim.strides, sizes, strict=True):
        if dilation > 1 and (stride > 1 or isinstance(size, OpenSize)):
            return None
    return tuple(found)


def phases(sizes: Sequence[int], dilations: Sequence[int]) -> Iterator[Phases]:
    """Those of so many results: of one length together."""

    def along(size: int, dilation: int) -> list[tuple[int, int, int]]:
        short, longer = divmod(size, dilation)
        parts = (0, longer, short + 1), (longer, dilation - longer, short)
        return [part for part in parts if part[1] and part[2]]

    for chosen in itertools.product(*map(along, sizes, dilations)):
        first, counts, each = zip(*chosen, strict=True)
        yield Phases(tuple(dilations), first, counts, each)


def choose_axes(kernel: Sequence[int]) -> Axes | None:
    """For windows of these extents; None where they have taps along more axes than tiles can have."""
    several = [axis for axis, taps in enumerate(kernel) if taps > 1]
    if len(several) > MOST_AXES:
        return None
    depth = several[0] if len(several) == MOST_AXES else None
    left = [axis for axis in range(len(kernel)) if axis != depth]
    # The innermost axes, unless windows have taps elsewhere.
    plane = sorted(sorted(left, key=lambda axis: (kernel[axis] > 1, axis))[-2:])
    others = tuple([axis for axis in left if axis not in plane])
    return Axes(plane[0] if len(plane) > 1 else None, plane[-1], depth, others)


__all__ = ["Axes", "Phases", "choose_axes", "dilations_apart", "phases"]
