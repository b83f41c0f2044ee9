"""Resizing pictures by weights that follow from the sizes alone: a product of matrices along each axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.frontends.common.nhwc import channels_first, channels_last
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.images.resizing import MAX_CUBIC
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value


def _cubic(x: np.ndarray, near: tuple[float, float, float], far: tuple[float, float, float, float]) -> np.ndarray:
    inner = (near[0] * x + near[1]) * x * x + near[2]
    outer = ((far[0] * x + far[1]) * x + far[2]) * x + far[3]
    return np.where(x >= 2, 0, np.where(x >= 1, outer, inner))


def _lanczos(radius: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(x > radius, 0, np.sinc(x) * np.sinc(x / radius))


KERNELS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-(x**2) / (2 * 0.5**2)))),
    "box": (1, lambda x: np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0))),
    "triangle": (1, lambda x: np.maximum(1 - x, 0)),
    "keyscubic": (2, lambda x: _cubic(x, (1.5, -2.5, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, lambda x: _cubic(x, (7 / 6, -2, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}
"""Reach in pixels, and weight by distance: Duchon 1979 (Lanczos), Keys 1981, Mitchell and Netravali 1988."""


def sampled(size: int, out: int, scale: float, shift: float, kind: str, antialias: bool) -> np.ndarray:
    """``[out, size]``: how much each pixel of a line counts in each new one, which lies at ``(i + 1/2 - shift) /
    scale``; with ``antialias`` the kernel is as wide as a new pixel where these are larger. Nothing counts in new
    pixels outside of the line."""
    radius, kernel = KERNELS[kind]
    inverse = np.float32(1) / np.float32(scale)
    stretch = max(float(inverse), 1.0) if antialias else 1.0
    place = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * inverse - inverse * np.float32(shift)
    middle = np.arange(size) + 0.5
    first = np.ceil(place - radius * stretch - 0.5)[:, None]
    last = np.floor(place + radius * stretch - 0.5)[:, None]
    weights = kernel(np.abs(middle - place[:, None]) / stretch)
    weights = np.where((np.arange(size) >= first) & (np.arange(size) <= last), weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = np.where(np.abs(total) >= 1e-35, weights / np.where(total == 0, 1, total), 0)
    return np.asarray(np.where(((place < 0) | (place > size))[:, None], 0, weights), np.float32)


def averaged(size: int, out: int, align: bool) -> np.ndarray:
    """``[out, size]``: new pixels are means over what they cover."""
    scale = (size - 1) / (out - 1) if align and out > 1 else size / out
    begin = np.arange(out)[:, None] * scale
    weights = np.zeros((out, size + int(np.ceil(scale)) + 1))
    at = np.arange(weights.shape[1])
    weights = np.clip(np.minimum(at + 1, begin + scale) - np.maximum(at, begin), 0, None) / scale
    weights[:, size - 1] += weights[:, size:].sum(1)  # what lies outside repeats the last pixel
    return np.asarray(weights[:, :size], np.float32)


def _sizes(ctx: Context, node: TfNode) -> tuple[list[int], list[int]]:
    """The sizes of the picture and the new ones."""
    x, sizes = node.input(0), ctx.constant_ints(node.input(1))
    given = [d for d in (x.shape or ())[1:3] if isinstance(d, int)]
    if sizes is None or len(sizes) != 2 or ctx.rank(x) != 4 or len(given) != 2 or max(*sizes, *given) > MAX_CUBIC:
        raise node.unsupported("an open or very large size", "export the model with shapes")
    if min(*sizes, *given) < 1:
        raise node.unsupported("a picture without pixels")
    return given, sizes


def _weighted(ctx: Context, x: Value, rows: np.ndarray, columns: np.ndarray) -> Value:
    if x.dtype is not None and not x.dtype.is_float:
        x = ctx.op("Cast", x, dstT="DT_FLOAT")
    y = ctx.op("MatMul", channels_first(ctx, x), ctx.const(np.ascontiguousarray(columns.T)))
    return channels_last(ctx, ctx.op("MatMul", ctx.const(rows), y))


@tf_op("ResizeArea")
def resize_area(ctx: Context, node: TfNode) -> Value:
    (given, sizes), align = _sizes(ctx, node), node.bool_attr("align_corners", False)
    return _weighted(ctx, node.input(0), *(averaged(given[i], sizes[i], align) for i in (0, 1)))


@tf_op("ScaleAndTranslate")
def scale_and_translate(ctx: Context, node: TfNode) -> Value:
    given, sizes = _sizes(ctx, node)
    kind = node.choice_attr("kernel_type", "lanczos3", *KERNELS)
    antialias = node.bool_attr("antialias", True)
    scale, shift = (ctx.constant(v) for v in node.tensors(2, 4))
    if scale is None or shift is None or scale.size != 2 or shift.size != 2 or not (scale > 0).all():
        raise node.unsupported("a scale that is not constant and positive", "export the model with shapes")
    return _weighted(
        ctx,
        node.input(0),
        *(sampled(given[i], sizes[i], float(scale[i]), float(shift[i]), kind, antialias) for i in (0, 1)),
    )
