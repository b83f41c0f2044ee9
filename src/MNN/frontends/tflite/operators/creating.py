"""Tensors made from sizes and numbers, and what asks for sizes."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tflite_op("SHAPE")
def shape(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Shape", node.input(0), outputDataType=data_type(node.tensors_out[0].dtype or DType.I32))


@tflite_op("RANK")
def rank(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Rank", node.input(0))


@tflite_op("FILL", stored=True)
def fill(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Fill", node.input(0), node.input(1))


@tflite_op("ZEROS_LIKE", stored=True)
def zeros_like(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("ZerosLike", node.input(0))


@tflite_op("RANGE", stored=True)
def range_(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Range", *(node.input(i) for i in range(3)))


@tflite_op("ONE_HOT", stored=True)
def one_hot(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("OneHot", *(node.input(i) for i in range(4)), axis=node.number("axis", -1))


@tflite_op("BROADCAST_ARGS")
def broadcast_args(ctx: Context, node: TfliteNode) -> Value:
    """The shape that two shapes broadcast to."""
    x, y = node.input(0), node.input(1)
    zero = ctx.const_like(0, x)
    made = ctx.op("Shape", ctx.binary("ADD", ctx.op("Fill", x, zero), ctx.op("Fill", y, zero)),
                  outputDataType=data_type(node.tensors_out[0].dtype or DType.I32))  # fmt: skip
    return made


@tflite_op("MATRIX_DIAG", stored=True)
def matrix_diag(ctx: Context, node: TfliteNode) -> Value:
    """The last axis on the diagonals of matrices of zeros."""
    x = node.input(0)
    return _with_diagonal(ctx, x, ctx.const_like(0, x), x)


@tflite_op("MATRIX_SET_DIAG", stored=True)
def matrix_set_diag(ctx: Context, node: TfliteNode) -> Value:
    """Matrices with another diagonal, which is as long as their shorter side."""
    x, diagonal = node.input(0), node.input(1)
    sizes = ctx.static_shape(x)
    if sizes is None or len(sizes) < 2:
        raise node.unsupported("matrices of unknown sizes")
    rows, columns = sizes[-2:]
    eye = ctx.const(np.eye(rows, columns, dtype=np.bool_))
    short = min(rows, columns)
    if short < rows:
        pads = [0] * (2 * len(sizes) - 2)
        pads[-1] = rows - short
        diagonal = ctx.op("Padding", diagonal, ctx.const(pads))
    return ctx.op("Select", eye, ctx.op("Unsqueeze", diagonal, squeezeDims=[-1]), x)


def _with_diagonal(ctx: Context, diagonal: Value, elsewhere: Value, x: Value) -> Value:
    length = ctx.op("Shape", x, outputDataType="DT_INT64", hasStart=True, start=-1)
    line = ctx.op("Range", ctx.const(0), ctx.op("Reshape", length, ctx.const([], DType.I64)), ctx.const(1))
    eye = ctx.binary("EQUAL", ctx.op("Unsqueeze", line, squeezeDims=[1]), ctx.op("Unsqueeze", line, squeezeDims=[0]))
    return ctx.op("Select", eye, ctx.op("Unsqueeze", diagonal, squeezeDims=[-1]), elsewhere)


@tflite_op("STABLEHLO_IOTA")
def iota(ctx: Context, node: TfliteNode) -> Value:
    """Positions along one axis."""
    tensor, axis = node.tensors_out[0], node.number("iota_dimension")
    sizes = tensor.sizes
    if tensor.dtype is None or min(sizes, default=0) < 0 or not 0 <= axis < len(sizes):
        raise node.unsupported(f"a result of sizes {list(sizes)}")
    line = ctx.const(np.arange(sizes[axis]), tensor.dtype)
    placed = ctx.op("Reshape", line, ctx.const([-1 if a == axis else 1 for a in range(len(sizes))]))
    return ctx.op("BroadcastTo", placed, ctx.const(list(sizes)))


@tflite_op("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def random(ctx: Context, node: TfliteNode) -> Value:
    op = "RandomUniform" if node.op == "RANDOM_UNIFORM" else "RandomNormal"
    return ctx.op(op, node.input(0), seed=_seed(node, "seed"), seed2=_seed(node, "seed2"), low=0.0, high=1.0)


@tflite_op("MULTINOMIAL")
def multinomial(ctx: Context, node: TfliteNode) -> Value:
    (count,) = ctx.known_ints(node, 1, "numbers of samples")
    kind = data_type(node.tensors_out[0].dtype or DType.I64)
    return ctx.op(
        "Multinomial", node.input(0), seed=_seed(node, "seed"), seed2=_seed(node, "seed2"), count=count, type=kind
    )


def _seed(node: TfliteNode, key: str) -> int:
    return node.number(key) & 0x7FFFFFFF
