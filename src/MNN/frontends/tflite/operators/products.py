"""Products of matrices, embeddings and their lookups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.operators.convolution import kept_factor
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tflite_op("FULLY_CONNECTED")
def fully_connected(ctx: Context, node: TfliteNode) -> Value:
    """``x [..., K]`` times ``w [O, K]``, plus a bias; a matrix unless ``keep_num_dims``: then the last size of ``x`` is
    ``K``, whether that is known or not."""
    if node.option("weights_format", "DEFAULT") != "DEFAULT":
        raise node.unsupported("weights in shuffled order", "convert the model from its source again")
    x, w, bias = node.input(0), weights(ctx, node, 1, node.quantization(0) is None), ctx.maybe_real(node, 2)
    sizes = ctx.static_shape(w)
    if node.rank(1) != 2:
        raise node.malformed(f"weights of {node.rank(1)} dimensions")
    given, inner = x.shape, None if sizes is None else sizes[1]
    keep = node.flag("keep_num_dims")
    vector = given is not None and len(given) < 2
    if vector or not (keep or (given is not None and len(given) == 2 and given[-1] == inner)):
        x = ctx.op("Reshape", x, ctx.const([-1, inner]) if inner is not None else _rows_of(ctx, w))
    rows = ctx.dequantized(x, node.quantization(0))
    out = ctx.op("MatMul", rows, w, bias, transposeB=True)
    if vector and keep:
        out = ctx.op("Reshape", out, ctx.const([-1]))
    return ctx.activated(node, out)


def _rows_of(ctx: Context, w: Value) -> Value:
    """The shape of rows for weights whose sizes are known only at run time."""
    size = ctx.op("Shape", w, hasStart=True, start=1, hasEnd=True, end=2)
    return ctx.op("Concat", ctx.const([-1], DType.I32), size, axis=0)


def weights(ctx: Context, node: TfliteNode, index: int, compressed: bool) -> Value:
    """A matrix ``[O, K]`` of floats. With ``compressed``, constant integers of 8 bits or less stay in that form: what
    they are multiplied by is not quantised (dynamic range), and is rounded row by row. Not within loops, whose steps
    have few rows, and which become recurrent layers where their weights are floats."""
    q, value = node.quantization(index), node.input(index)
    data = value.data if (compressed and ctx.parent is None) or (q is not None and q.block) else None
    rows = q is not None and (q.axis == 0 or len(q.scale) == 1)
    if q is not None and rows and isinstance(data, np.ndarray) and data.itemsize == 1 and data.ndim == 2:
        return ctx.low_bits(value, q)
    return ctx.dequantized(value, q)


@tflite_op("BATCH_MATMUL")
def batch_matmul(ctx: Context, node: TfliteNode) -> Value:
    q, kept = node.quantization(0), kept_factor(node, 0, 2)
    if q is not None and kept is not None and kept.size == 1:
        q = replace(q, scale=(q.scale * kept).astype(np.float32))
    x, y = ctx.dequantized(node.input(0), q), ctx.real(node, 1)
    if x.dtype is DType.I32 or y.dtype is DType.I32:
        raise node.unsupported("a product of integers")
    return ctx.op("MatMul", x, y, transposeA=node.flag("adj_x"), transposeB=node.flag("adj_y"))


@tflite_op("EMBEDDING_LOOKUP")
def embedding_lookup(ctx: Context, node: TfliteNode) -> Value:
    """Operands: rows to take, the table."""
    q = node.quantization(1)
    rows = ctx.op("GatherV2", node.input(1), node.input(0), ctx.const(0))
    if q is None or len(q.scale) == 1:
        return ctx.dequantized(rows, q)
    scale = ctx.op("GatherV2", ctx.const(q.scale), node.input(0), ctx.const(0))
    zero = ctx.op("GatherV2", ctx.const(q.zero.astype(np.float32)), node.input(0), ctx.const(0))
    column = ctx.const([-1, *[1] * (node.rank(1) - 1)])
    scale, zero = (ctx.op("Reshape", v, column) for v in (scale, zero))
    return ctx.binary("MUL", ctx.binary("SUB", ctx.cast(rows, DType.F32), zero), scale)


@tflite_op("EMBEDDING_LOOKUP_SPARSE")
def embedding_lookup_sparse(ctx: Context, node: TfliteNode) -> Value:
    """Rows of a table summed with weights into the places that ``indices`` name: operands ids, indices ``[n, r]``, the
    dense shape (constant), weights, the table."""
    ids, indices, share, table = (node.input(i) for i in (0, 1, 3, 4))
    dense = ctx.known_ints(node, 2, "shapes")
    combiner = node.option("combiner", "SUM")
    rest = [int(d) for d in ctx.static_shape(table) or ()][1:]
    if not rest or not dense:
        raise node.unsupported("a table of unknown shape")
    flat = [int(np.prod(dense[i + 1 : -1])) for i in range(len(dense) - 1)]
    count = int(np.prod(dense[:-1]))
    place = ctx.op("GatherV2", indices, ctx.const(list(range(len(dense) - 1))), ctx.const(-1))
    bucket = ctx.op(
        "Reduction", ctx.binary("MUL", ctx.cast(place, DType.I64), ctx.const(flat)), operation="SUM", dim=[1],
        keepDims=True,
    )  # fmt: skip
    rows = ctx.op("Reshape", ctx.op("GatherV2", table, ids, ctx.const(0)), ctx.const([-1, int(np.prod(rest))]))
    column = ctx.op("Reshape", share, ctx.const([-1, 1]))
    total = ctx.op("ScatterNd", bucket, ctx.binary("MUL", rows, column), ctx.const([count, int(np.prod(rest))]))
    if combiner != "SUM":
        parts = column if combiner == "MEAN" else ctx.unary("SQUARE", column)
        norm = ctx.op("ScatterNd", bucket, parts, ctx.const([count, 1]))
        norm = norm if combiner == "MEAN" else ctx.unary("SQRT", norm)
        empty = ctx.binary("EQUAL", norm, ctx.const(np.float32(0)))
        total = ctx.binary("REALDIV", total, ctx.op("Select", empty, ctx.const(np.float32(1)), norm))
    return ctx.op("Reshape", total, ctx.const([*dense[:-1], *rest]))


@tflite_op("HASHTABLE_LOOKUP")
def hashtable_lookup(ctx: Context, node: TfliteNode) -> list[Value]:
    """Operands: what to look for, keys, a value for each key. Gives the values (zeros where none is), and hits."""
    wanted, keys, values = (node.input(i) for i in range(3))
    if keys.dtype is DType.STR or values.dtype is DType.STR:
        raise node.unsupported("a table of strings")
    equal = ctx.binary(
        "EQUAL", ctx.op("Unsqueeze", wanted, squeezeDims=[1]), ctx.op("Unsqueeze", keys, squeezeDims=[0])
    )
    number = ctx.cast(equal, DType.I32)
    at = ctx.op("ArgMax", number, axis=1)
    hit = ctx.op("Reduction", number, operation="MAXIMUM", dim=[1], keepDims=False)
    found = ctx.op("GatherV2", values, at, ctx.const(0))
    column = ctx.op("Reshape", hit, ctx.const([-1, *[1] * (node.rank(2) - 1)]))
    zero = ctx.const_like(0, found)
    return [ctx.op("Select", ctx.cast(column, DType.BOOL), found, zero), ctx.cast(hit, DType.U8)]
