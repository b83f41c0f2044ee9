"""ONNX Runtime's own operators (domain com.microsoft): fused activations and products.

Their meaning is that of ONNX Runtime's documentation, "Contrib Operators".
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.frontends.common.expressions import binary, clamp, unary
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operators.convolution import conv
from MNN.frontends.onnx.operators.matmul import gemm
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value

MICROSOFT = "com.microsoft"


def plus(ctx: Context, x: Value, *others: Value | None) -> Value:
    """``x`` and those of the others that are there, added."""
    for other in others:
        x = x if other is None else binary(ctx, "ADD", x, other)
    return x


def _typed(like: Value, out: Value) -> Value:
    out.dtype = like.dtype
    return out


@onnx_op("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(ctx: Context, node: OnnxNode) -> Value:
    return unary(ctx, "GELU_STANDARD", plus(ctx, node.input(0), node.optional(1)))


@onnx_op("FastGelu", domain=MICROSOFT)
def fast_gelu(ctx: Context, node: OnnxNode) -> Value:
    return unary(ctx, "GELU", plus(ctx, node.input(0), node.optional(1)))


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    return binary(ctx, "MUL", x, _typed(x, ctx.op("Sigmoid", binary(ctx, "MUL", x, node.float_attr("alpha", 1.702)))))


@onnx_op("CDist", domain=MICROSOFT)
def cdist(ctx: Context, node: OnnxNode) -> Value:
    metric = node.str_attr("metric", "sqeuclidean").upper()
    return _typed(node.input(0), ctx.op("PairwiseDistance", node.input(0), node.input(1), metric=metric))


@onnx_op("BiasAdd", domain=MICROSOFT)
def bias_add(ctx: Context, node: OnnxNode) -> Value:
    return plus(ctx, node.input(0), node.input(1), node.input(2))


@onnx_op("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(ctx: Context, node: OnnxNode) -> Value:
    x = plus(ctx, node.input(0), node.input(1))
    left, right = ctx.emit("Slice", [x], 2, axis=-1, slicePoints=None, sourceType="CAFFE")
    return binary(ctx, "MUL", _typed(x, left), unary(ctx, "GELU_STANDARD", _typed(x, right)))


@onnx_op("FusedMatMul", domain=MICROSOFT)
def fused_matmul(ctx: Context, node: OnnxNode) -> Value:
    """``alpha * op(A) @ op(B)``."""
    if node.int_attr("transBatchA", 0) or node.int_attr("transBatchB", 0):
        raise node.unsupported("a transposed batch (transBatchA, transBatchB)", "transpose the operand before")
    x, alpha = node.input(0), node.float_attr("alpha", 1.0)
    transposed = {"transposeA": node.bool_attr("transA", False), "transposeB": node.bool_attr("transB", False)}
    product = _typed(x, ctx.op("MatMul", x, node.input(1), **transposed))
    return product if alpha == 1 else binary(ctx, "MUL", product, alpha)


def _activation(ctx: Context, node: OnnxNode, x: Value, kind: str, given: list[float]) -> Value:
    """The activation behind a fused operator; ``given`` are its parameters."""
    alpha, beta = [*given, 0.0, 0.0][:2]
    known: dict[str, Callable[[], Value]] = {
        "": lambda: x,
        "Relu": lambda: ctx.op("ReLU", x),
        "Sigmoid": lambda: ctx.op("Sigmoid", x),
        "Tanh": lambda: ctx.op("TanH", x),
        "LeakyRelu": lambda: ctx.op("ReLU", x, slope=alpha if given else 0.01),
        "Clip": lambda: clamp(ctx, x, alpha, beta),
        "HardSigmoid": lambda: clamp(ctx, binary(ctx, "ADD", binary(ctx, "MUL", x, alpha), beta), 0.0, 1.0),
    }
    if kind not in known:
        raise node.unsupported(f"activation '{kind}'", f"use one of {', '.join(k for k in known if k)}")
    return _typed(x, known[kind]())


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_conv(ctx: Context, node: OnnxNode) -> Value:
    """A convolution, an addend ``Z`` and an activation."""
    kind, given = node.str_attr("activation", ""), node.floats_attr("activation_params", None) or []
    out = _typed(node.input(0), conv(ctx, node))
    return _activation(ctx, node, plus(ctx, out, node.optional(3)), kind, given)


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(ctx: Context, node: OnnxNode) -> Value:
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    given = [node.float_attr(name, 0.0) for name in names if node.has(name)]
    node.ignore(*names)
    return _activation(ctx, node, _typed(node.input(0), gemm(ctx, node)), node.str_attr("activation", ""), given)
