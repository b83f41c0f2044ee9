"""Layers that move numbers: shapes, borders, repetition, enlarging."""

from __future__ import annotations

import math

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.convolution import rank_of
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_END = int(np.iinfo(np.int32).max)
KERNELS = {
    "bilinear": "triangle", "bicubic": "keyscubic", "lanczos3": "lanczos3", "lanczos5": "lanczos5",
    "gaussian": "gaussian", "mitchellcubic": "mitchellcubic",
}  # fmt: skip
"""As TensorFlow calls the kernels of methods that weigh all pixels under a result."""


@keras_layer("Flatten")
def flatten(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    rank = ctx.sizes(x, node.where)
    if node.channels_first() and rank > 2:
        x = ctx.tf("Transpose", x, ctx.const([0, *range(2, rank), 1], DType.I32))
    if rank == 1:
        return ctx.op("Unsqueeze", x, squeezeDims=[1])
    return _reshaped(ctx, x, [0, -1])


def _reshaped(ctx: KerasContext, x: Value, sizes: list[int]) -> Value:
    """A size of 0 is that of the input there."""
    y = ctx.op("Reshape", x, ctx.const(sizes))
    y.dtype = x.dtype
    return y


@keras_layer("Reshape")
def reshape(ctx: KerasContext, node: KerasNode) -> Value:
    """One size may be -1; it is told where that can be."""
    x, target = node.input(0), [int(n) for n in node.get("target_shape", [])]
    known = (x.shape or ())[1:]
    if -1 in target and all(isinstance(n, int) for n in known):
        rest = math.prod(n for n in target if n != -1)
        if rest:
            target[target.index(-1)] = math.prod(int(n) for n in known) // rest
    if 0 in target:
        raise node.unsupported(f"a target shape {target} without elements")
    return _reshaped(ctx, x, [0 if -1 in target else -1, *target])


@keras_layer("Permute")
def permute(ctx: KerasContext, node: KerasNode) -> Value:
    dims = [int(d) for d in node.get("dims")]
    return ctx.tf("Transpose", node.input(0), ctx.const([0, *dims], DType.I32))


@keras_layer("RepeatVector")
def repeat_vector(ctx: KerasContext, node: KerasNode) -> Value:
    x = ctx.op("Unsqueeze", node.input(0), squeezeDims=[1])
    x.dtype = node.input(0).dtype
    y = ctx.op("Tile", x, ctx.const([1, node.int_attr("n"), 1], DType.I32))
    y.dtype = x.dtype
    return y


def _pairs(node: KerasNode, key: str) -> list[tuple[int, int]]:
    """Before and behind for each spatial axis."""
    value, rank = node.get(key), rank_of(node.op)
    if isinstance(value, int):
        return [(value, value)] * rank
    if rank == 1 and len(value) == 2 and all(isinstance(v, int) for v in value):
        return [(value[0], value[1])]
    if len(value) != rank:
        raise FormatError(f"{node.where}: '{key}' is {value!r:.80}")
    return [(v, v) if isinstance(v, int) else (int(v[0]), int(v[1])) for v in value]


def _first(node: KerasNode) -> bool:
    return bool(node.get("data_format", "channels_last") == "channels_first")


@keras_layer("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(ctx: KerasContext, node: KerasNode) -> Value:
    inner = [n for pair in _pairs(node, "padding") for n in pair]
    pads = [0, 0, 0, 0, *inner] if _first(node) else [0, 0, *inner, 0, 0]
    x = node.input(0)
    y = ctx.op("Padding", x, ctx.const(pads, DType.I32), mode="CONSTANT")
    y.dtype = x.dtype
    return y


@keras_layer("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(ctx: KerasContext, node: KerasNode) -> Value:
    pairs = _pairs(node, "cropping")
    return cut(ctx, node.input(0), [(1 + _first(node) + i, b, -e if e else _END) for i, (b, e) in enumerate(pairs)])


def cut(ctx: KerasContext, x: Value, cuts: list[tuple[int, int, int]]) -> Value:
    """A slice by (axis, begin, end)."""
    cuts = [c for c in cuts if c[1:] != (0, _END)]
    if not cuts:
        return x
    axes, begins, ends = (ctx.const(np.asarray(v, np.int64)) for v in zip(*cuts, strict=True))
    y = ctx.op("StridedSlice", x, begins, ends, axes, ctx.const(np.ones(len(cuts), np.int64)), fromType=1)
    y.dtype = x.dtype
    return y


@keras_layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(ctx: KerasContext, node: KerasNode) -> Value:
    """Each number repeated along the axes; images may be interpolated."""
    x, rank = node.input(0), rank_of(node.op)
    sizes = node.ints_attr("size", rank, 2)
    if rank == 2:
        return _enlarged(ctx, node, x, sizes)
    for i, times in enumerate(sizes):
        x = _repeated(ctx, x, 1 + _first(node) + i, times)
    return x


def _enlarged(ctx: KerasContext, node: KerasNode, x: Value, sizes: list[int]) -> Value:
    how = node.choice_attr("interpolation", "nearest", "nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")
    first, shape = _first(node), x.shape or ()
    if how == "nearest":
        for i, times in enumerate(sizes):
            x = _repeated(ctx, x, 1 + first + i, times)
        return x
    spatial = shape[2:4] if first else shape[1:3]
    if not all(isinstance(n, int) for n in spatial):
        now = ctx.op("Shape", x, hasStart=True, start=1 + first, hasEnd=True, end=3 + first)
        target = ctx.op("BinaryOp", now, ctx.const(sizes, DType.I32), opType="MUL")
    else:
        target = ctx.const([int(n) * s for n, s in zip(spatial, sizes, strict=True)], DType.I32)
    return (resampled if how.startswith("lanczos") else resized)(ctx, x, target, how, first)


def resampled(ctx: KerasContext, x: Value, size: Value, how: str, first: bool, antialias: bool = False) -> Value:
    """Images in another size by a method that weighs all pixels under a result; f32 of whole numbers."""
    given = ctx.tf("Transpose", x, ctx.const([0, 2, 3, 1], DType.I32)) if first else x
    given = given if given.dtype is not None and given.dtype.is_float else ctx.cast(given, DType.F32)
    if how == "area":
        y = ctx.tf("ResizeArea", given, size)
    else:
        sides = ctx.op("Shape", given, hasStart=True, start=1, hasEnd=True, end=3)
        scale = binary(ctx, "REALDIV", ctx.cast(size, DType.F32), ctx.cast(sides, DType.F32))
        shift = ctx.const(np.zeros(2, np.float32))
        y = ctx.tf("ScaleAndTranslate", given, size, scale, shift, kernel_type=KERNELS[how], antialias=antialias)
    y.dtype = DType.F32
    return ctx.tf("Transpose", y, ctx.const([0, 3, 1, 2], DType.I32)) if first else y


def resized(ctx: KerasContext, x: Value, size: Value, how: str, first: bool) -> Value:
    """Images in another size, with half pixel centres."""
    given = ctx.tf("Transpose", x, ctx.const([0, 2, 3, 1], DType.I32)) if first else x
    op = {"nearest": "ResizeNearestNeighbor", "bilinear": "ResizeBilinear", "bicubic": "ResizeBicubic"}[how]
    y = ctx.tf(op, given, size, half_pixel_centers=True)
    y.dtype = x.dtype if how == "nearest" else DType.F32 if x.dtype is None or not x.dtype.is_float else x.dtype
    return ctx.tf("Transpose", y, ctx.const([0, 3, 1, 2], DType.I32)) if first else y


def _repeated(ctx: KerasContext, x: Value, axis: int, times: int) -> Value:
    """Each entry along an axis ``times`` times: beside itself on a new axis, which then is joined."""
    if times == 1:
        return x
    rank = len(x.shape or ())
    apart = ctx.op("Unsqueeze", x, squeezeDims=[axis + 1])
    copies = [1] * (rank + 1)
    copies[axis + 1] = times
    tiled = ctx.op("Tile", apart, ctx.const(copies, DType.I32))
    size = (x.shape or ())[axis]
    if isinstance(size, int):
        sizes = [d if isinstance(d, int) else 0 for d in (x.shape or ())]
        sizes[axis] = size * times
        return _joined(ctx, x, tiled, sizes, axis)
    return _joined(ctx, x, tiled, [d if isinstance(d, int) else 0 for d in (x.shape or ())], axis, open_size=True)


def _joined(ctx: KerasContext, x: Value, tiled: Value, sizes: list[int], axis: int, open_size: bool = False) -> Value:
    """``Reshape`` takes the size of the same place for 0, so that axes behind the joined one must be told."""
    rank = len(sizes)
    if open_size:
        sizes[axis] = -1
    if 0 in sizes[axis + 1 :]:
        shape = ctx.op("Shape", x)
        parts = []
        for i in range(rank):
            part = ctx.op("StridedSlice", shape, ctx.const([i]), ctx.const([i + 1]), ctx.const([0]), fromType=1)
            parts.append(ctx.const([sizes[i]], DType.I32) if i == axis else part)
        y = ctx.op("Reshape", tiled, ctx.op("Concat", *parts, axis=0))
    else:
        y = ctx.op("Reshape", tiled, ctx.const(sizes))
    y.dtype = x.dtype
    return y
