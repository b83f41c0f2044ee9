"""ONNX Runtime's own quantised operators (domain com.microsoft), written with ONNX's own ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.frontends.common.dynamic_products import dynamic_bytes
from MNN.frontends.common.expressions import binary, select
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.contrib.math import MICROSOFT, plus
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operators.pooling import pooled
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def dequantized(ctx: Context, node: OnnxNode, first: int, axis: int = 1) -> Value:
    """The float that inputs ``first`` (numbers), ``first + 1`` (scale) and ``first + 2`` (zero point) stand for."""
    return restored(ctx, node.input(first), node.input(first + 1), node.optional(first + 2), axis)


def restored(ctx: Context, x: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    out = ctx.op("DequantizeLinear", x, scale, zero, axis=axis)
    out.dtype = DType.F32
    return out


def _requantized(ctx: Context, node: OnnxNode, x: Value, scale: int) -> Value:
    return ctx.op("QuantizeLinear", x, node.input(scale), node.optional(scale + 1), axis=1)


@onnx_op("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def linear(ctx: Context, node: OnnxNode) -> Value:
    inputs = [node.input(0), node.input(1), node.optional(2)]
    return ctx.op(node.op, *inputs, axis=node.int_attr("axis", 1), block_size=node.int_attr("block_size", 0) or None)


@onnx_op("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(ctx: Context, node: OnnxNode) -> Value:
    kind = "ADD" if node.op == "QLinearAdd" else "MUL"
    return _requantized(ctx, node, binary(ctx, kind, dequantized(ctx, node, 0), dequantized(ctx, node, 3)), 6)


@onnx_op("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MICROSOFT)
def qlinear_unary(ctx: Context, node: OnnxNode) -> Value:
    x = dequantized(ctx, node, 0)
    if node.op == "QLinearSoftmax":
        axis, opset = node.int_attr("axis", -1), node.int_attr("opset", 13)
        if opset < 13 and axis not in (-1, (ctx.rank(x) or 0) - 1):
            raise node.unsupported(f"axis {axis} with opset {opset}", "quantise a model of opset 13 or newer")
        return _requantized(ctx, node, ctx.op("Softmax", x, axis=axis), 3)
    makers: dict[str, Callable[[], Value]] = {
        "QLinearSigmoid": lambda: ctx.op("Sigmoid", x),
        "QLinearLeakyRelu": lambda: ctx.op("ReLU", x, slope=node.float_attr("alpha", 0.01)),
    }
    return _requantized(ctx, node, makers[node.op](), 3)


@onnx_op("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(ctx: Context, node: OnnxNode) -> Value:
    last, rank = node.int_attr("channels_last", 0), ctx.rank(node.input(0))
    if rank is None:
        raise node.unsupported("an input of unknown rank")
    axes = list(range(1, rank - 1)) if last else list(range(2, rank))
    mean = ctx.op("Reduction", dequantized(ctx, node, 0), operation="MEAN", dim=axes, keepDims=True)
    return _requantized(ctx, node, mean, 3)


@onnx_op("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(ctx: Context, node: OnnxNode) -> Value:
    if node.bool_attr("channels_last", False):
        raise node.unsupported("channels that come last", "transpose the input before and the result after")
    (mean,) = pooled(ctx, node, node.op.removeprefix("QLinear"), dequantized(ctx, node, 0))
    return _requantized(ctx, node, mean, 3)


@onnx_op("QLinearWhere", domain=MICROSOFT)
def qlinear_where(ctx: Context, node: OnnxNode) -> Value:
    """Inputs: condition, then number, scale and zero point of both sides, then scale and zero point of the result."""
    chosen = select(ctx, node.input(0), dequantized(ctx, node, 1), dequantized(ctx, node, 4))
    return _requantized(ctx, node, chosen, 7)


@onnx_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(ctx: Context, node: OnnxNode) -> Value:
    """Inputs: scale and zero point of the result, then number, scale and zero point of each part."""
    parts = [dequantized(ctx, node, i) for i in range(2, len(node.inputs), 3)]
    return _requantized(ctx, node, ctx.op("Concat", *parts, axis=node.int_attr("axis")), 0)


@onnx_op("QGemm", domain=MICROSOFT)
def qgemm(ctx: Context, node: OnnxNode) -> Value:
    """``alpha * op(A) @ op(B) + C`` of quantised numbers; C is i32 in steps of both scales; without a scale of the
    result it is a float."""
    alpha, transposed = node.float_attr("alpha", 1.0), node.bool_attr("transB", False)
    if node.bool_attr("transA", False):
        raise node.unsupported("a transposed A", "transpose it before")
    y = node.input(3)
    y = ctx.op("Permute", y, dims=[1, 0]) if transposed else y
    total = ctx.op("MatMulInteger", node.input(0), y, node.optional(2), node.optional(5))
    total.dtype = DType.I32
    total = plus(ctx, total, node.optional(6))
    out = _scaled(ctx, total, node.input(1), node.input(4), None)
    out = out if alpha == 1 else binary(ctx, "MUL", out, alpha)
    return out if node.optional(7) is None else _requantized(ctx, node, out, 7)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(ctx: Context, node: OnnxNode) -> Value:
    """Inputs A, B, scale of A, scale of B, zero points of both, bias; scales and zero points of B may be per column."""
    total = ctx.op("MatMulInteger", node.input(0), node.input(1), node.optional(4), node.optional(5))
    return _scaled(ctx, total, node.input(2), node.input(3), node.optional(6))


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(ctx: Context, node: OnnxNode) -> Value:
    """Inputs A (float), B, scale of B, zero point of B, bias."""
    x, scale, zero = dynamic_bytes(ctx, node.input(0))
    total = ctx.op("MatMulInteger", x, node.input(1), zero, node.optional(3))
    return _scaled(ctx, total, scale, node.input(2), node.optional(4))


def _scaled(ctx: Context, total: Value, x_scale: Value, y_scale: Value, bias: Value | None) -> Value:
    wide = ctx.op("Cast", total, dstT="DT_FLOAT")
    wide.dtype = x_scale.dtype = y_scale.dtype = DType.F32
    return plus(ctx, binary(ctx, "MUL", wide, binary(ctx, "MUL", x_scale, y_scale)), bias)


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(ctx: Context, node: OnnxNode) -> list[Value]:
    """An LSTM whose weights ``[directions, input, 4 * hidden]`` are stored in 8 bits; in float where they are not of i8
    without their zero points."""
    weights, factors = [], []
    for tensor, scale in ((1, 8), (2, 10)):
        numbers = [ctx.constant(node.optional(i)) for i in (tensor, scale, scale + 1)]
        if any(n is None for n in numbers):
            raise node.unsupported("weights that are not constant")
        values, *others = (np.asarray(n) for n in numbers)
        each = (values.shape[0], values.shape[-1])  # one for all, per direction, or per direction and column
        factor, zero = (np.broadcast_to(v if v.ndim == 2 else v.reshape(-1, 1), each) for v in others)
        centred = values.astype(np.int16) - zero.astype(np.int16)[:, None, :]
        weights.append(np.ascontiguousarray(centred.transpose(0, 2, 1)))
        factors.append(np.ascontiguousarray(factor, np.float32))
    whole = all(w.min(initial=0) >= -128 and w.max(initial=0) <= 127 for w in weights)
    if not whole:
        weights = [w.astype(np.float32) * f[:, :, None] for w, f in zip(weights, factors, strict=True)]
    held = [ctx.const(w.astype(np.int8) if whole else w) for w in weights]
    operands = [node.input(0), *held, *(node.optional(i) for i in range(3, 8))]
    operands += [ctx.const(f) for f in factors] if whole else []
    attrs = {
        "direction": node.choice_attr("direction", "forward", "forward", "reverse", "bidirectional"),
        "activations": node.strs_attr("activations", None), "clip": node.float_attr("clip", 0.0) or None,
        "activation_alpha": node.floats_attr("activation_alpha", None),
        "activation_beta": node.floats_attr("activation_beta", None),
        "hidden_size": node.int_attr("hidden_size"), "input_forget": node.int_attr("input_forget", 0),
    }  # fmt: skip
    return ctx.emit("DynamicQuantizeLSTM" if whole else "OnnxLSTM", operands, 3, **attrs)
