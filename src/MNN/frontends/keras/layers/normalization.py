"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis


def _scale_and_center(config: Config) -> list[str]:
    return [name for name, key in (("gamma", "scale"), ("beta", "center")) if config.get(key, True)]


def _batch_names(config: Config) -> Sequence[str]:
    return [*_scale_and_center(config), "moving_mean", "moving_variance"]


def axes_of(ctx: KerasContext, node: KerasNode, x: Value, value: Any) -> list[int]:
    """Axes as numbers from the front, in order."""
    rank = ctx.sizes(x, node.where)
    listed = value if isinstance(value, list | tuple) else [value]
    return sorted(normalize_axis(int(a), rank, node.where) for a in listed)


def along(array: np.ndarray, axes: Sequence[int], shape: Sequence[Any]) -> np.ndarray:
    """A variable over some axes as one that broadcasts over all."""
    sizes = [1] * len(shape)
    for axis, size in zip(axes, array.shape, strict=True):
        sizes[axis] = size
    return np.ascontiguousarray(array.reshape(sizes))


@keras_layer("BatchNormalization", "SyncBatchNormalization", variables=_batch_names, masks=True)
def batch_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    if node.bool_attr("renorm"):
        raise node.unsupported("batch renormalisation", "save the model with renorm=False")
    mean, variance = node.array("moving_mean"), node.array("moving_variance")
    assert mean is not None
    assert variance is not None
    gamma, beta = node.array("gamma"), node.array("beta")
    gamma = np.ones_like(mean) if gamma is None else gamma
    beta = np.zeros_like(mean) if beta is None else beta
    (axis,) = axes_of(ctx, node, x, node.get("axis", -1))
    rank, epsilon = ctx.sizes(x, node.where), node.float_attr("epsilon", 1e-3)
    formats = {(4, 3): "NHWC", (4, 1): "NCHW", (5, 4): "NDHWC", (5, 1): "NCDHW"}
    if (rank, axis) in formats:
        numbers = [ctx.const(a) for a in (gamma, beta, mean, variance)]
        return ctx.tf(
            "FusedBatchNormV3", x, *numbers, epsilon=epsilon, data_format=formats[rank, axis], is_training=False
        )
    scale = gamma / np.sqrt(variance + np.float32(epsilon))
    return affine(ctx, x, scale, beta - mean * scale, [axis])


def affine(
    ctx: KerasContext, x: Value, scale: np.ndarray | None, shift: np.ndarray | None, axes: Sequence[int]
) -> Value:
    """``x * scale + shift`` with numbers along some axes."""
    dtype = np.float32 if x.dtype is None else x.dtype.numpy
    for kind, array in (("MUL", scale), ("ADD", shift)):
        if array is not None:
            x = binary(ctx, kind, x, ctx.const(along(array, axes, x.shape or ()).astype(dtype)))
    return x


@keras_layer("LayerNormalization", variables=_scale_and_center, masks=True)
def layer_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    axes, rank = axes_of(ctx, node, x, node.get("axis", -1)), ctx.sizes(x, node.where)
    sizes, epsilon = [(x.shape or ())[a] for a in axes], node.float_attr("epsilon", 1e-3)
    # of axes that were given from both ends, Keras has the numbers in the order of what was given
    gamma, beta = (
        a.reshape(sizes) if a is not None and sorted(a.shape) == sorted(d for d in sizes if isinstance(d, int)) else a
        for a in (node.array("gamma"), node.array("beta"))
    )
    rms = node.bool_attr("rms_scaling")
    if axes == list(range(rank - len(axes), rank)) and not rms:
        given = [None if a is None else ctx.const(a.astype(np.float32)) for a in (gamma, beta)]
        y = ctx.op("LayerNorm", x, *given, axis=[a - rank for a in axes], epsilon=epsilon)
        y.dtype, y.shape = x.dtype, x.shape
        return y
    y = standardized(ctx, x, axes, epsilon, centre=not rms)
    return affine(ctx, y, gamma, None if rms else beta, axes)


def standardized(ctx: KerasContext, x: Value, axes: list[int], epsilon: float, centre: bool = True) -> Value:
    """``x`` divided by its deviation over axes; ``centre``: of ``x - mean``, else of ``x`` with the same deviation."""

    def mean(v: Value) -> Value:
        out = ctx.op("Reduction", v, operation="MEAN", dim=axes, keepDims=True)
        out.dtype = x.dtype
        return out

    apart = binary(ctx, "SUB", x, mean(x))
    deviation = unary(ctx, "SQRT", binary(ctx, "ADD", mean(unary(ctx, "SQUARE", apart)), epsilon))
    return binary(ctx, "REALDIV", apart if centre else x, deviation)


