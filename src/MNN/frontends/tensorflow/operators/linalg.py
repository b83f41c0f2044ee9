"""Matrix products, Einstein summation, triangles and diagonals."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, insert_axis
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
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


@tf_op("MatrixDeterminant")
def determinant(ctx: Context, node: TfNode) -> Value:
    return ctx.op("Det", node.input(0))


@tf_op("MatrixBandPart", "BatchMatrixBandPart")
def band_part(ctx: Context, node: TfNode) -> Value:
    return ctx.op("MatrixBandPart", *node.tensors(0, 3))


@tf_op("MatrixDiag", "BatchMatrixDiag", "Diag")
def matrix_diag(ctx: Context, node: TfNode) -> Value:
    """Zeros beside the diagonal; ``Diag`` of more than one axis would be a tensor of twice as many."""
    if node.op == "Diag" and ctx.rank(node.input(0)) != 1:
        raise node.unsupported("a diagonal of more than one axis", "use tf.linalg.diag")
    return _diagonal(ctx, node, node.input(0))


def _diagonal(ctx: Context, node: TfNode, x: Value) -> Value:
    rank = ctx.rank(x)
    if rank is None or rank < 1:
        raise node.unsupported("a diagonal of unknown rank", "export the model with shapes")
    size = ctx.op("Shape", x, hasStart=True, start=rank - 1)
    line = ctx.op("Range", ctx.const(0, DType.I32), ctx.op("Squeeze", size, squeezeDims=[0]), ctx.const(1, DType.I32))
    on = ctx.op("BinaryOp", insert_axis(ctx, line, 0), insert_axis(ctx, line, 1), opType="EQUAL")
    return ctx.op("Select", on, insert_axis(ctx, x, rank), ctx.const_like(0, x))


@tf_op("MatrixDiagV2", "MatrixDiagV3")
def matrix_diag_general(ctx: Context, node: TfNode) -> Value:
    """Only a main diagonal that fills a square."""
    node.ignore("align")
    numbers = [ctx.constant_ints(v) for v in node.tensors(1, 4)]
    filled = ctx.constant(node.input(4))
    if numbers != [[0], [-1], [-1]] or filled is None or filled.reshape(-1)[0] != 0:
        raise node.unsupported("other diagonals than the main one of a square matrix", "use the main diagonal")
    return _diagonal(ctx, node, node.input(0))


@tf_op("MatrixDiagPart", "BatchMatrixDiagPart", "DiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(ctx: Context, node: TfNode) -> Value:
    node.ignore("align")
    x = node.input(0)
    rank = ctx.rank(x)
    if len(node.inputs) > 1 and ctx.constant_ints(node.input(1)) != [0]:
        raise node.unsupported("other diagonals than the main one", "use the main diagonal")
    if rank is None or (node.op == "DiagPart" and rank != 2):
        raise node.unsupported("a diagonal of more than one axis, or of unknown rank", "use tf.linalg.diag_part")
    places = insert_axis(ctx, _line(ctx, x), 1)
    places = ctx.op("Concat", places, places, axis=1)
    flat = ctx.op("Permute", x, dims=[rank - 2, rank - 1, *range(rank - 2)]) if rank > 2 else x
    out = ctx.op("GatherND", flat, places)
    return ctx.op("Permute", out, dims=[*range(1, rank - 1), 0]) if rank > 2 else out


def _line(ctx: Context, x: Value, axes: tuple[int, ...] = (-2, -1)) -> Value:
    """The numbers from 0 up to the smallest size of some of the last axes."""
    rank = ctx.rank(x) or 2
    sizes = [ctx.op("Shape", x, hasStart=True, start=rank + a, hasEnd=True, end=rank + a + 1) for a in axes]
    size = sizes[0] if len(sizes) == 1 else ctx.op("BinaryOp", *sizes, opType="MINIMUM")
    size = ctx.op("Squeeze", size, squeezeDims=[0])
    return ctx.op("Range", ctx.const(0, DType.I32), size, ctx.const(1, DType.I32))


@tf_op("MatrixSetDiag", "BatchMatrixSetDiag")
def matrix_set_diag(ctx: Context, node: TfNode) -> Value:
    return _set_diag(ctx, node)


@tf_op("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_general(ctx: Context, node: TfNode) -> Value:
    node.ignore("align")
    if ctx.constant_ints(node.input(2)) != [0]:
        raise node.unsupported("other diagonals than the main one", "use the main diagonal")
    return _set_diag(ctx, node)


def _set_diag(ctx: Context, node: TfNode) -> Value:
    """Read from the diagonal at the smaller of row and column, and put where both are equal."""
    x, diagonal = node.input(0), node.input(1)
    if ctx.rank(x) is None:
        raise node.unsupported("a matrix of unknown rank", "export the model with shapes")
    rows, columns = insert_axis(ctx, _line(ctx, x, (-2,)), 1), insert_axis(ctx, _line(ctx, x, (-1,)), 0)
    last = ctx.op("BinaryOp", ctx.op("Reduction", _line(ctx, x), operation="MAXIMUM"), columns, opType="MINIMUM")
    spread = ctx.op("GatherV2", diagonal, ctx.op("Squeeze", last, squeezeDims=[0]), ctx.const(-1, DType.I32))
    spread.dtype = diagonal.dtype
    on = ctx.op("BinaryOp", rows, columns, opType="EQUAL")
    return ctx.op("Select", on, insert_axis(ctx, spread, (ctx.rank(x) or 2) - 2), x)


@tf_op("AdjustContrastv2")
def adjust_contrast(ctx: Context, node: TfNode) -> Value:
    x, factor = node.input(0), node.input(1)
    mean = ctx.op("Reduction", x, operation="MEAN", dim=[-3, -2], keepDims=True)
    mean.dtype = x.dtype
    return binary(ctx, "ADD", binary(ctx, "MUL", binary(ctx, "SUB", x, mean), factor), mean)
