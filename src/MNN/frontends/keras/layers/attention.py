"""Attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, insert_axis, select, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import masked_scores
from MNN.frontends.keras.node import KerasNode, tensors
from MNN.frontends.keras.part import Part
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis


def _product(ctx: KerasContext, x: Value, y: Value, turned: bool = False) -> Value:
    out = ctx.op("MatMul", x, y, transposeB=turned) if turned else ctx.op("MatMul", x, y)
    out.dtype = x.dtype
    return out


def causal(ctx: KerasContext, queries: Value, keys: Value, axes: tuple[int, int]) -> Value:
    """Which keys come not after which queries, ``[T, S]``; ``axes`` are those of the steps."""
    lines = _steps(ctx, queries, keys, axes)
    out = ctx.op("BinaryOp", insert_axis(ctx, lines[0], 1), insert_axis(ctx, lines[1], 0), opType="GREATER_EQUAL")
    out.dtype = DType.BOOL
    return out


def _steps(ctx: KerasContext, queries: Value, keys: Value, axes: tuple[int, int]) -> list[Value]:
    """The numbers of the steps of both."""
    lines = []
    for x, axis in zip((queries, keys), axes, strict=True):
        size = ctx.op(
            "Squeeze", ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 1), squeezeDims=[0]
        )
        line = ctx.op("Range", ctx.const(0, DType.I32), size, ctx.const(1, DType.I32))
        line.dtype = DType.I32
        lines.append(line)
    return lines


def both(ctx: KerasContext, first: Value | None, second: Value | None) -> Value | None:
    """Two masks at once; None counts everything."""
    if first is None or second is None:
        return second if first is None else first
    out = ctx.op("BinaryOp", ctx.cast(first, DType.BOOL), ctx.cast(second, DType.BOOL), opType="MUL")
    out.dtype = DType.BOOL
    return out


# -- one head ----------------------------------------------------------------------------------------------------------


def _attention_names(config: Config) -> Sequence[str]:
    names = ["scale"] if config.get("use_scale") else []
    return [*names, "concat_score_weight"] if config.get("score_mode") == "concat" else names


def _additive_names(config: Config) -> Sequence[str]:
    return ["scale"] if config.get("use_scale", True) else []


@keras_layer("Attention", variables=_attention_names)
def attention(ctx: KerasContext, node: KerasNode) -> list[Value]:
    query, key = node.input(0), node.inputs[2] if len(node.inputs) > 2 else node.input(1)
    scale, weight = ctx.weight(node, "scale"), ctx.weight(node, "concat_score_weight")
    if node.choice_attr("score_mode", "dot", "dot", "concat") == "dot":
        scores = _product(ctx, query, key, turned=True)
        scores = scores if scale is None else binary(ctx, "MUL", scores, scale)
    else:
        assert weight is not None
        scores = binary(ctx, "MUL", _summed(ctx, query, key, inner=scale, outer=None), weight)
    return _applied(ctx, node, scores)


@keras_layer("AdditiveAttention", variables=_additive_names)
def additive_attention(ctx: KerasContext, node: KerasNode) -> list[Value]:
    query, key = node.input(0), node.inputs[2] if len(node.inputs) > 2 else node.input(1)
    return _applied(ctx, node, _summed(ctx, query, key, inner=None, outer=ctx.weight(node, "scale")))


def _summed(ctx: KerasContext, query: Value, key: Value, inner: Value | None, outer: Value | None) -> Value:
    """``sum(outer * tanh(inner * (query + key)))`` for each pair of steps."""
    pairs = binary(ctx, "ADD", insert_axis(ctx, query, 2), insert_axis(ctx, key, 1))
    pairs = pairs if inner is None else binary(ctx, "MUL", pairs, inner)
    bent = ctx.op("TanH", pairs)
    bent.dtype = query.dtype
    bent = bent if outer is None else binary(ctx, "MUL", bent, outer)
    out = ctx.op("Reduction", bent, operation="SUM", dim=[3], keepDims=False)
    out.dtype = query.dtype
    return out


def _applied(ctx: KerasContext, node: KerasNode, scores: Value) -> list[Value]:
    """The values weighted by the scores of a query's steps. Masks come as ``[that of queries, that of values]``."""
    query, value = node.input(0), node.input(1)
    given = node.kwargs.get("mask")
    named = [v if isinstance(v, Value) else None for v in given] if isinstance(given, list) else []
    masks: list[Value | None] = [*(named or node.masks), None, None][:2]
    mask = None if masks[1] is None else insert_axis(ctx, masks[1], 1)
    if node.kwargs.get("use_causal_mask") or node.bool_attr("causal"):
        mask = both(ctx, mask, insert_axis(ctx, causal(ctx, query, scores, (1, 2)), 0))
    if mask is not None:
        scores = masked_scores(ctx, scores, mask)
    weights = ctx.op("Softmax", scores, axis=-1)
    weights.dtype = scores.dtype
    out = _product(ctx, weights, value)
    if masks[0] is not None:
        out = ctx.op("Select", insert_axis(ctx, masks[0], 2), out, ctx.const_like(0, out))
        out.dtype = query.dtype
        ctx.masks[out] = masks[0]
    return [out, weights] if node.kwargs.get("return_attention_scores") else [out]


