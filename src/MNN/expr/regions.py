"""Boxes of images, cuts and blocks: what detectors and segmenters are built of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.expr.build import apply, floats, leaf, to_var
from MNN.expr.layers import _image, _like
from MNN.expr.shaping import convert, dims_of
from MNN.expr.types import NC4HW4, NCHW, NHWC, Interp_Method, Ints, Pooling_Mode
from MNN.expr.var import Var


def crop(x: ArrayLike, size: ArrayLike, axis: int, offset: Ints) -> Var:
    """An image cut to the sizes of ``size`` from ``axis`` on (in NCHW), beginning at ``offset``. In the layout of x."""
    like = to_var(size)
    like = convert(like, NC4HW4) if like.ndim == 4 else like
    return _like(apply("Crop", _image(x), like, layout=NC4HW4, axis=int(axis), offset=dims_of(offset)), x)


def _blocks(op: str, x: object, block_shape: object, borders: object) -> Var:
    block, border = (leaf(np.asarray(dims_of(v), np.int32)) for v in (block_shape, borders))
    return _like(apply(op, _image(x), block, border, layout=NC4HW4), x)


def batch_to_space_nd(x: ArrayLike, block_shape: Ints, crops: ArrayLike) -> Var:
    """Groups of a batch as the places within blocks of pixels, the borders cut off; crops [[top, bottom], [left,
    right]]."""
    return _blocks("BatchToSpaceND", x, block_shape, crops)


def space_to_batch_nd(x: ArrayLike, block_shape: Ints, paddings: ArrayLike) -> Var:
    """The inverse of :func:`batch_to_space_nd`, borders of zeros added first."""
    return _blocks("SpaceToBatchND", x, block_shape, paddings)


def normalize(x: ArrayLike, acrossSpatial: int, channelShared: int, eps: float, scale: Sequence[float]) -> Var:
    """``x / sqrt(sum of squares + eps) * scale`` over the channels (and space, if ``acrossSpatial``)."""
    factors = floats(np.asarray(scale, np.float32).reshape(-1))
    image = _image(x)
    count = 1 if channelShared else image.shape[1]
    if factors.size != count:
        raise ShapeError(f"normalize(): {factors.size} factors for {count} channel(s)")
    spread = factors if factors.size == image.shape[1] else leaf(np.repeat(factors._array(), image.shape[1]))
    found = apply("Normalize", image, spread, layout=NC4HW4, acrossSpatial=int(acrossSpatial), eps=float(eps),
                  channelShared=int(channelShared))  # fmt: skip
    return _like(found, x)


def _forward_only(output_grad: object, backward_diff: object, name: str) -> None:
    if output_grad or backward_diff is not None:
        raise UnsupportedError(f"{name}(): gradients come from MNN.optim, not from output_grad and backward_diff")


def roi_pooling(
    input: ArrayLike, roi: ArrayLike, pooled_height: int, pooled_width: int, spatial_scale: float,
    output_grad: bool = False, backward_diff: ArrayLike | None = None,
) -> Var:  # fmt: skip
    """The largest pixels of a grid over each region: ``roi [R, 5]`` of image number, x1, y1, x2, y2. Gives NC4HW4."""
    _forward_only(output_grad, backward_diff, "roi_pooling")
    return apply("ROIPooling", _image(input), floats(roi), layout=NC4HW4, pooledHeight=int(pooled_height),
                 pooledWidth=int(pooled_width), spatialScale=float(spatial_scale))  # fmt: skip


def roi_align(
    input: ArrayLike, roi: ArrayLike, pooled_height: int, pooled_width: int, spatial_scale: float, sampling_ratio: int,
    aligned: bool, pooling_mode: Pooling_Mode, output_grad: bool = False, backward_diff: ArrayLike | None = None,
) -> Var:  # fmt: skip
    """Means (or the largest) of interpolated pixels over a grid in each region; ``roi`` as in :func:`roi_pooling`."""
    _forward_only(output_grad, backward_diff, "roi_align")
    return apply(
        "ROIAlign", _image(input), floats(roi), layout=NC4HW4, pooledHeight=int(pooled_height),
        pooledWidth=int(pooled_width), spatialScale=float(spatial_scale), samplingRatio=int(sampling_ratio),
        aligned=bool(aligned), poolType=Pooling_Mode(pooling_mode).name,
    )  # fmt: skip


def crop_and_resize(
    x: ArrayLike, boxes: ArrayLike, box_ind: ArrayLike, crop_size: Ints, method: Interp_Method = Interp_Method.BILINEAR,
    extrapolation_value: float = 0.0,
) -> Var:  # fmt: skip
    """Boxes ``[count, 4]`` (y1, x1, y2, x2 from 0 to 1) of the images ``box_ind`` at (height, width) ``crop_size``, as
    TensorFlow's; ``extrapolation_value`` outside. NHWC, computed on the numbers at hand."""
    image = convert(floats(x), NHWC)._array()
    corners, which = np.asarray(floats(boxes)._array(), np.float64), np.asarray(to_var(box_ind)._array(), np.int64)
    height, width = dims_of(crop_size)
    if image.ndim != 4 or corners.ndim != 2 or corners.shape[1] != 4 or which.shape != (len(corners),):
        raise ShapeError(f"crop_and_resize(): images {image.shape}, boxes {corners.shape}, numbers {which.shape}")
    if (len(which) and (which.min() < 0 or which.max() >= len(image))) or height < 1 or width < 1:
        raise MNNError(f"crop_and_resize(): box_ind {which.tolist()} of {len(image)} images at {height} x {width}")
    found = np.full((len(corners), height, width, image.shape[3]), extrapolation_value, np.float32)
    for i, ((y1, x1, y2, x2), source) in enumerate(zip(corners, image[which], strict=True)):
        rows, columns = (_places(a, z, n, size) for a, z, n, size in
                         ((y1, y2, height, source.shape[0]), (x1, x2, width, source.shape[1])))  # fmt: skip
        inside = [np.flatnonzero((p >= 0) & (p <= size - 1)) for p, size in zip((rows, columns), source.shape[:2],
                                                                               strict=True)]  # fmt: skip
        y, x_ = rows[inside[0]], columns[inside[1]]
        if Interp_Method(method) is Interp_Method.NEAREST:
            part = source[np.floor(y + 0.5).astype(int)[:, None], np.floor(x_ + 0.5).astype(int)]
        else:
            top, left = np.floor(y).astype(int), np.floor(x_).astype(int)
            bottom, right = np.ceil(y).astype(int), np.ceil(x_).astype(int)
            v, u = (y - top)[:, None, None], (x_ - left)[None, :, None]
            above = source[top[:, None], left] * (1 - u) + source[top[:, None], right] * u
            below = source[bottom[:, None], left] * (1 - u) + source[bottom[:, None], right] * u
            part = above * (1 - v) + below * v
        found[i][np.ix_(*inside)] = part
    return leaf(found, NHWC)


