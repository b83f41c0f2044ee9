"""Normalisations."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, cast, drop_axis, insert_axis, unary
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands, axis_inside, one_per_channel
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@onnx_op("BatchNormalization", operands=Operands(lists=(1, 2, 3, 4), check=one_per_channel))
def batch_norm(ctx: Context, node: OnnxNode) -> list[Value]:
    operands = [node.input(i) for i in range(5)]
    epsilon, momentum = node.float_attr("epsilon", 1e-5), node.float_attr("momentum", 0.9)
    if node.opset >= 14:
        training = node.bool_attr("training_mode", False)
    else:
        node.ignore("is_test", "consumed_inputs", "spatial")
        training = node.wants(1)
        if not node.int_attr("spatial", 1):
            raise node.unsupported("spatial=0", "export the model with opset 9 or newer")
    if training:
        return ctx.emit("BatchNormTraining", operands, 3, epsilon=epsilon, momentum=momentum)
    shape = ctx.static_shape(operands[1])
    return [ctx.op("BatchNorm", *operands, channels=shape[0] if shape else None, epsilon=epsilon)]


@onnx_op("InstanceNormalization", operands=Operands(lists=(1, 2), check=one_per_channel))
def instance_norm(ctx: Context, node: OnnxNode) -> Value:
    x, scale, bias = (node.input(i) for i in range(3))
    shape = ctx.static_shape(scale)
    node.ignore("consumed_inputs")
    rank = ctx.rank(x)
    planar = insert_axis(ctx, x, 2) if rank == 3 else x
    epsilon = node.float_attr("epsilon", 1e-5)
    out = ctx.op("InstanceNorm", planar, scale, bias, channels=shape[0] if shape else None, epsilon=epsilon)
    return drop_axis(ctx, out, 2) if rank == 3 else out


@onnx_op("GroupNormalization", since=21)
def group_norm(ctx: Context, node: OnnxNode) -> Value:
    x, scale, bias = (node.input(i) for i in range(3))
    node.ignore("stash_type")
    group, epsilon = node.int_attr("num_groups"), node.float_attr("epsilon", 1e-5)
    return ctx.op("GroupNorm", x, scale, bias, group=group, epsilon=epsilon)


@onnx_op("GroupNormalization", since=18)
def group_norm_per_group(ctx: Context, node: OnnxNode) -> Value:
    """Opset 18 has one scale per group, not per channel."""
    x, scale, bias = (node.input(i) for i in range(3))
    group, epsilon = node.int_attr("num_groups"), node.float_attr("epsilon", 1e-5)
    shape = ctx.declared(node.proto.input[0])[1] or x.shape
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    scales = [ctx.constant(v) for v in (scale, bias)]
    if not isinstance(channels, int) or any(s is None for s in scales) or channels % group:
        raise node.unsupported("a scale that is not constant, or an unknown channel count", "use opset 21")
    per = [ctx.const(np.repeat(s, channels // group)) for s in scales if s is not None]
    return ctx.op("GroupNorm", x, *per, group=group, epsilon=epsilon)


@onnx_op("LayerNormalization", "RMSNormalization", operands=Operands(check=axis_inside))
def layer_norm(ctx: Context, node: OnnxNode) -> list[Value]:
    x, gamma, beta = node.input(0), node.input(1), node.optional(2)
    axis, rank = node.int_attr("axis", -1), ctx.rank(x)
    node.ignore("stash_type")  # statistics are always taken in float32 at least
    epsilon = node.float_attr("epsilon", 1e-5)
    if axis >= 0 and rank is None:
        raise node.unsupported(f"axis {axis} of an input of unknown rank", "use a negative axis")
    count = -axis if axis < 0 else (rank or 0) - axis
    if not 0 <= count <= 64:
        raise FormatError(f"{node.where}: axis {axis} is outside an input of rank {rank}")
    axes = list(range(-count, 0))
    rms = node.op == "RMSNormalization"
    if node.wants(1) or node.wants(2):
        return ctx.emit("LayerNormalization", [x, gamma, beta], 3, axis=axes, epsilon=epsilon)
    return [ctx.op("LayerNorm", x, gamma, beta, axis=axes, epsilon=epsilon, useRMSNorm=rms or None)]


@onnx_op("LRN")
def lrn(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op(
        "LRN", node.input(0), regionType=0, localSize=node.int_attr("size"), alpha=node.float_attr("alpha", 1e-4),
        beta=node.float_attr("beta", 0.75), bias=node.float_attr("bias", 1.0),
    )  # fmt: skip


@onnx_op("MeanVarianceNormalization")
def mean_variance_norm(ctx: Context, node: OnnxNode) -> Value:
    """Of numbers of 16 bits in f32: squares, and a deviation of nothing, are beyond f16."""
    given, axes = node.input(0), node.ints_or("axes", [0, 2, 3])
    half = given.dtype if given.dtype in (DType.F16, DType.BF16) else None
    x = given if half is None else cast(ctx, given, DType.F32)
    mean = ctx.op("Reduction", x, operation="MEAN", dim=axes, keepDims=True)
    centred = binary(ctx, "SUB", x, mean)
    centred.dtype = x.dtype
    square = unary(ctx, "SQUARE", centred)
    variance = ctx.op("Reduction", square, operation="MEAN", dim=axes, keepDims=True)
    variance.dtype = x.dtype
    deviation = binary(ctx, "ADD", unary(ctx, "SQRT", variance), 1e-9)
    out = binary(ctx, "REALDIV", centred, deviation)
    return out if half is None else cast(ctx, out, half)


@onnx_op("LpNormalization")
def lp_norm(ctx: Context, node: OnnxNode) -> Value:
    p = node.int_attr("p", 2)
    if p not in (1, 2):
        raise node.unsupported(f"p = {p}", "use 1 or 2")
    return ctx.op("LpNormalization", node.input(0), axis=node.int_attr("axis", -1), p=p)


@onnx_op("Dropout")
def dropout(ctx: Context, node: OnnxNode) -> list[Value]:
    """Without training, the input and a mask of all true."""
    node.ignore("ratio", "is_test", "consumed_inputs")
    return _kept(ctx, node)


@onnx_op("Dropout", since=12, operands=Operands(singles=(1, 2)))
def dropout_by_operand(ctx: Context, node: OnnxNode) -> list[Value]:
    """Training is an operand here, which is only rarely not a constant false."""
    seed = node.int_attr("seed", 0) if node.has("seed") else None
    mode = ctx.constant(node.optional(2))
    if node.optional(2) is None or (mode is not None and not mode.any()):
        return _kept(ctx, node)
    return ctx.emit("DropoutTraining", [node.optional(i) for i in range(3)], 2, seed=seed)


def _kept(ctx: Context, node: OnnxNode) -> list[Value]:
    x = node.input(0)
    outputs = [ctx.op("Identity", x)]
    if node.wants(1):
        zero = ctx.op("ZerosLike", x)
        zero.dtype = x.dtype
        outputs.append(ctx.op("BinaryOp", zero, ctx.const_like(0, zero), opType="EQUAL"))
    return outputs
