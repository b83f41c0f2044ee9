"""Normalisations."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.aten.reductions import p_norm, reduced
from MNN.frontends.torch.aten.running import moved
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import HALVES, apply, aten, in_f32
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _per_channel(ctx: TorchBuilder, given: Value | None, channels: int, default: float) -> Value:
    return ctx.const(np.full(channels, default, np.float32)) if given is None else given


def _channels(ctx: TorchBuilder, x: Value, *given: Value | None) -> int:
    for v in given:
        if v is not None and v.shape is not None and isinstance(v.shape[0], int):
            return v.shape[0]
    return ctx.known(ctx.size(x, 1), "a number of channels")


@aten("batch_norm")
def batch_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    channels = _channels(ctx, x, weight, bias, mean)
    if mean is None or var is None or training:
        return _by_batch(ctx, x, weight, bias, eps)[0]
    scale, shift = _per_channel(ctx, weight, channels, 1.0), _per_channel(ctx, bias, channels, 0.0)
    dtype = ctx.type_of(x)
    statistics = [v if dtype is DType.F64 else ctx.cast(v, DType.F32) for v in (scale, shift, mean, var)]
    operands = [ctx.cast(v, dtype) if dtype is DType.F64 else v for v in statistics]
    wide = x if dtype in (DType.F32, DType.F64) else ctx.cast(x, DType.F32)
    return ctx.cast(ctx.op("BatchNorm", wide, *operands, channels=channels, epsilon=float(eps)), dtype)


@aten(
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit",
    "native_batch_norm",
    "_native_batch_norm_legit_functional",
)
def native_batch_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, *args: object
) -> list[Value]:
    """With running statistics or without; mean and deviation of the batch are given in training alone."""
    given = list(args)
    statistics: list[Value | None] = [None, None]
    if not isinstance(given[0], bool):
        statistics = [v if isinstance(v, Value) else None for v in given[:2]]
        given = given[2:]
    training = ctx.name != "_native_batch_norm_legit_no_training" and bool(given.pop(0))
    eps = given[1] if len(given) > 1 else 1e-5
    assert isinstance(eps, (int, float))
    if training or statistics[0] is None:
        found = _by_batch(ctx, x, weight, bias, eps)
        if ctx.name == "_native_batch_norm_legit_functional":
            axes = [i for i in range(ctx.rank_of(x)) if i != 1]
            found += moved(ctx, x, statistics[0], statistics[1], given[0], axes)  # type: ignore[arg-type]
        return found
    out = batch_norm(ctx, x, weight, bias, statistics[0], statistics[1], False, 0.1, eps)
    kind = ctx.type_of(x if weight is None else weight)
    return [out, *(ctx.const(np.zeros(0, kind.numpy)) for _ in range(2))]


def _by_batch(ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, eps: float) -> list[Value]:
    """With the statistics of the batch itself: the result, the mean and the inverse deviation."""
    rank = ctx.rank_of(x)
    axes = [i for i in range(rank) if i != 1]
    kind = ctx.type_of(x)
    x = ctx.cast(x, DType.F32) if kind in HALVES else x
    mean = reduced(ctx, "MEAN", x, axes, True)
    apart = ctx.op("BinaryOp", x, mean, opType="SUB")
    var = reduced(ctx, "MEAN", ctx.unary("SQUARE", apart), axes, True)
    inverse = ctx.unary("RSQRT", ctx.binary("ADD", var, eps))
    out = ctx.op("BinaryOp", apart, inverse, opType="MUL")
    out = _scaled(ctx, out, weight, bias, 1)
    held = kind if weight is None else ctx.type_of(weight)
    return [ctx.cast(out, kind), *(ctx.cast(ctx.op("Reshape", v, ctx.const([-1])), held) for v in (mean, inverse))]


def _scaled(ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, axis: int) -> Value:
    """Times weights, plus biases, that lie along an axis."""
    shape = [1] * ctx.rank_of(x)
    shape[axis] = -1
    for v, kind in ((weight, "MUL"), (bias, "ADD")):
        if v is not None:
            line = ctx.cast(ctx.op("Reshape", v, ctx.const(shape)), ctx.type_of(x))
            x = ctx.op("BinaryOp", x, line, opType=kind)
    return x


@aten("instance_norm")
def instance_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None,
    use_input_stats: bool, momentum: float = 0.1, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    if not use_input_stats:
        return batch_norm(ctx, x, weight, bias, mean, var, False, momentum, eps)
    channels = _channels(ctx, x, weight, bias)
    planar = ctx.unsqueeze(x, 2) if ctx.rank_of(x) == 3 else x
    scale, shift = _per_channel(ctx, weight, channels, 1.0), _per_channel(ctx, bias, channels, 0.0)
    out = ctx.op("InstanceNorm", planar, scale, shift, channels=channels, epsilon=float(eps))
    return ctx.squeeze(out, 2) if ctx.rank_of(x) == 3 else out


@aten("layer_norm")
def layer_norm(
    ctx: TorchBuilder, x: Value, normalized_shape: list[int], weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Value:  # fmt: skip
    axes = list(range(-len(normalized_shape), 0))
    if weight is None and bias is not None:
        weight = ctx.op("Fill", ctx.shape_like(bias), ctx.const_like(1, bias))
    return ctx.op("LayerNorm", x, weight, bias, axis=axes, epsilon=float(eps))


@aten("native_layer_norm")
def native_layer_norm(
    ctx: TorchBuilder, x: Value, normalized_shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value]:
    axes = list(range(-len(normalized_shape), 0))
    if weight is None:
        weight = ctx.op("Fill", ctx.ints(normalized_shape), ctx.const_like(1, x))
    found = ctx.emit("LayerNormalization", [x, weight, bias], 3, axis=axes, epsilon=float(eps))
    return [found[0], *(ctx.cast(v, ctx.type_of(x)) for v in found[1:])]


@aten("rms_norm", "_fused_rms_norm")
def rms_norm(
    ctx: TorchBuilder, x: Value, normalized_shape: list[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    if eps is None:
        eps = {DType.F16: 0.0009765625, DType.BF16: 0.0078125, DType.F64: 2.220446049250313e-16}.get(
            ctx.type_of(x), 1.1920928955078125e-07
        )
    return ctx.op(
        "LayerNorm", x, weight, None, axis=list(range(-len(normalized_shape), 0)), epsilon=float(eps), useRMSNorm=True
    )


@aten("group_norm")
def group_norm(
    ctx: TorchBuilder, x: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    channels = _channels(ctx, x, weight, bias)
    scale, shift = _per_channel(ctx, weight, channels, 1.0), _per_channel(ctx, bias, channels, 0.0)
    return ctx.op("GroupNorm", x, scale, shift, group=num_groups, epsilon=float(eps))


@aten("native_group_norm")
def native_group_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, n: int | Number, c: int | Number,
    hxw: int | Number, group: int, eps: float,
) -> list[Value]:  # fmt: skip
    out = group_norm(ctx, x, group, weight, bias, eps)
    count = compute(ctx, "floordiv", compute(ctx, "mul", c, hxw), group)
    assert not isinstance(count, float)
    rows = ctx.reshape(x, [n, group, count])  # of an empty batch, nothing else tells it
    return [out, *_moments(ctx, rows, eps)]


@in_f32
def _moments(ctx: TorchBuilder, rows: Value, eps: float) -> list[Value]:
    """The mean and the inverse deviation of rows ``[n, group, count]``."""
    mean = reduced(ctx, "MEAN", rows, [2], True)
    var = reduced(ctx, "MEAN", ctx.unary("SQUARE", ctx.op("BinaryOp", rows, mean, opType="SUB")), [2], False)
    return [ctx.squeeze(mean, 2), ctx.unary("RSQRT", ctx.binary("ADD", var, eps))]


@aten("local_response_norm")
def local_response_norm(
    ctx: TorchBuilder, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    return ctx.op("LRN", x, regionType=0, localSize=size, alpha=alpha, beta=beta, bias=k)


@aten("normalize")
@in_f32
def normalize(ctx: TorchBuilder, x: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Value:
    size = ctx.binary("MAXIMUM", p_norm(ctx, x, p, dim, True), eps)
    return ctx.op("BinaryOp", x, size, opType="REALDIV")


@aten("cosine_similarity")
@in_f32
def cosine_similarity(ctx: TorchBuilder, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """Each length is at least ``eps``; lengths are of what broadcasting makes."""
    left, right = ctx.together(x, y)
    if left.shape != right.shape:
        left, right = apply(ctx, "broadcast_tensors", [[left, right]], {})
    dot = reduced(ctx, "SUM", ctx.op("BinaryOp", left, right, opType="MUL"), dim, False)
    lengths = [ctx.binary("MAXIMUM", p_norm(ctx, v, 2, dim, False), eps) for v in (left, right)]
    return ctx.op("BinaryOp", dot, ctx.op("BinaryOp", lengths[0], lengths[1], opType="MUL"), opType="REALDIV")


@aten("pairwise_distance")
@in_f32
def pairwise_distance(
    ctx: TorchBuilder, x: Value, y: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    apart = ctx.binary("ADD", ctx.binary("SUB", x, y), eps)
    return p_norm(ctx, apart, p, -1, keepdim)


@aten("weight_norm", "_weight_norm")
@in_f32
def weight_norm(ctx: TorchBuilder, v: Value, g: Value, dim: int = 0) -> Value:
    axes = [i for i in range(ctx.rank_of(v)) if i != dim]
    size = p_norm(ctx, v, 2, axes, True)
    return ctx.op("BinaryOp", v, ctx.op("BinaryOp", g, size, opType="REALDIV"), opType="MUL")
