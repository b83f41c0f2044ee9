# ruff: noqa: N802 - the names are PyMNN's
"""Pictures in memory as the inputs of a model: sampled under a matrix, converted, scaled."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.cv._warp import _matrix
from MNN.cv.kernels import preparing as kernels
from MNN.cv.kernels.taps import cubic
from MNN.cv.preprocess import formats
from MNN.cv.preprocess.matrix import Array, CVMatrix
from MNN.errors import MNNError, ShapeError
from MNN.expr import memory
from MNN.expr.var import Var
from MNN.tensor import HalideType, Tensor, Tensor_DimensionType_Tensorflow

CV_Filter_NEAREST, CV_Filter_BILINEAL, CV_Filter_BICUBIC = 0, 1, 2
CV_Wrap_CLAMP_TO_EDGE, CV_Wrap_ZERO, CV_Wrap_REPEAT = 0, 1, 2

_FAR = float(1 << 29)
"""Places beyond are taken to be as far away."""


class CVImageProcess:
    """Samples a uint8 picture under a matrix, converts its format, and in float tensors gives ``(pixel - mean) *
    normal``.

    ``config`` may hold ``filterType`` (``CV_Filter_*``, nearest), ``sourceFormat`` and ``destFormat``
    (``CV_ImageFormat_*``, RGBA), ``wrap`` (``CV_Wrap_*``, edge), ``mean`` and ``normal`` (up to four numbers, 0 and 1).
    Raises :class:`MNNError` for others."""

    def __init__(self, config: Mapping[str, Any], destination: Tensor | None = None) -> None:
        if not isinstance(config, Mapping):
            raise MNNError(f"CVImageProcess() takes a dictionary of settings, found {type(config).__name__}")
        known = {"filterType": 0, "sourceFormat": 0, "destFormat": 0, "wrap": 0, "mean": (0.0,) * 4,
                 "normal": (1.0,) * 4}  # fmt: skip
        if strange := set(config) - set(known):
            raise MNNError(f"config holds {', '.join(sorted(map(str, strange)))}; it may hold {', '.join(known)}")
        given = {**known, **config}
        self._filter, self._wrap = (_whole(given[name], name) for name in ("filterType", "wrap"))
        self._source, self._target = (_whole(given[name], name) for name in ("sourceFormat", "destFormat"))
        if self._filter not in (0, 1, 2) or self._wrap not in (0, 1, 2):
            raise MNNError(f"filterType is {self._filter} and wrap {self._wrap}; use MNN.CV_Filter_* and MNN.CV_Wrap_*")
        if self._source not in (*formats.CHANNELS, *formats.YUV) or self._target not in formats.CHANNELS:
            raise MNNError(f"sourceFormat is {self._source} and destFormat {self._target}; use MNN.CV_ImageFormat_*, "
                           "where YUV is a source alone")  # fmt: skip
        self._mean, self._normal = (_four(given[name], name) for name in ("mean", "normal"))
        self._scales = kernels.scales(self._mean, self._normal)
        self._matrix: Array = np.eye(3)
        self._padding = 0

    def setMatrix(self, matrix: CVMatrix) -> None:
        """The matrix that maps pixels of the result to the source."""
        self._matrix = _matrix(np.asarray(matrix), "matrix")

    def setPadding(self, value: int) -> None:
        """What lies outside of the source with ``CV_Wrap_ZERO``."""
        self._padding = min(max(_whole(value, "the padding"), 0), 255)

    def convert(self, src: Any, iw: int, ih: int, stride: int, dst: Tensor) -> int:
        """Fills ``dst`` from a picture of (iw, ih) pixels: an address, a capsule, numbers, bytes, an array or a Var.

        ``stride`` bytes lie between rows, 0 for rows without gaps. Gives 0, as PyMNN where it went well. Raises
        :class:`MNNError` for too few bytes and for tensors of other sizes."""
        if not isinstance(dst, Tensor):
            raise MNNError(f"convert() fills a Tensor, found {type(dst).__name__}")
        iw, ih, stride = _whole(iw, "iw"), _whole(ih, "ih"), _whole(stride, "stride")
        if iw < 1 or ih < 1 or stride < 0:
            raise MNNError(f"the picture is {iw} x {ih} with a stride of {stride}")
        data = _bytes(src, formats.size_of(iw, ih, stride, self._source))
        array = dst.getNumpyData()
        last = dst.getDimensionType() == Tensor_DimensionType_Tensorflow
        channels = len(formats.CHANNELS[self._target])
        if array.ndim != 4 or array.shape[0] != 1:
            raise ShapeError(f"convert() fills a tensor of one picture, found shape {array.shape}")
        if array.dtype.kind != "f" and array.dtype != np.uint8:
            raise MNNError(f"convert() fills tensors of float or uint8, found {array.dtype}")
        wide = array.shape[3] if last else array.shape[1]
        if wide < channels:
            raise ShapeError(f"the format has {channels} channels, the tensor {wide}")
        if self._by_kernel(data, iw, ih, stride, array[0], not last):
            return 0
        height, width = array.shape[1:3] if last else array.shape[2:]
        pixels = self._pixels(formats.planes(data, iw, ih, stride, self._source), int(height), int(width))
        target = array[0] if last else array[0].transpose(1, 2, 0)
        target[:, :, channels:] = 0
        scales = array.dtype.kind == "f"
        target[:, :, :channels] = (pixels - self._mean[:channels]) * self._normal[:channels] if scales else pixels
        return 0

    def _by_kernel(self, data: Array, width: int, height: int, stride: int, out: Array, planar: bool) -> bool:
        source = formats.source(width, height, stride, self._source)
        if source is None or data.size < formats.size_of(width, height, stride, self._source):
            return False
        way = kernels.Way(self._filter, self._wrap, formats.CHANNELS[self._target])
        return kernels.prepared(data, source, way, self._matrix, self._padding, self._scales, out, planar)

    def createImageTensor(
        self, dtype: HalideType, width: int, height: int, channel: int, data: object = None
    ) -> Tensor:
        """A tensor (1, height, width, channel) of zeros; ``data`` is not looked at."""
        return Tensor((1, height, width, channel), dtype, Tensor_DimensionType_Tensorflow)

    # -- sampling -----------------------------------------------------------------------------------------------------

    def _pixels(self, parts: Sequence[Array], height: int, width: int) -> Array:
        x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
        u, v, w = (row[0] * x + row[1] * y + row[2] for row in self._matrix)
        with np.errstate(divide="ignore", invalid="ignore"):
            u, v = (np.clip(np.nan_to_num((n / w).astype(np.float32).astype(np.float64)), -_FAR, _FAR) for n in (u, v))
        rows, columns = parts[0].shape[:2]
        outside = np.zeros(u.shape, np.bool_)
        if self._wrap == CV_Wrap_ZERO:
            outside = (u < 0) | (u > columns - 1) | (v < 0) | (v > rows - 1)
        target = formats.CHANNELS[self._target]
        if self._source not in formats.YUV:
            found = self._sampled(parts[0], u, v, self._filter)
            found[outside] = self._padding
            return formats.reordered(found, formats.CHANNELS[self._source], target)
        luma = self._sampled(parts[0], u, v, CV_Filter_NEAREST)
        luma[outside] = self._padding
        if target == "Y":
            return luma
        u, v = self._inside(u, columns), self._inside(v, rows)
        colours = parts[1][_rounded(v) // 2, _rounded(u) // 2]
        colours[outside] = 128
        return formats.reordered(formats.from_yuv(luma, colours), "RGB", target)

    def _inside(self, places: Array, count: int) -> Array:
        """Places within a picture: repeated, or cut at its edges."""
        return np.asarray(np.clip(places % count if self._wrap == CV_Wrap_REPEAT else places, 0, count - 1))

    def _sampled(self, plane: Array, u: Array, v: Array, how: int) -> Array:
        rows, columns = plane.shape[:2]
        u, v = self._inside(u, columns), self._inside(v, rows)
        if how == CV_Filter_NEAREST:
            return np.asarray(plane[_rounded(v), _rounded(u)])
        left, top = np.floor(u), np.floor(v)
        if how == CV_Filter_BILINEAL:
            across, down = (np.stack([1 - f, f], -1) for f in (u - left, v - top))
            first = 0
        else:
            across, down, first = cubic(u - left, -0.5), cubic(v - top, -0.5), -1
        total = np.zeros((*u.shape, plane.shape[2]))
        for i in range(down.shape[-1]):
            row = np.clip(top.astype(np.int64) + first + i, 0, rows - 1)
            for j in range(across.shape[-1]):
                column = np.clip(left.astype(np.int64) + first + j, 0, columns - 1)
                total += (down[..., i] * across[..., j])[..., None] * plane[row, column]
        return np.clip(np.rint(total), 0, 255).astype(np.uint8)


def _rounded(values: Array) -> Array:
    return np.floor(values + 0.5).astype(np.int64)


def _whole(value: Any, name: str) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise MNNError(f"{name} must be a whole number, found {value!r}") from None


def _four(value: Any, name: str) -> Array:
    try:
        numbers = np.asarray(value, np.float32).ravel()
    except (TypeError, ValueError):
        numbers = np.zeros(0, np.float32)
    if not 1 <= numbers.size <= 4 or not np.isfinite(numbers).all():
        raise MNNError(f"{name} holds up to four finite numbers, found {value!r}")
    return np.concatenate([numbers, np.full(4 - numbers.size, 0.0 if name == "mean" else 1.0, np.float32)])


def _bytes(src: Any, count: int) -> Array:
    """The bytes of a picture: ``count`` at an address, or all that are given."""
    if isinstance(src, (int, np.integer)) or memory.is_capsule(src):
        address = memory.address_of(int(src) if isinstance(src, np.integer) else src, "convert()")
        return memory.view(address, count, np.dtype(np.uint8), "convert()")
    if isinstance(src, (bytes, bytearray, memoryview)):
        return np.frombuffer(src, np.uint8)
    array = np.asarray(src)
    if isinstance(src, (np.ndarray, Var)) and array.dtype != np.uint8:
        raise MNNError(f"convert() takes pictures of uint8, found {array.dtype}")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array).ravel()
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() > 255)):
        raise MNNError(f"convert() takes bytes, found {type(src).__name__} of {array.dtype}")
    return np.ascontiguousarray(array, np.uint8).ravel()