# -- several heads -----------------------------------------------------------------------------------------------------


def _projection(config: Config, name: str, trainable: bool) -> Config:
    bias = "x" if config.get("use_bias", True) else None
    inner = {"name": name, "bias_axes": bias, "trainable": trainable, "dtype": config.get("dtype")}
    return {"class_name": "EinsumDense", "config": inner}


def _projections(config: Config) -> Sequence[tuple[str, Config]]:
    trainable = bool(config.get("trainable", True))
    names = ["query", "key", *(["gate"] if config.get("use_gate") else []), "value", "output"]
    return [(f"{name}_dense", _projection(config, name, trainable)) for name in names]


@keras_layer("MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention", parts=_projections)
def multi_head_attention(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """Queries, keys and values of all heads as one product each; the heads apart; and the outputs together."""
    given: dict[str, Value] = {}
    for i, name in enumerate(("query", "value", "key")):
        found = tensors(node.argument(i, name, None))
        if found:
            given[name] = found[0]
    query, value = given["query"], given["value"]
    key = given.get("key", value)
    if any(ctx.rank(v) != 3 for v in (query, key, value)) or node.config.get("attention_axes") not in (None, [1], [-2]):
        return [_over_axes(ctx, node, query, key, value)]
    part = node.part
    q, k, v = (_heads(ctx, part.child(f"{n}_dense"), x) for n, x in (("query", query), ("key", key), ("value", value)))
    _, heads, width = _numbers(part.child("query_dense"))[0].shape
    groups = _numbers(part.child("key_dense"))[0].shape[1]
    if heads != groups:
        k, v = (_shared(ctx, x, heads // groups) for x in (k, v))
    scores = _product(ctx, binary(ctx, "MUL", q, 1 / math.sqrt(width)), k, turned=True)
    mask = _mask(ctx, node, query, key, value)
    if mask is not None:
        scores = masked_scores(ctx, scores, mask)
    weights = ctx.op("Softmax", scores, axis=-1)
    weights.dtype = scores.dtype
    heard, told = _product(ctx, weights, v), bool(node.kwargs.get("return_attention_scores"))
    if mask is not None and not ctx.of_old and (told or node.float_attr("dropout", 0.0) > 0):
        # Keras computes these by its layer Softmax, for which queries that see nothing have no weights
        some = ctx.op("Reduction", ctx.cast(mask, DType.I32), operation="MAXIMUM", dim=[3], keepDims=True)
        some.dtype = DType.I32
        sees = ctx.cast(some, DType.BOOL)
        heard = select(ctx, sees, heard, 0)
        weights = select(ctx, sees, weights, 0) if told else weights
    together = ctx.op("Permute", heard, dims=[0, 2, 1, 3])
    together.dtype = query.dtype
    if node.bool_attr("use_gate"):
        gate = ctx.op("Permute", _heads(ctx, part.child("gate_dense"), query), dims=[0, 2, 1, 3])
        gate.dtype = query.dtype
        together = binary(ctx, "MUL", together, ctx.op("Sigmoid", gate))
    out = _out(ctx, part.child("output_dense"), together)
    if node.op == "MultiHeadAttention" and not ctx.of_old:  # as Keras 3 has it: what is called later sees them no more
        for x in (query, value, key):
            ctx.masks.pop(x, None)
    if node.masks and node.masks[0] is not None:
        ctx.masks[out] = node.masks[0]
    return [out, weights] if told else [out]


def _over_axes(ctx: KerasContext, node: KerasNode, query: Value, key: Value, value: Value) -> Value:
    """Attention over some of the axes between the first and the last one: the others are as samples meanwhile."""
    rank = ctx.sizes(query, node.where)
    given = node.config.get("attention_axes") or list(range(1, rank - 1))
    axes = sorted(normalize_axis(int(a), rank, node.where) for a in (given if isinstance(given, list) else [given]))
    plain = not any(m is not None for m in node.masks) and not set(node.kwargs) & {"attention_mask", "query_mask"}
    asked = node.kwargs.get("use_causal_mask") or node.kwargs.get("return_attention_scores")
    if any(ctx.rank(v) != rank for v in (key, value)) or not axes or axes[0] < 1 or axes[-1] > rank - 2:
        raise node.unsupported(f"attention over the axes {given} of {rank}", "use axes between the first and the last")
    if asked or not plain:
        raise node.unsupported("masks or scores of attention over several axes", "reshape to one axis of steps before")
    others = [a for a in range(1, rank - 1) if a not in axes]
    order = [0, *others, *axes, rank - 1]

    def sizes(x: Value, of: Sequence[int]) -> list[int]:
        found = [(x.shape or ())[a] for a in of]
        if not all(isinstance(n, int) for n in found):
            raise node.unsupported("attention over axes of open sizes", "save the model with shapes")
        return [int(n) for n in found]

    rows = []
    for x in (query, value, key):
        turned = ctx.tf("Transpose", x, ctx.const(order, DType.I32))
        flat = ctx.op("Reshape", turned, ctx.const([-1, math.prod(sizes(x, axes)), *sizes(x, [rank - 1])]))
        flat.dtype = x.dtype
        rows.append(flat)
    inner = replace(node.part, config={**node.part.config, "attention_axes": None})
    out = ctx.result(inner, *rows, masks=[None] * 3)
    apart = ctx.op("Reshape", out, ctx.const([-1, *sizes(query, [*others, *axes]), *sizes(out, [2])]))
    apart.dtype = query.dtype
    return ctx.tf("Transpose", apart, ctx.const([order.index(a) for a in range(rank)], DType.I32))


def _numbers(part: Part, like: Value | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """A projection's kernel and bias, in the type of ``like``."""
    node = KerasNode(part, [], {})
    kernel, bias = node.array("kernel"), node.array("bias")
    if kernel is None or kernel.ndim < 3:
        raise FormatError(f"{node.where}: its kernel is {None if kernel is None else list(kernel.shape)}")
    dtype = (like.dtype if like is not None and like.dtype is not None else DType.F32).numpy
    return kernel.astype(dtype, copy=False), None if bias is None else bias.astype(dtype, copy=False)


def _heads(ctx: KerasContext, part: Part, x: Value) -> Value:
    """A projection ``[D, N, H]`` of ``[B, T, D]`` as ``[B, N, T, H]``."""
    kernel, bias = _numbers(part, x)
    _, count, width = kernel.shape
    y = _product(ctx, x, ctx.const(np.ascontiguousarray(kernel.reshape(len(kernel), -1))))
    if bias is not None:
        y = binary(ctx, "ADD", y, ctx.const(bias.reshape(-1)))
    apart = ctx.op("Reshape", y, ctx.const([0, 0, count, width]))
    apart.dtype = x.dtype
    out = ctx.op("Permute", apart, dims=[0, 2, 1, 3])
    out.dtype = x.dtype
    return out


def _out(ctx: KerasContext, part: Part, x: Value) -> Value:
    """The product of all heads' results ``[B, T, N, H]`` with ``[N, H, ...]``."""
    kernel, bias = _numbers(part, x)
    count, width, *rest = kernel.shape
    flat = ctx.op("Reshape", x, ctx.const([0, 0, count * width]))
    flat.dtype = x.dtype
    y = _product(ctx, flat, ctx.const(np.ascontiguousarray(kernel.reshape(count * width, -1))))
    if len(rest) > 1:
        y = ctx.op("Reshape", y, ctx.const([0, 0, *rest]))
        y.dtype = x.dtype
    return y if bias is None else binary(ctx, "ADD", y, ctx.const(bias))


def _shared(ctx: KerasContext, x: Value, times: int) -> Value:
    """Each of the heads of ``[B, G, S, H]`` for several queries."""
    which = np.repeat(np.arange((x.shape or (0, 1))[1], dtype=np.int32), times)
    out = ctx.op("GatherV2", x, ctx.const(which), ctx.const(1, DType.I32))
    out.dtype = x.dtype
    return out


def _mask(ctx: KerasContext, node: KerasNode, query: Value, key: Value, value: Value) -> Value | None:
    """``[B, N or 1, T, S]`` or what broadcasts to it: all masks there are at once."""

    def own(name: str, x: Value) -> Value | None:
        return node.tensor_kwarg(f"{name}_mask") or ctx.masks.get(x)

    mask: Value | None = None
    for name, x, axes in (("query", query, [1, 3]), ("value", value, [1, 2]), ("key", key, [1, 2])):
        found = own(name, x)
        if found is not None and not (name == "key" and key is value):
            mask = both(ctx, mask, ctx.op("Unsqueeze", found, squeezeDims=axes))
    given = node.tensor_kwarg("attention_mask")
    if given is not None:
        rank = ctx.sizes(given, node.where)
        given = given if rank == 4 else ctx.op("Unsqueeze", given, squeezeDims=[1] if rank == 3 else [0, 1])
        mask = both(ctx, mask, ctx.cast(given, DType.BOOL))
    if node.kwargs.get("use_causal_mask"):
        mask = both(ctx, mask, ctx.op("Unsqueeze", causal(ctx, query, value, (1, 1)), squeezeDims=[0, 1]))
    if node.config.get("sliding_window") is not None:
        near = _near(ctx, query, value, node.int_attr("sliding_window"))
        mask = both(ctx, mask, ctx.op("Unsqueeze", near, squeezeDims=[0, 1]))
    return mask


def _near(ctx: KerasContext, query: Value, value: Value, window: int) -> Value:
    """Which keys are fewer than ``window`` steps from which queries, ``[T, S]``."""
    lines = _steps(ctx, query, value, (1, 1))
    apart = binary(ctx, "SUB", insert_axis(ctx, lines[0], 1), insert_axis(ctx, lines[1], 0))
    near = ctx.op("BinaryOp", unary(ctx, "ABS", apart), ctx.const(window, DType.I32), opType="LESS")
    near.dtype = DType.BOOL
    return near
