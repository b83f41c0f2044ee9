"""Matrix products, Einstein summation, triangles."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tf_op("MatMul", "Dense")
def matmul(ctx: Context, node: TfNode) -> Value:
    node.ignore("grad_a", "grad_b")
    return ctx.op(
        "MatMul", node.input(0), node.input(1), transposeA=node.bool_attr("transpose_a", False),
        transposeB=node.bool_attr("transpose_b", False),
    )  # fmt: skip


@tf_op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(ctx: Context, node: TfNode) -> Value:
    node.ignore("grad_x", "grad_y")
    x, y = node.input(0), node.input(1)
    to = node.known_dtype("Tout")
    if to is not None and x.dtype is not None and to is not x.dtype:
        x, y = (ctx.op("Cast", v, dstT=data_type(to)) for v in (x, y))
    return ctx.op("MatMul", x, y, transposeA=node.bool_attr("adj_x", False), transposeB=node.bool_attr("adj_y", False))


@tf_op("Einsum")
def einsum(ctx: Context, node: TfNode) -> Value:
    node.ignore("N")
    return ctx.op("Einsum", *node.tensors(), equation=node.str_attr("equation"))


@tf_op("MatrixDeterminant", "BatchMatrixDeterminant")
def determinant(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Det", node.input(0))


@tf_op("MatrixBandPart", "BatchMatrixBandPart")
def band_part(ctx: Context, node: TfNode) -> Value:
    return ctx.op("MatrixBandPart", *node.tensors(0, 3))


@tf_op("AdjustContrastv2")
def adjust_contrast(ctx: Context, node: TfNode) -> Value:
    x, factor = node.input(0), node.input(1)
    mean = ctx.op("Reduction", x, operation="MEAN", dim=[-3, -2], keepDims=True)
    mean.dtype = x.dtype
    return binary(ctx, "ADD", binary(ctx, "MUL", binary(ctx, "SUB", x, mean), factor), mean)
