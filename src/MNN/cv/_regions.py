"""Connected regions, and how often values occur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_image, as_planes
from MNN.cv.kernels import histograms
from MNN.cv.kernels import regions as kernels
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


def connectedComponentsWithStats(  # noqa: N802
    image: ArrayLike, connectivity: int = 8
) -> tuple[int, Var, Var, Var]:
    """How many regions there are, the background (0) included; the region of each pixel (h, w); x, y, width, height and
    area of each (count, 5); their centres (count, 2). ``connectivity``: 4 or 8 neighbours."""
    picture = as_image(image, "image")
    if picture.ndim == 3 and picture.shape[2] != 1:
        raise ShapeError(f"connectedComponentsWithStats() takes a picture of one channel, found {picture.shape}")
    if connectivity not in (4, 8):
        raise MNNError(f"connectivity is {connectivity}; it must be 4 or 8")
    plane = picture.reshape(picture.shape[:2])
    found = kernels.labelled(plane, connectivity == 8)
    if found is not None:
        return len(found[1]), *(_wrap(part) for part in found)  # type: ignore[return-value] # three of them
    labels, count = components(plane != 0, connectivity)
    height, width = labels.shape
    flat = labels.ravel()
    y, x = np.divmod(np.arange(flat.size), width)
    area = np.bincount(flat, minlength=count)
    stats = np.zeros((count, 5), np.int32)
    for column, places, size in ((0, x, width), (1, y, height)):
        low, high = np.full(count, size), np.full(count, -1)
        np.minimum.at(low, flat, places)
        np.maximum.at(high, flat, places)
        stats[:, column], stats[:, column + 2] = low, high - low + 1
    stats[:, 4] = area
    with np.errstate(invalid="ignore"):
        centres = np.stack([np.bincount(flat, p, count) / area for p in (x, y)], 1)
    return count, _wrap(labels), _wrap(stats), _wrap(centres)


def components(filled: Array, connectivity: int) -> tuple[Array, int]:
    """Regions numbered from 1 in the order in which a scan meets them: by rows, or with eight neighbours by rows of
    squares of two by two, as OpenCV's; and their number, the background included."""
    edges = np.diff(np.pad(filled, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]  # runs of pixels: rows, first, one behind the last
    labels = np.zeros(filled.shape, np.int32)
    if not len(rows):
        return labels, 1
    reach = connectivity == 8
    width = filled.shape[1] + 2
    low = np.searchsorted(rows * width + ends, (rows - 1) * width + starts + (not reach))
    high = np.searchsorted(rows * width + starts, (rows - 1) * width + ends - (not reach), "right")
    counts = np.maximum(high - low, 0)
    below = np.repeat(np.arange(len(rows)), counts)
    above = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    parent = _joined(len(rows), below, above)
    if reach:
        places = (rows // 2) * width + starts // 2
        earliest = np.full(len(rows), places.max() + 1)
        np.minimum.at(earliest, parent, places)
        order = earliest[parent]
        number = np.unique(order, return_inverse=True)[1] + 1
    else:
        number = np.unique(parent, return_inverse=True)[1] + 1
    marks = np.zeros((filled.shape[0], filled.shape[1] + 1), np.int32)
    np.add.at(marks, (rows, starts), number)
    np.add.at(marks, (rows, ends), -number)
    return np.cumsum(marks, 1, dtype=np.int32)[:, :-1], int(number.max()) + 1


def _joined(count: int, a: Array, b: Array) -> Array:
    """The smallest member of each one's group, where ``a[i]`` and ``b[i]`` are in one group: smaller numbers spread
    along pairs, and paths are halved, until nothing changes."""
    parent = np.arange(count)
    while True:
        low = np.minimum(parent[a], parent[b])
        before = parent.copy()
        np.minimum.at(parent, parent[a], low)
        np.minimum.at(parent, parent[b], low)
        np.minimum.at(parent, a, low)
        np.minimum.at(parent, b, low)
        parent = parent[parent]
        if (parent == before).all():
            return parent


def calcHist(  # noqa: N802
    imgs: Sequence[ArrayLike], channels: Sequence[int], mask: ArrayLike | None, histSize: Sequence[int],
    ranges: Sequence[float], accumulate: bool = False,
) -> Var:  # fmt: skip
    """How many pixels have each value: float32 of the sizes ``histSize``, one axis per channel. ``channels`` count
    through all pictures; ``ranges`` hold the lowest value and the one above the highest for each. ``accumulate`` is
    refused: no counts are given that could be added to."""
    if accumulate:
        raise MNNError("calcHist(): accumulate has no counts to add to; add up the histograms")
    planes = [as_planes(img, "imgs") for img in imgs]
    if len({p.shape[:2] for p in planes}) != 1:
        raise ShapeError(f"the pictures must have one size; they have {[p.shape[:2] for p in planes]}")
    stacked: Any = [plane[:, :, i] for plane in planes for i in range(plane.shape[2])]
    sizes, ends = [int(n) for n in histSize], [float(np.float32(n)) for n in ranges]  # as OpenCV
    if len(sizes) != len(channels) or len(ends) != 2 * len(sizes) or any(not 0 <= c < len(stacked) for c in channels):
        raise MNNError(f"calcHist(): channels {channels} of {len(stacked)}, histSize {histSize} and ranges {ranges} do "
                       "not fit")  # fmt: skip
    chosen_planes = [stacked[channel] for channel in channels]
    plane = None if mask is None else as_planes(mask, "mask")[:, :, 0]
    if plane is not None and plane.shape != planes[0].shape[:2]:
        raise ShapeError(f"mask has shape {plane.shape}; one for such pictures has {planes[0].shape[:2]}")
    counts = histograms.counted(chosen_planes, sizes, ends, plane) if channels else None
    if counts is not None:
        return _wrap(counts.astype(np.float32))
    keep = None if plane is None else plane != 0
    place, weights = np.zeros(1, np.int64), None
    if len(channels) == 1 and stacked[channels[0]].dtype == np.uint8:  # the values are counted, then put in place
        given = stacked[channels[0]]
        weights = np.bincount((given if keep is None else given[keep]).ravel(), minlength=256)
        stacked, channels, keep = [np.arange(256, dtype=np.uint8)], [0], None
    for channel, size, low, high in zip(channels, sizes, ends[::2], ends[1::2], strict=True):
        values = stacked[channel].astype(np.float64)
        scale, shift = histograms.spread(size, low, high)
        index = np.floor(values * scale + shift).astype(np.int64)
        counted = (values >= low) & (values < high) & (index >= 0) & (index < size)
        keep = counted if keep is None else keep & counted
        place = place * size + np.clip(index, 0, size - 1)
    chosen = None if weights is None else weights[keep]
    found = np.bincount(place[keep], chosen, int(np.prod(sizes)))
    return _wrap(found.reshape(sizes).astype(np.float32))
