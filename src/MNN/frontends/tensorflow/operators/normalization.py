"""Normalisations."""

from __future__ import annotations

from functools import reduce

from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.common.nhwc import channels_first, channels_last
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tf_op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def fused_batch_norm(ctx: Context, node: TfNode) -> list[Value]:
    """With ``is_training`` the batch's own statistics are used, as some models do when they run too."""
    x, scale, offset, mean, variance = node.tensors(0, 5)
    epsilon = node.float_attr("epsilon", 1e-4)
    node.ignore("num_side_inputs")
    share = node.float_attr("exponential_avg_factor", 1.0)
    old, told = [mean, variance], variance
    layout = node.choice_attr("data_format", "NHWC", "NHWC", "NCHW", "NDHWC", "NCDHW")
    first, rank = layout[1] == "C", len(layout)
    y = x if first else channels_first(ctx, x, rank)
    if node.bool_attr("is_training", True):
        axes = [a for a in range(rank) if a != 1]
        mean, variance = _moments(ctx, y, axes)
        told = _unbiased(ctx, y, variance, axes)
    y = ctx.op("BatchNorm", y, scale, offset, mean, variance, epsilon=epsilon)
    y = y if first else channels_last(ctx, y, rank)
    activation = node.choice_attr("activation_mode", "Identity", "Identity", "Relu")
    if len(node.inputs) > 5:
        y = binary(ctx, "ADD", y, node.input(5))
    if activation == "Relu":
        y = ctx.op("ReLU", y)
    # what follows is for training: the batch's statistics, as a model keeps them and as gradients need them
    kept = [mean, told]
    if told is not old[1] and share != 1:
        kept = [
            binary(ctx, "ADD", binary(ctx, "MUL", v, 1 - share), binary(ctx, "MUL", n, share))
            for v, n in zip(old, kept, strict=True)
        ]
    return [y, *(ctx.op("Identity", v) for v in (*kept, mean, variance, mean))]


def _unbiased(ctx: Context, x: Value, variance: Value, axes: list[int]) -> Value:
    """What the variance of all there is may be, told by this batch: n / (n - 1) times its own."""
    size = ctx.op("Shape", x)
    counts = [ctx.op("GatherV2", size, ctx.const(a, DType.I32), ctx.const(0, DType.I32)) for a in axes]
    number = reduce(lambda a, b: ctx.op("BinaryOp", a, b, opType="MUL"), counts)
    number = ctx.op("CastLike", number, variance)
    number.dtype = variance.dtype
    rest = binary(ctx, "MAXIMUM", binary(ctx, "SUB", number, 1), 1)
    return binary(ctx, "MUL", variance, binary(ctx, "REALDIV", number, rest))


def _moments(ctx: Context, x: Value, axes: list[int]) -> tuple[Value, Value]:
    mean = ctx.op("Reduction", x, operation="MEAN", dim=axes, keepDims=True)
    mean.dtype = x.dtype
    square = unary(ctx, "SQUARE", binary(ctx, "SUB", x, mean))
    variance = ctx.op("Reduction", square, operation="MEAN", dim=axes, keepDims=False)
    variance.dtype = x.dtype
    return ctx.op("Reshape", mean, ctx.const([-1])), variance


@tf_op("BatchNormWithGlobalNormalization")
def batch_norm_global(ctx: Context, node: TfNode) -> Value:
    x, mean, variance, offset, scale = node.tensors(0, 5)
    epsilon = node.float_attr("variance_epsilon")
    if not node.bool_attr("scale_after_normalization"):
        scale = ctx.op("Fill", ctx.op("Shape", offset), ctx.const_like(1, offset))
    y = ctx.op("BatchNorm", channels_first(ctx, x), scale, offset, mean, variance, epsilon=epsilon)
    return channels_last(ctx, y)


@tf_op("LRN")
def lrn(ctx: Context, node: TfNode) -> Value:
    size = 2 * node.int_attr("depth_radius", 5) + 1
    y = ctx.op(
        "LRN", channels_first(ctx, node.input(0)), regionType=0, localSize=size,
        alpha=node.float_attr("alpha", 1.0) * size, beta=node.float_attr("beta", 0.5),
        bias=node.float_attr("bias", 1.0),
    )  # fmt: skip
    return channels_last(ctx, y)
