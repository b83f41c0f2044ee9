"""Pictures with shared chroma by :mod:`MNN.backends.cpu.image.chroma`."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from MNN.backends.cpu.image.chroma import FromChromaSpec, ToChromaSpec
from MNN.cv.kernels.run import KEPT, Array, Call, address, bands, call_of, thread_count, worthwhile


class Layout(NamedTuple):
    """Where luminance and chroma are; see :class:`FromChromaSpec`. Planes of u and v (a step of 1) come one after the
    other, their places being their order."""

    luma: tuple[int, int]
    chroma: tuple[int, int, int]
    shift: int


def from_shared(image: Array, layout: Layout, order: tuple[int, ...]) -> Array | None:
    """Red, green and blue of a picture with shared chroma; None where numpy is to do it."""
    if not worthwhile(image.size):
        return None
    image = np.ascontiguousarray(image)
    height, width = image.shape[:2]
    height = height // 3 * 2 if layout.shift else height
    out = np.empty((height, width, len(order)), np.uint8)
    start = address(image)
    places = [start, start]
    if layout.shift:
        quarter = height * width // 4 if layout.chroma[2] == 1 else 0
        places = [start + height * width + place * quarter for place in layout.chroma[:2]]
    _from(height, width, layout, order, thread_count())(start, *places, address(out))
    return out


@functools.lru_cache(maxsize=KEPT)
def _from(height: int, width: int, layout: Layout, order: tuple[int, ...], _threads: int) -> Call:
    step = layout.chroma[2]
    spec = FromChromaSpec.of(layout.luma, (0, 0, 1) if step == 1 else layout.chroma, order)
    band = bands(height, height * width * len(order))
    args = {
        "luma_row": width * layout.luma[1], "chroma_row": width // 2 * step, "shift": layout.shift,
        "out_row": width * len(order), "width": width, "height": height, "band": band,
    }  # fmt: skip
    return call_of(spec, args, ("luma", "u", "v", "out"), -(-height // band), None)


def to_420(image: Array, order: tuple[int, int, int], v_first: bool) -> Array | None:
    """Planes of luminance, u and v (or v and u) of a picture; None where numpy is to do it."""
    if not worthwhile(image.size):
        return None
    image = np.ascontiguousarray(image)
    height, width = image.shape[:2]
    out = np.empty((height // 2 * 3, width, 1), np.uint8)
    luma = address(out)
    chroma = [luma + height * width, luma + height * width + height * width // 4]
    if v_first:
        chroma.reverse()
    _to(image.shape, order, thread_count())(address(image), luma, *chroma)
    return out


@functools.lru_cache(maxsize=KEPT)
def _to(shape: tuple[int, int, int], order: tuple[int, int, int], _threads: int) -> Call:
    height, width, channels = shape
    pairs = height // 2
    band = bands(pairs, height * width * channels)
    args = {"src_row": width * channels, "width": width, "pairs": pairs, "band": band}
    return call_of(ToChromaSpec.of(channels, order), args, ("src", "luma", "u", "v"), -(-pairs // band), None)


__all__ = ["Layout", "from_shared", "to_420"]
