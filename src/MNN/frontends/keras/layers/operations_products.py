"""Products, windows, norms and attention as operations (``keras.ops``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.attention import both, causal
from MNN.frontends.keras.layers.normalization import standardized
from MNN.frontends.keras.layers.operations import axes, floating, operands
from MNN.frontends.keras.layers.operations_arrays import known_size, reshaped
from MNN.frontends.keras.layers.operations_elementwise import chosen, reduced
from MNN.frontends.keras.layers.operations_shapes import turned
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.part import Part
from MNN.frontends.keras.registry import Config, keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis

# -- products ----------------------------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _summed(ctx: KerasContext, x: Value, y: Value, over: Sequence[tuple[int, int]], ranks: Sequence[int]) -> Value:
    """Sums of products over pairs of axes; the others of ``x`` first, then those of ``y``."""
    first, second = list(_LETTERS[: ranks[0]]), list(_LETTERS[ranks[0] : sum(ranks)])
    for a, b in over:
        second[b] = first[a]
    kept = [c for i, c in enumerate(first) if i not in {a for a, _ in over}]
    kept += [c for i, c in enumerate(second) if i not in {b for _, b in over}]
    out = ctx.op("Einsum", x, y, equation=f"{''.join(first)},{''.join(second)}->{''.join(kept)}")
    out.dtype = x.dtype
    return out


@keras_op("Tensordot", "Inner", "Outer", "Vdot")
def products(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = operands(ctx, node.argument(0, "x1"), node.argument(1, "x2"))
    kind = node.op.removeprefix("ops.")
    if kind in ("Outer", "Vdot"):
        x, y = (reshaped(ctx, v, [-1]) for v in (x, y))
    ranks = [ctx.sizes(v, node.where) for v in (x, y)]
    if sum(ranks) > len(_LETTERS):
        raise node.unsupported(f"products of {sum(ranks)} axes", "reshape before")
    pairs: list[tuple[int, int]] = []
    if kind == "Tensordot":
        given = node.get("axes", 2)
        if isinstance(given, int):
            pairs = [(ranks[0] - given + i, i) for i in range(given)]
        else:
            left, right = ([int(v)] if isinstance(v, int) else [int(a) for a in v] for v in given)
            pairs = list(zip(left, right, strict=True))
        pairs = [tuple(normalize_axis(a, r, node.where) for a, r in zip(p, ranks, strict=True)) for p in pairs]  # type: ignore[misc]
    elif kind != "Outer":
        pairs = [(ranks[0] - 1, ranks[1] - 1)]
    return _summed(ctx, x, y, pairs, ranks)


@keras_op("Cross")
def cross(ctx: KerasContext, node: KerasNode) -> Value:
    x, y = operands(ctx, node.argument(0, "x1"), node.argument(1, "x2"))
    given = [node.config.get(k, -1) for k in ("axisa", "axisb", "axisc")]
    last = all(
        a in (-1, ctx.rank(v)) or a == ctx.sizes(v, node.where) - 1 for a, v in zip(given, (x, y, x), strict=True)
    )
    if not last or any((v.shape or (0,))[-1] != 3 for v in (x, y)):
        raise node.unsupported("a cross product that is not of three numbers along the last axis", "transpose before")
    return ctx.tf_like("Cross", x, y)


@keras_op("Det")
def determinant(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    return ctx.tf_like("MatrixDeterminant", x)


@keras_op("Norm")
def norm(ctx: KerasContext, node: KerasNode) -> Value:
    """Norms of vectors, and the Frobenius norm of matrices."""
    x, order, axis = floating(ctx, node.input(0)), node.config.get("ord"), node.config.get("axis")
    dims, keep = axes(ctx, node, x), node.bool_attr("keepdims")
    vector = isinstance(axis, int) or (isinstance(axis, list) and len(axis) == 1)
    if order in (None, "fro") or (order == 2 and vector) or order == "euclidean":
        return unary(ctx, "SQRT", reduced(ctx, "SUM", unary(ctx, "SQUARE", x), dims, keep))
    size = unary(ctx, "ABS", x)
    if not vector or not isinstance(order, int | float):
        raise node.unsupported(f"a norm of order {order!r:.40} of matrices", "use the Frobenius norm")
    if math.isinf(order):
        return reduced(ctx, "MAXIMUM" if order > 0 else "MINIMUM", size, dims, keep)
    if order == 1:
        return reduced(ctx, "SUM", size, dims, keep)
    if order == 0:
        other = ctx.op("BinaryOp", size, ctx.const_like(0, size), opType="GREATER")
        return reduced(ctx, "SUM", ctx.cast(other, x.dtype or DType.F32), dims, keep)
    total = reduced(ctx, "SUM", binary(ctx, "POW", size, float(order)), dims, keep)
    return binary(ctx, "POW", total, 1 / float(order))


# -- windows -----------------------------------------------------------------------------------------------------------


def _of_layer(ctx: KerasContext, node: KerasNode, kind: str, config: Config, **arrays: np.ndarray) -> Value:
    """What a layer gives that is configured so."""
    return ctx.result(Part(kind, node.name, config, "", list(arrays), [], arrays), node.input(0))


def _kernel(node: KerasNode, index: int, key: str) -> np.ndarray:
    given: Any = node.argument(index, key)
    if isinstance(given, Value):
        if not given.is_const:
            raise node.unsupported("a kernel that is computed", "use a layer of Keras")
        given = given.array()
    return np.asarray(given, np.float32)


def _window(node: KerasNode, *keys: str) -> dict[str, Any]:
    wanted = ("strides", "padding", "data_format", "dilation_rate", *keys)
    return {k: node.config[k] for k in wanted if node.config.get(k) is not None}


@keras_op("Conv", "DepthwiseConv", "SeparableConv", "ConvTranspose")
def convolution(ctx: KerasContext, node: KerasNode) -> Value:
    """With a kernel that is a constant, as the layer has it."""
    kind, x = node.op.removeprefix("ops."), node.input(0)
    rank = ctx.sizes(x, node.where) - 2
    config = {**_window(node, "output_padding"), "use_bias": False}
    if kind == "SeparableConv":
        deep, point = _kernel(node, 1, "depthwise_kernel"), _kernel(node, 2, "pointwise_kernel")
        config["depth_multiplier"] = int(deep.shape[-1])
        return _of_layer(ctx, node, f"SeparableConv{rank}D", config, depthwise_kernel=deep, pointwise_kernel=point)
    kernel = _kernel(node, 1, "kernel")
    if kernel.ndim != rank + 2:
        raise node.unsupported(f"a kernel of {list(kernel.shape)}", "save the model again")
    if kind == "Conv":
        channels = known_size(node, x, 1 if config.get("data_format") == "channels_first" else rank + 1)
        config |= {"groups": max(channels // max(kernel.shape[-2], 1), 1), "filters": int(kernel.shape[-1])}
    elif kind == "DepthwiseConv":
        config["depth_multiplier"] = int(kernel.shape[-1])
    name = f"Conv{rank}DTranspose" if kind == "ConvTranspose" else f"{kind}{rank}D"
    return _of_layer(ctx, node, name, config, kernel=kernel)


@keras_op("AveragePool", "MaxPool", "AdaptiveAveragePool", "AdaptiveMaxPool")
def pooling(ctx: KerasContext, node: KerasNode) -> Value:
    kind = node.op.removeprefix("ops.")
    rank = ctx.sizes(node.input(0), node.where) - 2
    return _of_layer(ctx, node, f"{kind}ing{rank}D", _window(node, "pool_size", "output_size"))


@keras_op("ExtractPatches")
def patches(ctx: KerasContext, node: KerasNode) -> Value:
    size = node.ints_attr("size", 2)
    if node.get("data_format", "channels_last") != "channels_last":
        raise node.unsupported("channels before rows", "use data_format='channels_last'")
    strides = node.ints_attr("strides", 2, size)
    rates = node.ints_attr("dilation_rate", 2, 1)
    padding = node.choice_attr("padding", "valid", "valid", "same").upper()
    numbers = {k: [1, *v, 1] for k, v in (("ksizes", size), ("strides", strides), ("rates", rates))}
    x = node.input(0)
    return ctx.tf_like("ExtractImagePatches", x, padding=padding, **numbers)


@keras_op("RGBToGrayscale")
def grayscale(ctx: KerasContext, node: KerasNode) -> Value:
    """The luminance of ITU-R BT.601."""
    x = floating(ctx, node.input(0))
    axis = -3 if node.get("data_format", "channels_last") == "channels_first" else -1
    weights = np.asarray([0.2989, 0.587, 0.114], np.float32).reshape(3, *(1,) * (-1 - axis))
    product = binary(ctx, "MUL", x, ctx.const(weights, x.dtype))
    return reduced(ctx, "SUM", product, [ctx.sizes(x, node.where) + axis], True)


@keras_op("RGBToHSV", "HSVToRGB")
def colours(ctx: KerasContext, node: KerasNode) -> Value:
    if node.get("data_format", "channels_last") != "channels_last":
        raise node.unsupported("channels before rows", "use data_format='channels_last'")
    x = node.input(0)
    return ctx.tf_like(node.op.removeprefix("ops."), x)


# -- normalisation and attention ---------------------------------------------------------------------------------------


def _operand(ctx: KerasContext, given: Any, like: Value) -> Value | None:
    if given is None or isinstance(given, Value):
        return given
    return ctx.const(np.asarray(given), like.dtype or DType.F32)


@keras_op("BatchNorm")
def batch_norm(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    rank = ctx.sizes(x, node.where)
    axis = normalize_axis(node.int_attr("axis", -1), rank, node.where)
    names = ("mean", "variance", "offset", "scale")
    given = [_operand(ctx, node.argument(i + 1, k, None), x) for i, k in enumerate(names)]
    shape = [-1 if a == axis else 1 for a in range(rank)]
    mean, variance, offset, scale = (None if v is None else reshaped(ctx, v, shape) for v in given)
    if mean is None or variance is None:
        raise node.unsupported("no mean and variance", "save the model again")
    factor = unary(ctx, "RSQRT", binary(ctx, "ADD", variance, node.float_attr("epsilon", 1e-3)))
    factor = factor if scale is None else binary(ctx, "MUL", factor, scale)
    y = binary(ctx, "MUL", binary(ctx, "SUB", x, mean), factor)
    return y if offset is None else binary(ctx, "ADD", y, offset)


@keras_op("LayerNorm", "RMSNorm")
def layer_norm(ctx: KerasContext, node: KerasNode) -> Value:
    """Over the last axes, or others: scales are along these."""
    x, plain = node.input(0), node.op.endswith("LayerNorm")
    epsilon, given = node.float_attr("epsilon", 1e-7), node.config.get("axis", -1)
    rank = ctx.sizes(x, node.where)
    dims = sorted(normalize_axis(int(a), rank, node.where) for a in ([given] if isinstance(given, int) else given))
    if plain:
        y = standardized(ctx, x, dims, epsilon, centre=not node.bool_attr("rms_scaling"))
    else:
        mean = reduced(ctx, "MEAN", unary(ctx, "SQUARE", x), dims, True)
        y = binary(ctx, "MUL", x, unary(ctx, "RSQRT", binary(ctx, "ADD", mean, epsilon)))
    for i, (kind, key) in enumerate((("MUL", "gamma" if plain else "scale"), ("ADD", "beta"))):
        operand = _operand(ctx, node.argument(i + 1, key, None), x)
        if operand is not None:
            if ctx.rank(operand) != rank and dims != list(range(rank - len(dims), rank)):
                sizes = [known_size(node, x, a) if a in dims else 1 for a in range(rank)]
                operand = reshaped(ctx, operand, sizes)
            y = binary(ctx, kind, y, operand)
    return y


@keras_op("DotProductAttention")
def attention(ctx: KerasContext, node: KerasNode) -> Value:
    """Queries ``[B, T, N, H]``, keys and values ``[B, S, K, H]``; ``K`` heads serve ``N / K`` queries each."""
    query, key, value = (node.argument(i, k) for i, k in enumerate(("query", "key", "value")))
    if not all(isinstance(v, Value) and ctx.rank(v) == 4 for v in (query, key, value)):
        raise node.unsupported("operands that are not four axes", "reshape to [batch, steps, heads, width]")
    if node.config.get("attn_logits_soft_cap") is not None:
        raise node.unsupported("attn_logits_soft_cap", "leave it out")
    q, k, v = (turned(ctx, x, [0, 2, 1, 3]) for x in (query, key, value))
    heads, groups = known_size(node, query, 2), known_size(node, key, 2)
    if 1 < groups < heads:
        which = np.repeat(np.arange(groups, dtype=np.int32), heads // groups)
        k, v = (ctx.op("GatherV2", x, ctx.const(which), ctx.const(1, DType.I32)) for x in (k, v))
    given = [node.argument(i + 3, name, None) for i, name in enumerate(("bias", "mask", "scale"))]
    scale = 1 / math.sqrt(known_size(node, key, 3)) if given[2] is None else float(given[2])
    scores = ctx.op("MatMul", binary(ctx, "MUL", q, scale), k, transposeB=True)
    scores.dtype = q.dtype
    bias = _operand(ctx, given[0], q)
    scores = scores if bias is None else binary(ctx, "ADD", scores, bias)
    mask = given[1] if given[1] is None or isinstance(given[1], Value) else ctx.const(np.asarray(given[1], np.bool_))
    if node.bool_attr("is_causal"):
        lower = ctx.op("Unsqueeze", causal(ctx, query, key, (1, 1)), squeezeDims=[0, 1])
        lower.dtype = DType.BOOL
        mask = both(ctx, None if mask is None else ctx.cast(mask, DType.BOOL), lower)
    if mask is not None:
        scores = chosen(ctx, ctx.cast(mask, DType.BOOL), scores, -1e9 if q.dtype is not DType.F16 else -3e4)
    weights = ctx.op("Softmax", scores, axis=-1)
    weights.dtype = scores.dtype
    out = ctx.op("MatMul", weights, v)
    out.dtype = q.dtype
    return turned(ctx, out, [0, 2, 1, 3])
