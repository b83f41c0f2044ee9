"""Activations."""

from __future__ import annotations

from MNN.frontends.common.expressions import log1p_exp
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Scalar
from MNN.frontends.torch.registry import aten, in_f32
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("relu")
def relu(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("ReLU", x)


@aten("relu6")
def relu6(ctx: TorchBuilder, x: Value) -> Value:
    return hardtanh(ctx, x, 0.0, 6.0)


@aten("hardtanh")
def hardtanh(ctx: TorchBuilder, x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    if x.dtype is DType.F32:
        return ctx.op("ReLU6", x, minValue=float(min_val), maxValue=float(max_val))
    low = ctx.op("BinaryOp", x, ctx.const_like(min_val, x), opType="MAXIMUM")
    return ctx.op("BinaryOp", low, ctx.const_like(max_val, x), opType="MINIMUM")


@aten("leaky_relu")
def leaky_relu(ctx: TorchBuilder, x: Value, negative_slope: float = 0.01) -> Value:
    return ctx.op("ReLU", x, slope=float(negative_slope))


@aten("rrelu")
def rrelu(ctx: TorchBuilder, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    if training:
        raise ctx.unsupported("random slopes (training)", "call model.eval() before exporting")
    return ctx.op("ReLU", x, slope=(lower + upper) / 2)


@aten("prelu", "_prelu_kernel")
def prelu(ctx: TorchBuilder, x: Value, weight: Value) -> Value:
    """One slope, or one per channel (axis 1)."""
    numbers, rank = ctx.constant(weight), ctx.rank(x)
    if numbers is not None and rank is not None and rank >= 2:
        slopes = weight if numbers.ndim == 1 else ctx.const(numbers.reshape(-1))  # one parameter, used once or often
        return ctx.op("PReLU", x, slopes, slopeCount=int(numbers.size))
    if rank is not None and rank > 2 and ctx.rank(weight) == 1:
        weight = ctx.op("Reshape", weight, ctx.const([-1, *[1] * (rank - 2)]))
    positive = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="GREATER")
    return ctx.op("Select", positive, x, ctx.op("BinaryOp", x, weight, opType="MUL"))


@aten("elu")
def elu(ctx: TorchBuilder, x: Value, alpha: Scalar = 1.0, scale: Scalar = 1.0, input_scale: Scalar = 1.0) -> Value:
    if scale == 1 and input_scale == 1 and isinstance(alpha, (int, float)):
        return ctx.op("ELU", x, alpha=float(alpha))
    positive = ctx.op("BinaryOp", x, ctx.const_like(0, x), opType="GREATER")
    below = ctx.op("Select", positive, ctx.const_like(0, x), x)  # the slope of large ones' exponential is infinite
    inner = ctx.binary("MUL", ctx.unary("EXPM1", ctx.binary("MUL", below, input_scale)), alpha)
    return ctx.binary("MUL", ctx.op("Select", positive, x, inner), scale)


@aten("selu")
def selu(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Selu", x, alpha=1.6732632423543772, scale=1.0507009873554805)


@aten("celu")
def celu(ctx: TorchBuilder, x: Value, alpha: float = 1.0) -> Value:
    return elu(ctx, x, alpha, 1.0, 1.0 / float(alpha))


@aten("sigmoid", "special_expit")
def sigmoid(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Sigmoid", ctx.as_float(x))


@aten("tanh")
def tanh(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("TanH", ctx.as_float(x))


@aten("silu")
def silu(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.unary("SILU", x)


@aten("mish")
def mish(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("BinaryOp", x, ctx.op("TanH", log1p_exp(ctx, x)), opType="MUL")


@aten("gelu")
def gelu(ctx: TorchBuilder, x: Value, approximate: str = "none") -> Value:
    return ctx.unary("GELU" if approximate == "tanh" else "GELU_STANDARD", x)


@aten("hardsigmoid")
def hardsigmoid(ctx: TorchBuilder, x: Value) -> Value:
    shifted = ctx.binary("ADD", ctx.binary("MUL", x, 1 / 6), 0.5)
    return hardtanh(ctx, shifted, 0.0, 1.0)


@aten("hardswish")
def hardswish(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.unary("HARDSWISH", x)


@aten("softplus")
@in_f32
def softplus(ctx: TorchBuilder, x: Value, beta: Scalar = 1, threshold: Scalar = 20) -> Value:
    scaled = x if beta == 1 else ctx.binary("MUL", x, beta)
    out = log1p_exp(ctx, scaled)
    if beta == 1 and threshold == 20 and ctx.type_of(x) is not DType.F64:  # it is the number itself, rounded
        return out
    above = ctx.op("BinaryOp", scaled, ctx.const_like(float(threshold), x), opType="GREATER")  # type: ignore[arg-type]
    return ctx.op("Select", above, x, out if beta == 1 else ctx.binary("REALDIV", out, beta))


@aten("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.unary("NEG", log1p_exp(ctx, ctx.unary("NEG", x)))


@aten("softsign")
def softsign(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("BinaryOp", x, ctx.binary("ADD", ctx.unary("ABS", x), 1), opType="REALDIV")


@aten("tanhshrink")
def tanhshrink(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("BinaryOp", x, ctx.op("TanH", x), opType="SUB")


@aten("hardshrink")
def hardshrink(ctx: TorchBuilder, x: Value, lambd: float = 0.5) -> Value:
    small = ctx.op("BinaryOp", ctx.unary("ABS", x), ctx.const_like(lambd, x), opType="LESS_EQUAL")
    return ctx.op("Select", small, ctx.const_like(0, x), x)


@aten("softshrink")
def softshrink(ctx: TorchBuilder, x: Value, lambd: float = 0.5) -> Value:
    above = ctx.op("ReLU", ctx.binary("SUB", x, lambd))
    below = ctx.op("ReLU", ctx.binary("SUB", ctx.unary("NEG", x), lambd))
    return ctx.op("BinaryOp", above, below, opType="SUB")


@aten("threshold")
def threshold(ctx: TorchBuilder, x: Value, limit: Scalar, value: Scalar) -> Value:
    below = ctx.op("BinaryOp", x, ctx.scalar(limit, ctx.type_of(x)), opType="LESS_EQUAL")  # NaN is not, and stays
    return ctx.op("Select", below, ctx.scalar(value, ctx.type_of(x)), x)


@aten("glu")
def glu(ctx: TorchBuilder, x: Value, dim: int = -1) -> Value:
    halves = ctx.emit("Slice", [x], 2, axis=ctx.axis(x, dim), sourceType="TORCH")
    return ctx.op("BinaryOp", halves[0], ctx.op("Sigmoid", halves[1]), opType="MUL")


@aten("softmax", "_softmax", "special_softmax")
def softmax(ctx: TorchBuilder, x: Value, dim: int, dtype: DType | int | bool | None = None) -> Value:
    return _along(ctx, "Softmax", _in_type(ctx, x, dtype), dim)


@aten("log_softmax", "_log_softmax", "special_log_softmax")
def log_softmax(ctx: TorchBuilder, x: Value, dim: int, dtype: DType | int | bool | None = None) -> Value:
    return _along(ctx, "LogSoftmax", _in_type(ctx, x, dtype), dim)


def _along(ctx: TorchBuilder, op: str, x: Value, dim: int) -> Value:
    """A single number is a line of one."""
    if x.shape == ():
        return ctx.squeeze(ctx.op(op, ctx.unsqueeze(x, 0), axis=0), 0)
    return ctx.op(op, x, axis=ctx.axis(x, dim))


@aten("softmin")
def softmin(ctx: TorchBuilder, x: Value, dim: int, dtype: DType | int | None = None) -> Value:
    return softmax(ctx, ctx.unary("NEG", _in_type(ctx, x, dtype)), dim)


def _in_type(ctx: TorchBuilder, x: Value, dtype: DType | int | bool | None) -> Value:
    """``_softmax`` has ``half_to_float`` in the place of a type."""
    if isinstance(dtype, bool):
        return ctx.cast(x, DType.F32) if dtype else x
    return ctx.as_float(x) if dtype is None else ctx.cast(x, ctx.element_type(dtype))


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(ctx: TorchBuilder, x: Value, p: float = 0.5, train: bool = False) -> Value:
    if train and p:
        raise ctx.unsupported("dropout in training", "call model.eval() before exporting")
    return ctx.op("Identity", x)


@aten("native_dropout")
def native_dropout(ctx: TorchBuilder, x: Value, p: float, train: bool | None = False) -> list[Value]:
    kept = dropout(ctx, x, p, bool(train))
    ones = ctx.op("Fill", ctx.shape_like(x), ctx.const(True))
    return [kept, ones]


@aten("logsigmoid")
def logsigmoid(ctx: TorchBuilder, x: Value) -> Value:
    return log_sigmoid(ctx, x)
