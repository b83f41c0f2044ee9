"""Pictures whose chroma is shared by two pixels of a row, or four of two rows; uint8 all of them."""

from __future__ import annotations

import numpy as np

from MNN.backends.cpu.image.chroma import DARK, FROM_CHROMA, LUMA, MIDDLE, SHIFT, TO_YUV
from MNN.cv._array import Array
from MNN.cv.kernels import chroma as kernels
from MNN.cv.kernels.chroma import Layout
from MNN.errors import ShapeError

_HALF = 1 << (SHIFT - 1)


def layout_of(name: str) -> Layout:
    """Where luminance, u and v are: ``nv12``, ``nv21``, ``i420`` or ``yv12`` (four pixels of two rows share chroma), or
    the order of the bytes of two pixels, such as ``uyvy``."""
    if name in ("nv12", "nv21"):
        return Layout((0, 1), (0, 1, 2) if name == "nv12" else (1, 0, 2), 1)
    if name in ("i420", "yv12"):
        return Layout((0, 1), (0, 1, 1) if name == "i420" else (1, 0, 1), 1)
    return Layout((name.index("y"), 2), (name.index("u"), name.index("v"), 4), 0)


def from_shared(image: Array, layout: Layout, order: tuple[int, ...]) -> Array:
    """Red, green and blue (0, 1, 2 in ``order``; -1 is an opaque alpha) of such a picture: (h * 3 / 2, w, 1), or (h, w,
    2) where rows have chroma of their own."""
    _check(image, layout)
    found = kernels.from_shared(image, layout, order)
    if found is not None:
        return found
    y, u, v = (plane.astype(np.int32) for plane in _split(image, layout))
    y, u, v = np.maximum(y - DARK, 0) * LUMA + _HALF, u - MIDDLE, v - MIDDLE
    channels = [np.clip((y + a * u + b * v) >> SHIFT, 0, 255) for a, b in FROM_CHROMA]
    channels.append(np.full_like(y, 255))
    return np.stack([channels[c] for c in order], 2).astype(np.uint8)


def luma(image: Array, layout: Layout) -> Array:
    """Luminance of such a picture, (h, w, 1)."""
    _check(image, layout)
    if layout.shift:
        return np.array(image[: image.shape[0] // 3 * 2])  # no view of what the caller may change
    first = layout.luma[0]
    return image[:, :, first : first + 1]


def to_420(image: Array, order: tuple[int, int, int], layout: str) -> Array:
    """Planes of luminance and, of the upper left pixel of every 2 x 2, u and v (``i420``) or v and u (``yv12``): shape
    (h * 3 / 2, w, 1). ``order`` says which channels are red, green and blue."""
    height, width = image.shape[:2]
    if height % 2 or width % 2 or image.dtype != np.uint8:
        raise ShapeError(
            f"a picture that becomes 4:2:0 is uint8 and has even sizes; src is {image.shape}, {image.dtype}"
        )
    found = kernels.to_420(image, order, layout == "yv12")
    if found is not None:
        return found
    rgb = image[:, :, list(order)].astype(np.int32)

    def plane(values: Array, weights: tuple[int, ...], offset: int) -> Array:
        found = (values @ np.array(weights) + _HALF + (offset << SHIFT)) >> SHIFT
        flat: Array = np.clip(found, 0, 255).astype(np.uint8).ravel()
        return flat

    brightness = plane(rgb, TO_YUV[0], DARK)
    colours = [plane(rgb[::2, ::2], weights, MIDDLE) for weights in TO_YUV[1:]]
    planes = [brightness, *(colours if layout == "i420" else colours[::-1])]
    return np.concatenate(planes).reshape(height // 2 * 3, width, 1)


def _check(image: Array, layout: Layout) -> None:
    rows, width = image.shape[:2]
    if layout.shift and (rows % 3 or width % 2 or image.dtype != np.uint8):
        raise ShapeError(f"a 4:2:0 picture is uint8 of shape (h * 3 / 2, w), even; src is {image.shape}, {image.dtype}")
    if not layout.shift and (width % 2 or image.dtype != np.uint8):
        raise ShapeError(f"a 4:2:2 picture is uint8 and has an even width; src is {image.shape}, {image.dtype}")


def _split(image: Array, layout: Layout) -> tuple[Array, Array, Array]:
    """Y, U and V at full size."""
    *places, step = layout.chroma
    if not layout.shift:
        pairs = image.reshape(image.shape[0], -1, step)
        u, v = (np.repeat(pairs[:, :, place], 2, 1) for place in places)
        return image[:, :, layout.luma[0]], u, v
    rows, width = image.shape[:2]
    height = rows // 3 * 2
    chroma = image[height:].reshape(-1)
    shape = (height // 2, width // 2, 2) if step == 2 else (2, height // 2, width // 2)
    planes = np.moveaxis(chroma.reshape(shape), 2, 0) if step == 2 else chroma.reshape(shape)
    u, v = (np.repeat(np.repeat(planes[place], 2, 0), 2, 1) for place in places)
    return image[:height, :, 0], u, v


__all__ = ["from_shared", "layout_of", "luma", "to_420"]
