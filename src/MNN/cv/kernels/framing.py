"""Borders by :mod:`MNN.backends.cpu.image.frame`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from MNN.backends.cpu.image.frame import FrameSpec
from MNN.cv.kernels.run import KEPT, Array, Call, address, bands, call_of, thread_count, worthwhile

_PIXEL = 32
"""Bytes of a pixel that kernels are made for."""
Edges = tuple[int, int, int, int]
"""Pixels above, below, to the left and to the right."""
Inside = Callable[[Array, int], Array]
"""Positions brought inside of a length; -1 for none."""


def framed(image: Array, edges: Edges, inside: Inside, blank: Array | None) -> Array | None:
    """A picture with a border: of its own pixels, or of the pixel ``blank``. None where numpy is to do it."""
    height, width = image.shape[:2]
    pixel = image.itemsize * (image.shape[2] if image.ndim == 3 else 1)
    if not worthwhile(image.size) or pixel > _PIXEL:
        return None
    call = _frame(height, width, pixel, edges, inside, blank is not None, thread_count())
    image = np.ascontiguousarray(image)
    out = np.empty((edges[0] + height + edges[1], edges[2] + width + edges[3], *image.shape[2:]), image.dtype)
    row = np.empty((width, *image.shape[2:]), image.dtype) if blank is not None else image
    if blank is not None:
        row[:] = blank
    call(image, row, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _frame(height: int, width: int, pixel: int, edges: Edges, inside: Inside, foreign: bool, _threads: int) -> Call:
    top, bottom, left, right = edges
    rows = inside(np.arange(-top, height + bottom), height).astype(np.int32)
    columns = np.concatenate([np.arange(-left, 0), np.arange(width, width + right)])
    places = (np.maximum(inside(columns, width), 0) * pixel).astype(np.int32)
    places = np.append(places, np.int32(0))  # somewhere, where there are none
    total = top + height + bottom
    band = bands(total, total * (left + width + right) * pixel // 4)
    args = {
        "src_row": width * pixel, "foreign": int(foreign), "left": left, "right": right, "height": total, "band": band,
        "y_places": address(rows), "x_places": address(places),
    }  # fmt: skip
    return call_of(FrameSpec.of(pixel), args, ("src", "blank", "out"), -(-total // band), (rows, places))


__all__ = ["framed"]
