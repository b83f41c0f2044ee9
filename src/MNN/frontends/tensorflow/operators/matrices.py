"""Inverses, linear systems, factors and eigenvalues of matrices.

Vectors of eigenvalues and singular values are known but for their signs, which another library chooses in another way.
"""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, insert_axis, select
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.diagonals import Band, size
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def _function(ctx: Context, kind: str, *operands: Value, count: int = 1, **attrs: bool) -> list[Value]:
    """Results of a function of :mod:`MNN.ops.linear.matrices`."""
    found = ctx.emit("MatrixFunction", list(operands), count, kind=kind, **attrs)
    found[0].dtype = operands[0].dtype
    return found


def _rank(ctx: Context, node: TfNode, x: Value) -> int:
    rank = ctx.rank(x)
    if rank is None or rank < 2:
        raise node.unsupported("a matrix of unknown rank", "export the model with shapes")
    return rank


def _turned(ctx: Context, node: TfNode, x: Value) -> Value:
    """The last two axes exchanged."""
    rank = _rank(ctx, node, x)
    out = ctx.op("Permute", x, dims=[*range(rank - 2), rank - 1, rank - 2])
    out.dtype = x.dtype
    return out


@tf_op("MatrixInverse", "BatchMatrixInverse")
def inverse(ctx: Context, node: TfNode) -> Value:
    """Singular matrices, which TensorFlow refuses, give NaN."""
    x = node.input(0)
    return _function(ctx, "inverse", _turned(ctx, node, x) if node.bool_attr("adjoint", False) else x)[0]


@tf_op("MatrixSolve", "BatchMatrixSolve")
def solve(ctx: Context, node: TfNode) -> Value:
    a, b = node.input(0), node.input(1)
    return _function(ctx, "solve", _turned(ctx, node, a) if node.bool_attr("adjoint", False) else a, b)[0]