def _places(first: float, last: float, count: int, size: int) -> np.ndarray:
    if count == 1:
        return np.array([(first + last) * (size - 1) / 2])
    return np.asarray(first * (size - 1) + np.arange(count) * (last - first) * (size - 1) / (count - 1))


def raster(var: Sequence[ArrayLike], region: Ints, shape: Ints) -> Var:
    """A tensor put together from regions: eleven numbers for each (offset and three strides of the source, the same of
    the result, three sizes), one for each source or all for the only one. What no region covers is 0."""
    sources = [to_var(v) for v in var]
    table, dims = np.asarray(dims_of(region), np.int64), dims_of(shape)
    if not sources or table.size % 11 or (len(sources) > 1 and table.size != 11 * len(sources)):
        raise ShapeError(f"raster(): {table.size} numbers of regions for {len(sources)} tensor(s)")
    found = np.zeros(int(np.prod(dims, dtype=np.int64)), sources[0]._kind.numpy)
    for number, row in enumerate(table.reshape(-1, 11)):
        source = sources[min(number, len(sources) - 1)]._array().reshape(-1)
        grid = np.indices(tuple(np.maximum(row[8:], 0).tolist())).reshape(3, -1)
        start, target = row[0] + row[1:4] @ grid, row[4] + row[5:8] @ grid
        for places, size, what in ((start, source.size, "the source"), (target, found.size, "the result")):
            if places.size and not (places.min() >= 0 and places.max() < size):
                raise MNNError(f"raster(): region {number} leaves {what}, which has {size} elements")
        found[target] = source[start]
    return leaf(found.reshape(dims), NCHW)
