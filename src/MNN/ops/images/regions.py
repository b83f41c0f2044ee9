"""Pooling over regions of interest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, require_rank, wide
from MNN.ops.inference import infer


class _Regions(Operator):
    attributes = {
        "pooledWidth": 0, "pooledHeight": 0, "spatialScale": 0.0, "samplingRatio": -1, "aligned": False,
        "poolType": "AVEPOOL", "outputGrad": False,
    }  # fmt: skip

    def regions(self, b: Builder, inputs: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Tensor]:
        """``x``, boxes ``[R, 4]`` and image numbers ``[R]``, which may also be the boxes' first column."""
        x, rois, batch = operand(b, inputs, 0), operand(b, inputs, 1, "regions"), optional(inputs, 2)
        require_rank(b, x, 4)
        count = rois.shape[0] if rois.rank else 0
        if rois.rank > 2 and rois.shape[1] in (4, 5):  # [R, 5, 1, 1]
            rois = b.reshape(rois, (count, rois.shape[1]))
        if rois.rank != 2 or rois.shape[1] != (5 if batch is None else 4):
            raise ShapeError(f"{b.where}: regions {list(rois.shape)}, expected [R, {5 if batch is None else 4}]")
        if batch is None:
            batch = b.reshape(b.slice(rois, (0, 0), (count, 1)), (count,))
            rois = b.slice(rois, (0, 1), (count, 4))
        return x, wide(b, rois), b.cast(batch, DType.I32)


@register("ROIAlign")
class RoiAlign(_Regions):
    """Bilinear samples in every bin of every region, averaged or the largest (He et al. 2017, arXiv:1703.06870).

    Inputs ``x[N, C, H, W]``, boxes ``[R, 4]`` (x1, y1, x2, y2) and image numbers ``[R]``, or boxes ``[R, 5]``. A
    ``samplingRatio`` that is not positive takes as many samples as a bin has pixels.
    """

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, rois, batch = self.regions(b, inputs)
        oh, ow = self.int_attr(node, "pooledHeight"), self.int_attr(node, "pooledWidth")
        scale, ratio = self.float_attr(node, "spatialScale"), self.int_attr(node, "samplingRatio")
        aligned, largest = self.bool_attr(node, "aligned"), self.str_attr(node, "poolType") == "MAXPOOL"
        count = rois.shape[0]
        if oh < 1 or ow < 1:
            raise ShapeError(f"{b.where}: output of {oh} x {ow}")
        if ratio <= 0:
            where = b.where

            def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
                image, boxes, numbers = arrays
                return [_adaptive(image, boxes, numbers, oh, ow, scale, aligned, largest, where)]

            shape = (count, x.shape[1], oh, ow)
            return [b.cast(b.host("roi_align", run, [wide(b, x), rois, batch], (wide(b, x).dtype, shape))[0], x.dtype)]
        height, width = x.shape[2:]
        rows = self._samples(b, rois, 1, oh, ratio, scale, aligned)
        columns = self._samples(b, rois, 0, ow, ratio, scale, aligned)
        ys, xs = _line(b, rows, height, (count, 1, oh * ratio, 1)), _line(b, columns, width, (count, 1, 1, ow * ratio))
        image = b.reshape(batch, (count, 1, 1, 1))
        shape = (count, x.shape[1], oh * ratio, ow * ratio)
        total: Tensor | None = None
        op = "max" if largest else "add"
        for (iy, wy), (ix, wx) in product(ys, xs):
            got = wide(b, b.gather(x, [image, iy, ix], [0, 2, 3], [-1, 1, -1, -1], shape))
            part = b.map(lambda s, v, p, q: s("mul", v, s.cast(s("mul", p, q), s.dtype(v))), got, wy, wx)
            total = part if total is None else b.op(op, total, part)
        assert total is not None
        bins = b.reshape(total, (count, x.shape[1], oh, ratio, ow, ratio))
        pooled = b.reduce("max" if largest else "mean", bins, (3, 5), keepdims=False)
        return [b.cast(pooled, x.dtype)]

    def _samples(
        self, b: Builder, rois: Tensor, axis: int, bins: int, ratio: int, scale: float, aligned: bool
    ) -> Tensor:
        """Sample coordinates ``[R, bins * ratio]`` along x (axis 0) or y (1)."""
        count = rois.shape[0]
        b.require(bins * ratio, "the sample grid")
        low, high = (b.slice(rois, (0, axis + k), (count, 1)) for k in (0, 2))
        share = (np.arange(bins * ratio) + 0.5) / (bins * ratio)

        def body(s: BodyBuilder, a: int, z: int, t: int) -> int:
            start = s("sub", s("mul", a, s.const(scale, s.dtype(a))), s.const(0.5 if aligned else 0.0, s.dtype(a)))
            size = s("mul", s("sub", z, a), s.const(scale, s.dtype(a)))
            if not aligned:
                size = s("max", size, s.const(1, s.dtype(a)))
            return s("add", start, s("mul", size, t))

        return b.map(body, low, high, b.const(share[None], rois.dtype))