def _scale(config: Config) -> list[str]:
    return ["scale"]


@keras_layer("RMSNormalization", variables=_scale)
def rms_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    axes = axes_of(ctx, node, x, node.get("axis", -1))
    total = ctx.op("Reduction", unary(ctx, "SQUARE", x), operation="MEAN", dim=axes, keepDims=True)
    total.dtype = x.dtype
    y = binary(ctx, "REALDIV", x, unary(ctx, "SQRT", binary(ctx, "ADD", total, node.float_attr("epsilon", 1e-6))))
    return affine(ctx, y, node.array("scale"), None, axes)


@keras_layer("UnitNormalization", masks=True)
def unit_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    axes = axes_of(ctx, node, x, node.get("axis", -1))
    total = ctx.op("Reduction", unary(ctx, "SQUARE", x), operation="SUM", dim=axes, keepDims=True)
    total.dtype = x.dtype
    return binary(ctx, "MUL", x, unary(ctx, "RSQRT", binary(ctx, "MAXIMUM", total, 1e-12)))


@keras_layer("GroupNormalization", variables=_scale_and_center, masks=True)
def group_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    """Channels in groups; each group over all axes but the first one. The channels' axis is put last meanwhile."""
    x = node.input(0)
    (axis,), rank = axes_of(ctx, node, x, node.get("axis", -1)), ctx.sizes(x, node.where)
    order = [a for a in range(rank) if a != axis] + [axis]
    channels = (x.shape or ())[axis]
    if not isinstance(channels, int):
        raise node.unsupported("an open number of channels", "save the model with shapes")
    groups = node.int_attr("groups", 32)
    groups = channels if groups == -1 else groups
    last = ctx.tf("Transpose", x, ctx.const(order, DType.I32)) if axis != rank - 1 else x
    apart = ctx.op("Reshape", last, ctx.const([*(0,) * (rank - 1), groups, channels // groups]))
    apart.dtype = x.dtype
    axes = [*range(1, rank - 1), rank]
    y = ctx.op(
        "Reshape",
        standardized(ctx, apart, axes, node.float_attr("epsilon", 1e-3)),
        ctx.const([*(0,) * (rank - 1), channels]),
    )
    y.dtype, y.shape = x.dtype, last.shape
    y = affine(ctx, y, node.array("gamma"), node.array("beta"), [rank - 1])
    if axis == rank - 1:
        return y
    back = [order.index(a) for a in range(rank)]
    return ctx.tf("Transpose", y, ctx.const(back, DType.I32))


def _moments(config: Config) -> Sequence[str]:
    return [] if config.get("mean") is not None else ["mean", "variance", "count"]


@keras_layer("Normalization", variables=_moments, masks=True)
def normalization(ctx: KerasContext, node: KerasNode) -> Value:
    """By a mean and a variance that are configured, or were learnt from data."""
    x = node.input(0)
    if x.dtype is not None and not x.dtype.is_float:
        x = ctx.cast(x, DType.F32)
    axis = node.config.get("axis", -1)
    axes = [] if axis is None else axes_of(ctx, node, x, axis)
    shape = x.shape or ()

    def numbers(name: str) -> np.ndarray:
        stored = node.array(name)
        if stored is None:
            stored = np.asarray(node.get(name), np.float32)
            if stored.size == 1 or stored.ndim != len(axes):
                return stored.reshape(-1 if stored.ndim and not axes else stored.shape)
        return along(stored, axes, shape) if axes else stored

    mean, deviation = numbers("mean"), np.maximum(np.sqrt(numbers("variance")), np.float32(1e-7))
    first, second = (ctx.const(a.astype(np.float32)) for a in (mean, deviation))
    if node.bool_attr("invert"):
        return binary(ctx, "ADD", binary(ctx, "MUL", x, second), first)
    return binary(ctx, "REALDIV", binary(ctx, "SUB", x, first), second)


@keras_layer("Rescaling", masks=True)
def rescaling(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    if x.dtype is not None and not x.dtype.is_float:
        x = ctx.cast(x, DType.F32)
    for kind, key, absent in (("MUL", "scale", 1.0), ("ADD", "offset", 0.0)):
        number = node.get(key, absent)
        if isinstance(number, dict):
            number = number.get("config", {}).get("value")
        x = binary(ctx, kind, x, ctx.const(np.asarray(number, np.float32), x.dtype))
    return x


@keras_layer(
    "SpectralNormalization", variables=lambda config: ["vector_u"], parts=lambda config: [("layer", config["layer"])]
)
def spectral_normalization(ctx: KerasContext, node: KerasNode) -> Value:
    """The layer inside: training leaves the kernel divided by its norm."""
    return ctx.result(node.part.child("layer"), node.input(0))
