"""Derivatives of what takes numbers from places: they go back there; and of normalisation."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, cast, insert_axis, unary
from MNN.frontends.common.terms import line, scalar
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.messages import new
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.pooling import max_pool_with_argmax
from MNN.frontends.tensorflow.operators.slicing import strided_slice
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _open(ctx: Context, node: TfNode, rank: int) -> tuple[str, ...]:
    return tuple(ctx.unique(f"{node.name}.{axis}") for axis in range(rank))


def _like(node: TfNode, op: str, inputs: list[Value]) -> TfNode:
    """The node whose derivative a node is: its attributes are the same."""
    proto = new("NodeDef")
    proto.CopyFrom(node.proto)
    proto.op = op
    return TfNode(proto, node.name, inputs)


def _back(ctx: Context, at: Value, slope: Value, shape: Value) -> Value:
    """Numbers added up at their places, counted through a tensor of a shape."""
    flat_at, flat = (ctx.op("Reshape", v, ctx.const([-1])) for v in (at, slope))
    flat.dtype = slope.dtype
    count = ctx.op("Reduction", shape, operation="PROD", dim=[0], keepDims=True)
    zeros = ctx.op("Fill", count, ctx.const_like(0, slope))
    out = ctx.op("ScatterNd", insert_axis(ctx, flat_at, 1), flat, count, zeros, opType="ADD")
    out = ctx.op("Reshape", out, shape)
    out.dtype = slope.dtype
    return out


@tf_op("StridedSliceGrad")
def strided_slice_slope(ctx: Context, node: TfNode) -> Value:
    shape, slope = cast(ctx, node.input(0), DType.I32), node.input(4)
    count = ctx.op("Reduction", shape, operation="PROD", dim=[0], keepDims=True)
    count.dtype = DType.I32
    places = ctx.op("Reshape", line(ctx, scalar(ctx, count)), shape)
    rank = shape.shape[0] if shape.shape else None
    places.dtype, places.shape = DType.I32, _open(ctx, node, rank) if isinstance(rank, int) else None
    node.ignore("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    at = strided_slice(ctx, _like(node, "StridedSlice", [places, *node.tensors(1, 4)]))
    assert isinstance(at, Value)
    return _back(ctx, at, slope, shape)


@tf_op("MaxPoolGrad")
def max_pool_slope(ctx: Context, node: TfNode) -> Value:
    """To the first of the largest numbers of each window."""
    x, slope = node.input(0), node.input(2)
    node.ignore("ksize", "strides", "padding", "data_format", "explicit_paddings")
    found = _like(node, "MaxPoolWithArgmax", [x])
    found.proto.attr["include_batch_in_index"].b = True
    pooled = max_pool_with_argmax(ctx, found)
    assert not isinstance(pooled, Value)
    return _back(ctx, pooled[1], slope, ctx.op("Shape", x))


@tf_op("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_slope(ctx: Context, node: TfNode) -> list[Value]:
    """With respect to the input, scale and offset, moments being constants, as they are in inference."""
    slope, x, scale, mean, variance = node.tensors(0, 5)
    if node.bool_attr("is_training", True):
        raise node.unsupported("a derivative of normalisation in training", "call the model with training=False")
    node.choice_attr("data_format", "NHWC", "NHWC")
    if ctx.rank(x) != 4:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    inverse = unary(ctx, "RSQRT", binary(ctx, "ADD", variance, node.float_attr("epsilon", 1e-4)))
    normal = binary(ctx, "MUL", binary(ctx, "SUB", x, mean), inverse)

    def total(value: Value) -> Value:
        return ctx.op("Reduction", value, operation="SUM", dim=[0, 1, 2], keepDims=False)

    sums = total(binary(ctx, "MUL", slope, normal)), total(slope)
    return [binary(ctx, "MUL", slope, binary(ctx, "MUL", scale, inverse)), *sums, mean, variance]


@tf_op("ConcatOffset")
def concat_offsets(ctx: Context, node: TfNode) -> list[Value]:
    """Where each of several tensors begins in what they are joined to; ``[rank]`` each."""
    node.ignore("N")
    axis, shapes = ctx.constant_ints(node.input(0)), [cast(ctx, v, DType.I32) for v in node.tensors(1)]
    rank = shapes[0].shape[0] if shapes and shapes[0].shape else None
    if not axis or not isinstance(rank, int):
        raise node.unsupported("an axis that is not constant, or shapes of unknown rank", "export it with shapes")
    mask = ctx.const([int(i == axis[0] % rank) for i in range(rank)], DType.I32)
    begins = [ctx.const([0] * rank, DType.I32)]
    for shape in shapes[:-1]:
        begins.append(binary(ctx, "ADD", begins[-1], binary(ctx, "MUL", shape, mask)))
    return begins
