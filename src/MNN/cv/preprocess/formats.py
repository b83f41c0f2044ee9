"""Formats of pictures in memory, and how pixels of one become pixels of another."""

from __future__ import annotations

import numpy as np

from MNN.backends.cpu.image.preprocess import Chroma
from MNN.cv.kernels.preparing import Source
from MNN.cv.preprocess.matrix import Array
from MNN.errors import MNNError

CV_ImageFormat_RGBA, CV_ImageFormat_RGB, CV_ImageFormat_BGR = 0, 1, 2
CV_ImageFormat_GRAY, CV_ImageFormat_BGRA = 3, 4
CV_ImageFormat_YUV_NV21, CV_ImageFormat_YUV_NV12, CV_ImageFormat_YUV_I420 = 11, 12, 13

CHANNELS = {
    CV_ImageFormat_RGBA: "RGBA",
    CV_ImageFormat_RGB: "RGB",
    CV_ImageFormat_BGR: "BGR",
    CV_ImageFormat_GRAY: "Y",
    CV_ImageFormat_BGRA: "BGRA",
}
"""What the channels of a format are, in order."""
YUV = (CV_ImageFormat_YUV_NV21, CV_ImageFormat_YUV_NV12, CV_ImageFormat_YUV_I420)
"""Formats with a plane of luminance and colours at half the size."""

_CHROMA = {
    CV_ImageFormat_YUV_NV21: Chroma.VU,
    CV_ImageFormat_YUV_NV12: Chroma.UV,
    CV_ImageFormat_YUV_I420: Chroma.PLANES,
}


def source(width: int, height: int, stride: int, form: int) -> Source | None:
    """A picture in memory as kernels read it; None where a row is longer than ``stride``."""
    if form in CHANNELS:
        row = width * len(CHANNELS[form])
        return Source(CHANNELS[form], width, height, stride or row) if not 0 < stride < row else None
    step = stride or width
    half = (step + 1) // 2
    if step < width:
        return None
    apart = half if form == CV_ImageFormat_YUV_I420 else 2 * half
    return Source("YUV", width, height, step, _CHROMA[form], step * height, apart)


def planes(data: Array, width: int, height: int, stride: int, form: int) -> list[Array]:
    """The planes (h, w, channels) of a picture in memory: one, or luminance and (u, v) at half the size.

    ``stride`` bytes lie between rows, 0 for rows without gaps. Raises :class:`MNNError` for too few bytes."""
    if form in CHANNELS:
        pixel = len(CHANNELS[form])
        step = stride or width * pixel
        if step < width * pixel:
            raise MNNError(f"a row of {width} pixels has {width * pixel} bytes, and the stride is {stride}")
        rows = _rows(data, 0, height, step, width * pixel)
        return [rows.reshape(height, width, pixel)]
    if form not in YUV:
        raise MNNError(f"sourceFormat is {form}; it must be one of MNN.CV_ImageFormat_*")
    step = stride or width
    if step < width:
        raise MNNError(f"a row of {width} pixels has {width} bytes, and the stride is {stride}")
    luma = _rows(data, 0, height, step, width).reshape(height, width, 1)
    half_height, half_width = (height + 1) // 2, (width + 1) // 2
    start = step * height
    if form == CV_ImageFormat_YUV_I420:
        half = (step + 1) // 2
        parts = [_rows(data, start + i * half * half_height, half_height, half, half_width) for i in range(2)]
        return [luma, np.stack(parts, 2)]
    pairs = _rows(data, start, half_height, 2 * ((step + 1) // 2), 2 * half_width)
    colours = pairs.reshape(half_height, half_width, 2)
    return [luma, colours[:, :, ::-1] if form == CV_ImageFormat_YUV_NV21 else colours]


def size_of(width: int, height: int, stride: int, form: int) -> int:
    """How many bytes a picture has in memory, the gap after the last row not counted."""
    if form in CHANNELS:
        row = width * len(CHANNELS[form])
        return (stride or row) * (height - 1) + row
    step = stride or width
    return step * height + 2 * ((step + 1) // 2) * ((height + 1) // 2)


def _rows(data: Array, start: int, count: int, step: int, used: int) -> Array:
    end = start + step * (count - 1) + used
    if end > data.size:
        raise MNNError(f"the picture needs {end} bytes, and there are {data.size}")
    wide = np.zeros(step * count, np.uint8)
    have = data[start : start + step * count]
    wide[: have.size] = have
    return np.asarray(wide.reshape(count, step)[:, :used])


def from_yuv(luma: Array, colours: Array) -> Array:
    """Red, green and blue of full-range YUV, in the official engine's 64ths."""
    y = luma[..., 0].astype(np.int32) << 6
    u, v = (colours[..., i].astype(np.int32) - 128 for i in range(2))
    rgb = np.stack([y + 73 * v, y - 25 * u - 37 * v, y + 130 * u], -1) >> 6
    return np.asarray(np.clip(rgb, 0, 255).astype(np.uint8))


def reordered(pixels: Array, source: str, target: str) -> Array:
    """Channels of ``source`` as those of ``target``: luminance by the official engine's 64ths, alpha 255 if new."""
    if source == target:
        return pixels
    if target == "Y":
        red, green, blue = (pixels[..., source.index(c)].astype(np.int32) for c in "RGB")
        return ((19 * red + 38 * green + 7 * blue) >> 6).astype(np.uint8)[..., None]
    found = np.full((*pixels.shape[:-1], len(target)), 255, np.uint8)
    for i, channel in enumerate(target):
        if source == "Y" and channel != "A":
            found[..., i] = pixels[..., 0]
        elif channel in source:
            found[..., i] = pixels[..., source.index(channel)]
    return found
