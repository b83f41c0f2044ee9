"""Pictures as inputs of models by :mod:`MNN.backends.cpu.image.preprocess`."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from MNN.backends.cpu.image.preprocess import LUMINANCE, NOTHING, OPAQUE, Chroma, PreprocessSpec, Wrap
from MNN.backends.cpu.image.sample import Interpolation
from MNN.cv.kernels.run import KEPT, Array, Call, address, bands, call_of, thread_count, worthwhile
from MNN.ir.dtype import DType

_TYPES = {np.dtype(np.float32): DType.F32, np.dtype(np.uint8): DType.U8}
_MOST = 1 << 31
"""Bytes of a picture beyond which places are not of 32 bits."""
_BESIDE, _PLANES = 4, 8
"""The most channels of a result, beside each other or in planes, that kernels are made for."""
_HOW = (Interpolation.NEAREST, Interpolation.LINEAR, Interpolation.CUBIC)
_WRAPS = (Wrap.EDGE, Wrap.NUMBER, Wrap.REPEAT)


class Source(NamedTuple):
    """A picture in memory: ``channels`` (``RGBA``; ``YUV``: see ``chroma``), ``stride`` bytes from one row to the next,
    colours of half the size from byte ``start`` on, ``chroma_stride`` from one of their rows to the next."""

    channels: str
    width: int
    height: int
    stride: int
    chroma: Chroma = Chroma.NONE
    start: int = 0
    chroma_stride: int = 0


class Way(NamedTuple):
    """How pixels are sampled, ``CV_Filter_*`` and ``CV_Wrap_*``, and the channels that they become (``BGR``)."""

    filter: int
    wrap: int
    target: str


def scales(mean: Array, normal: Array) -> tuple[Array, Array]:
    """Means and what is multiplied with as :func:`prepared` takes them, as many as there may be channels."""
    means, normals = np.zeros(_PLANES, np.float32), np.ones(_PLANES, np.float32)
    means[: mean.size], normals[: normal.size] = mean, normal
    return means, normals


def prepared(
    data: Array, source: Source, way: Way, matrix: Array, padding: int, scaling: tuple[Array, Array], out: Array,
    planar: bool,
) -> bool:  # fmt: skip
    """Fills ``out``, (height, width, channels) or with ``planar`` (channels, height, width), from the bytes ``data``;
    ``scaling``: see :func:`scales`. False where numpy is to do it."""
    kind = _TYPES.get(out.dtype)
    count = out.shape[0] if planar else out.shape[2]
    affine = matrix[2].tolist() == [0, 0, 1]
    if kind is None or not affine or not out.flags.c_contiguous or not out.flags.writeable:
        return False
    if count > (_PLANES if planar else _BESIDE) or data.size >= _MOST or not worthwhile(out.size):
        return False
    if source.channels in ("RGB", "BGR") and source.stride * (source.height - 1) + source.width * 3 < 4:
        return False
    call = _prepare(source, way, out.shape, kind, planar, thread_count())
    data = np.ascontiguousarray(data)
    first = address(data)
    numbers = matrix.ravel()[:6].astype(np.float64).view(np.int64).tolist()
    halves = source.chroma_stride * ((source.height + 1) // 2)
    call(
        first,
        first + source.start,
        first + source.start + halves,
        address(out),
        padding,
        *map(address, scaling),
        *numbers,
    )
    return True


@functools.lru_cache(maxsize=KEPT)
def _prepare(source: Source, way: Way, shape: tuple[int, int, int], kind: DType, planar: bool, _threads: int) -> Call:
    names = "RGB" if source.chroma is not Chroma.NONE else source.channels
    pixel = 1 if source.chroma is not Chroma.NONE else len(names)
    channels, height, width = shape if planar else (shape[2], shape[0], shape[1])
    order = [_place(c, names, way.target) for c in way.target]
    rgb = tuple(names.index(c) for c in "RGB") if "R" in names else (0, 0, 0)
    spec = PreprocessSpec.of(
        pixel, source.chroma, _HOW[way.filter if source.chroma is Chroma.NONE else 0], _WRAPS[way.wrap],
        (*order, *[NOTHING] * (channels - len(order))), rgb, kind, planar,
    )  # fmt: skip
    band = bands(height, height * width * channels * 4)
    args = {
        "src_row": source.stride, "src_width": source.width, "src_height": source.height,
        "last": source.stride * (source.height - 1) + source.width * pixel - 4, "chroma_row": source.chroma_stride,
        "out_row": width if planar else width * channels, "out_channel": height * width, "width": width,
        "height": height, "band": band,
    }  # fmt: skip
    moving = ("src", "chroma", "chroma_v", "out", "number", "mean", "normal", *(f"m{i}" for i in range(6)))
    return call_of(spec, args, moving, -(-height // band), None)


def _place(channel: str, source: str, target: str) -> int:
    """Where a channel of the result comes from."""
    if target == "Y":
        return 0 if source == "Y" else LUMINANCE
    if source == "Y" and channel != "A":
        return 0
    return source.index(channel) if channel in source else OPAQUE


__all__ = ["Source", "Way", "prepared", "scales"]