@tf_op("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def solve_triangular(ctx: Context, node: TfNode) -> Value:
    a, b, upper = node.input(0), node.input(1), not node.bool_attr("lower", True)
    if node.bool_attr("adjoint", False):
        a, upper = _turned(ctx, node, a), not upper
    return _function(ctx, "triangular", a, b, upper=upper)[0]


@tf_op("MatrixSolveLs", "BatchMatrixSolveLs")
def solve_least_squares(ctx: Context, node: TfNode) -> Value:
    """By the normal equations with the regularizer on their diagonal, as ``fast`` asks for; without it, and without a
    regularizer, by singular values."""
    a, b = node.input(0), node.input(1)
    fast, amount = node.bool_attr("fast", True), ctx.constant(node.input(2))
    if amount is None:
        raise node.unsupported("a regularizer that is not constant", "use a constant")
    weight = float(amount.reshape(-1)[0])
    turned = _turned(ctx, node, a)
    if not fast:
        if weight:
            raise node.unsupported("a regularizer without fast", "use fast=True")
        left, values, right = _function(ctx, "svd", a, count=3)
        for v in (values, right):
            v.dtype = a.dtype
        inner = ctx.op("MatMul", _turned(ctx, node, left), b)
        return ctx.op(
            "MatMul", _turned(ctx, node, right), _over(ctx, inner, insert_axis(ctx, values, _rank(ctx, node, a) - 1))
        )
    known = (a.shape or ())[-2:]
    if not all(isinstance(n, int) for n in known):
        raise node.unsupported("a matrix of open size", "export the model with shapes")
    tall = int(known[0]) >= int(known[1])
    square = ctx.op("MatMul", turned, a) if tall else ctx.op("MatMul", a, turned)
    square.dtype = a.dtype
    if weight:
        square = binary(ctx, "ADD", square, binary(ctx, "MUL", _eye(ctx, square, a), weight))
    if tall:
        return _function(ctx, "solve", square, ctx.op("MatMul", turned, b))[0]
    return ctx.op("MatMul", turned, _function(ctx, "solve", square, b)[0])


def _over(ctx: Context, x: Value, y: Value) -> Value:
    out = ctx.op("BinaryOp", x, y, opType="REALDIV")
    out.dtype = y.dtype
    return out


def _eye(ctx: Context, square: Value, like: Value) -> Value:
    """Ones on the diagonal of a matrix of ``square``'s size."""
    line = ctx.op("Range", ctx.const(0, DType.I32), size(ctx, square, -1), ctx.const(1, DType.I32))
    on = ctx.op("BinaryOp", insert_axis(ctx, line, 0), insert_axis(ctx, line, 1), opType="EQUAL")
    out = select(ctx, on, ctx.const_like(1, like), ctx.const_like(0, like))
    out.dtype = like.dtype
    return out


@tf_op("Cholesky", "BatchCholesky")
def cholesky(ctx: Context, node: TfNode) -> Value:
    """The lower factor; NaN of matrices that are not positive definite, which TensorFlow refuses."""
    return _function(ctx, "cholesky", node.input(0), count=2)[0]


@tf_op("Qr")
def qr(ctx: Context, node: TfNode) -> list[Value]:
    return _function(ctx, "qr", node.input(0), count=2, full=node.bool_attr("full_matrices", False))


@tf_op("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
def eigenvalues(ctx: Context, node: TfNode) -> list[Value]:
    """Values in rising order, and their vectors as columns; nothing for vectors that are not asked for."""
    values, vectors = _function(ctx, "eigh", node.input(0), count=2)
    return [values, vectors if node.bool_attr("compute_v", True) else _nothing(ctx, vectors)]


@tf_op("Svd", "BatchSvd")
def svd(ctx: Context, node: TfNode) -> list[Value]:
    """Singular values, largest first, then both factors, whose vectors are columns."""
    x, full = node.input(0), node.bool_attr("full_matrices", False)
    left, values, right = _function(ctx, "svd", x, count=3, full=full)
    if not node.bool_attr("compute_uv", True):
        return [values, _nothing(ctx, left), _nothing(ctx, right)]
    rank = _rank(ctx, node, x)
    return [values, left, ctx.op("Permute", right, dims=[*range(rank - 2), rank - 1, rank - 2])]


def _nothing(ctx: Context, like: Value) -> Value:
    """What TensorFlow gives for results that are not asked for."""
    return ctx.const([], like.dtype or DType.F32)


@tf_op("LogMatrixDeterminant")
def log_determinant(ctx: Context, node: TfNode) -> list[Value]:
    """Signs, and logarithms of absolute values."""
    return _function(ctx, "slogdet", node.input(0), count=2)


@tf_op("TridiagonalMatMul")
def tridiagonal_product(ctx: Context, node: TfNode) -> Value:
    """Diagonals above, on and below the main one as rows ``[..., 1, M]``; ends that lie outside are not looked at."""
    above, main, below, right = node.tensors(0, 4)
    rank = _rank(ctx, node, right)
    columns = [ctx.op("Permute", v, dims=[*range(rank - 2), rank - 1, rank - 2]) for v in (above, main, below)]
    count = (right.shape or ())[-2]
    if not isinstance(count, int):
        raise node.unsupported("a matrix of open size", "export the model with shapes")

    def moved(x: Value, begin: int, end: int, padding: list[int]) -> Value:
        axis, one = ctx.const([rank - 2]), ctx.const([1])
        part = ctx.op("StridedSlice", x, ctx.const([begin]), ctx.const([end]), axis, one, fromType=1)
        borders = ctx.const([*(0,) * (2 * (rank - 2)), *padding, 0, 0])
        out = ctx.op("Padding", part, borders, mode="CONSTANT")
        out.dtype = right.dtype
        return out

    parts = [
        moved(binary(ctx, "MUL", moved(right, 1, count, [0, 1]), columns[0]), 0, count - 1, [0, 1]),
        binary(ctx, "MUL", right, columns[1]),
        moved(binary(ctx, "MUL", moved(right, 0, count - 1, [1, 0]), columns[2]), 1, count, [1, 0]),
    ]
    return binary(ctx, "ADD", binary(ctx, "ADD", parts[0], parts[1]), parts[2])


@tf_op("TridiagonalSolve")
def tridiagonal_solve(ctx: Context, node: TfNode) -> Value:
    """Diagonals ``[..., 3, M]``, the upper one first; solved as any other matrix."""
    node.ignore("partial_pivoting", "perturb_singular")
    diagonals, right = node.input(0), node.input(1)
    count = size(ctx, diagonals, -1)
    band = Band(ctx, -1, 1, True, False, count, count, count)
    matrix = band.matrix(diagonals, _rank(ctx, node, diagonals), ctx.const_like(0, diagonals))
    return _function(ctx, "solve", matrix, right)[0]
