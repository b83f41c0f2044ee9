"""MatMul and Gemm."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@onnx_op("MatMul")
def matmul(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("MatMul", node.input(0), node.input(1))


@onnx_op("Gemm", operands=Operands(ranks=(2, 2)))
def gemm(ctx: Context, node: OnnxNode) -> Value:
    """``alpha * op(A) @ op(B) + beta * C``; the factors go into constants where possible."""
    x, y, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = node.float_attr("alpha", 1.0), node.float_attr("beta", 1.0)
    transpose = {"transposeA": node.bool_attr("transA", False), "transposeB": node.bool_attr("transB", False)}
    node.ignore("broadcast")  # before opset 7
    if alpha != 1 and not _scalable(y):
        product = binary(ctx, "MUL", ctx.op("MatMul", x, y, **transpose), ctx.const_like(alpha, x))
        product.dtype = x.dtype
        if c is None or beta == 0:
            return product
        return binary(ctx, "ADD", product, _scaled(ctx, c, beta))
    y = _scaled(ctx, y, alpha)
    if c is None or beta == 0:
        return ctx.op("MatMul", x, y, **transpose)
    c = _scaled(ctx, c, beta)
    if ctx.rank(c) == 1:
        return ctx.op("MatMul", x, y, c, **transpose)
    return binary(ctx, "ADD", ctx.op("MatMul", x, y, **transpose), c)


def _scalable(value: Value) -> bool:
    return value.is_const and value.dtype in (DType.F32, DType.F64)


def _scaled(ctx: Context, value: Value, factor: float) -> Value:
    if factor == 1:
        return value
    numbers = ctx.constant(value)
    if numbers is not None and _scalable(value):
        return ctx.const(numbers * numbers.dtype.type(factor))
    return binary(ctx, "MUL", value, factor)
