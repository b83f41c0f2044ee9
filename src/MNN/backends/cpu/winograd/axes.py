"""Along which axes of a convolution's images tiles lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


__all__ = ["Axes", "choose_axes"]