def _line(b: Builder, at: Tensor, size: int, shape: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """The two taps of linear interpolation: indices and weights of ``shape``; 0 beyond one pixel outside."""
    at = b.reshape(at, shape)
    dtype = at.dtype

    def base(s: BodyBuilder, a: int) -> tuple[int, int, int]:
        last = s.const(size - 1, dtype)
        inside = s("and", s("ge", a, s.const(-1, dtype)), s("le", a, s.const(size, dtype)))
        clipped = s("min", s("max", s("select", inside, a, s.const(0, dtype)), s.const(0, dtype)), last)
        return s("floor", clipped), clipped, inside

    def index(k: int) -> Callable[[BodyBuilder, int], int]:
        def body(s: BodyBuilder, a: int) -> int:
            low, _, _ = base(s, a)
            return s.cast(s("min", s("add", low, s.const(k, dtype)), s.const(size - 1, dtype)), DType.I32)

        return body

    def weight(k: int) -> Callable[[BodyBuilder, int], int]:
        def body(s: BodyBuilder, a: int) -> int:
            low, clipped, inside = base(s, a)
            t = s("sub", clipped, low)
            return s("select", inside, t if k else s("sub", s.const(1, dtype), t), s.const(0, dtype))

        return body

    return [(b.map(index(k), at), b.map(weight(k), at)) for k in (0, 1)]


def _matrix(start: float, size: float, bins: int, grid: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices ``[bins * grid, 2]`` and weights of one axis of one region."""
    at = start + (np.arange(bins * grid) + 0.5) * size / (bins * grid)
    inside = (at >= -1) & (at <= extent)
    at = np.clip(np.where(inside, at, 0), 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    share = at - low
    index = np.stack([low, np.minimum(low + 1, extent - 1)], 1)
    return index, np.stack([1 - share, share], 1) * inside[:, None]


_MOST_SAMPLES = 1 << 27


def _adaptive(
    x: np.ndarray, rois: np.ndarray, batch: np.ndarray, oh: int, ow: int, scale: float, aligned: bool, largest: bool,
    where: str,
) -> np.ndarray:  # fmt: skip
    """RoiAlign with as many samples per bin as it has pixels."""
    out = np.zeros((len(rois), x.shape[1], oh, ow), x.dtype)
    if len(rois) and not ((batch >= 0) & (batch < len(x))).all():
        raise RunError(f"{where}: a region's image number is outside [0, {len(x) - 1}]")
    shift = 0.5 if aligned else 0.0
    for r, (box, image) in enumerate(zip(rois.astype(np.float64) * scale - shift, batch, strict=True)):
        sizes = box[2:] - box[:2] if aligned else np.maximum(box[2:] - box[:2], 1.0)
        if (
            not np.isfinite(sizes).all()
            or x.shape[1] * np.prod(np.maximum(sizes, 0) + np.array([ow, oh])) > _MOST_SAMPLES
        ):
            raise RunError(f"{where}: region {r} is {sizes[0]:g} x {sizes[1]:g} pixels, too large to sample")
        grids = [int(np.ceil(max(s, 0.0) / k)) for s, k in zip(sizes, (ow, oh), strict=True)]
        if min(grids) < 1:
            continue
        xi, xw = _matrix(box[0], sizes[0], ow, grids[0], x.shape[3])
        yi, yw = _matrix(box[1], sizes[1], oh, grids[1], x.shape[2])
        parts = [x[image][:, yi[:, p]][:, :, xi[:, q]] * (yw[:, p, None] * xw[:, q]) for p in (0, 1) for q in (0, 1)]
        whole = np.maximum.reduce(parts) if largest else np.add.reduce(parts)
        bins = whole.reshape(-1, oh, grids[1], ow, grids[0])
        out[r] = bins.max((2, 4)) if largest else bins.mean((2, 4))
    return out


@register("ROIPooling")
class RoiPooling(_Regions):
    """The largest pixel in every bin of every region, boxes rounded to pixels (Girshick 2015, arXiv:1504.08083)."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, rois, batch = self.regions(b, inputs)
        oh, ow = self.int_attr(node, "pooledHeight"), self.int_attr(node, "pooledWidth")
        scale, where = self.float_attr(node, "spatialScale"), b.where

        def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            image, boxes, numbers = arrays
            return [_largest(image, boxes, numbers, oh, ow, scale, where)]

        shape = (rois.shape[0], x.shape[1], oh, ow)
        return b.host("roi_pool", run, [x, rois, batch], (x.dtype, shape))


def _largest(
    x: np.ndarray, rois: np.ndarray, batch: np.ndarray, oh: int, ow: int, scale: float, where: str
) -> np.ndarray:
    out = np.zeros((len(rois), x.shape[1], oh, ow), x.dtype)
    if len(rois) and not ((batch >= 0) & (batch < len(x))).all():
        raise RunError(f"{where}: a region's image number is outside [0, {len(x) - 1}]")
    height, width = x.shape[2:]
    for r, (box, image) in enumerate(zip(np.floor(rois * np.float32(scale) + 0.5), batch, strict=True)):
        box = np.clip(np.nan_to_num(box), -(2.0**30), 2.0**30)
        w, h = max(box[2] - box[0] + 1, 1), max(box[3] - box[1] + 1, 1)
        for i, j in product(range(oh), range(ow)):
            top, bottom = np.floor(i * h / oh) + box[1], np.ceil((i + 1) * h / oh) + box[1]
            left, right = np.floor(j * w / ow) + box[0], np.ceil((j + 1) * w / ow) + box[0]
            y0, y1 = int(np.clip(top, 0, height)), int(np.clip(bottom, 0, height))
            x0, x1 = int(np.clip(left, 0, width)), int(np.clip(right, 0, width))
            if y1 > y0 and x1 > x0:
                out[r, :, i, j] = x[image, :, y0:y1, x0:x1].max((1, 2))
    return out


@infer.rule(RoiAlign, RoiPooling)
def _infer_regions(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, regions = infer.operand(node, 0), infer.sizes(infer.operand(node, 1))
    known = infer.sizes(x)
    if known is None or regions is None or not regions:
        return [(x.dtype, None)]
    return [
        (x.dtype, (regions[0], known[1], infer.number(node, "pooledHeight", 1), infer.number(node, "pooledWidth", 1)))
    ]
