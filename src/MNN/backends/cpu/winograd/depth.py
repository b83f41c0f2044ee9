"""Windows with taps along a third axis: which slices of the input a tile takes, and in which order they lie.

All results of a tile along the axis read neighbouring slices for a tap, so that rows of products are even whatever the
stride and the dilation are: slices that a stride sets apart lie in runs of their own, those of the same remainder.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class DepthTile:
    """``slices[place]`` is the slice of the input that lies at a place, counted from the tile's first along the axis;
    ``taps[k]`` is the place of the slice that tap ``k`` takes for the first result; the next results take the next
    places."""

    slices: tuple[int, ...]
    taps: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def depth_tile(results: int, taps: int, stride: int, dilation: int) -> DepthTile:
    """For a tile of so many ``results`` along the axis."""
    starts = [divmod(k * dilation, stride) for k in range(taps)]
    slices: list[int] = []
    places: dict[tuple[int, int], int] = {}
    for phase in sorted({phase for _, phase in starts}):
        run = sorted({at + z for at, own in starts if own == phase for z in range(results)})
        places |= {(at, phase): len(slices) + i for i, at in enumerate(run)}
        slices += [at * stride + phase for at in run]
    return DepthTile(tuple(slices), tuple([places[start] for start in starts]))


def depths_to_try(results: int) -> tuple[int, ...]:
    """Results of a tile along the axis that are worth a look: nearly equal parts of all."""
    return tuple(sorted({-(-results // parts) for parts in (1, 2, 3, 4, 6, 8, 16, 32)}))


__all__ = ["DepthTile", "depth_tile", "depths_to_try"]
