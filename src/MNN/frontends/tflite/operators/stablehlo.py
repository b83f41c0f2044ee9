"""Operators of StableHLO that are no others by another name: borders within, general products, reductions with
subgraphs (https://openxla.org/stablehlo/spec)."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.operators.bodies import COMBINING, combiner
from MNN.frontends.tflite.operators.convolution import spread
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tflite_op("STABLEHLO_PAD", stored=True)
def pad(ctx: Context, node: TfliteNode) -> Value:
    """A border outside, and as many numbers between neighbours."""
    x, fill = node.input(0), node.input(1)
    low, high, inside = (
        node.ints(f"{k}_padding{s}") for k, s in (("edge", "_low"), ("edge", "_high"), ("interior", ""))
    )
    rank = node.rank(0)
    if not len(low) == len(high) == len(inside) == rank or min(inside, default=0) < 0:
        raise node.malformed(f"borders {low}, {high} and {inside} between for {rank} dimensions")
    x = spread(ctx, x, rank, [n + 1 for n in inside], fill)
    pads = [n for pair in zip(low, high, strict=True) for n in pair]
    return ctx.op("Padding", x, ctx.const(pads), fill, mode="CONSTANT")


@tflite_op("STABLEHLO_BROADCAST_IN_DIM", stored=True)
def broadcast_in_dim(ctx: Context, node: TfliteNode) -> Value:
    """Every axis goes to a place among those of the result."""
    places, sizes = node.ints("broadcast_dimensions"), node.tensors_out[0].sizes
    given = ctx.static_shape(node.input(0))
    if given is None or len(places) != len(given) or min(sizes, default=0) < 0:
        raise node.unsupported(f"a result of sizes {list(sizes)}")
    order = sorted(range(len(places)), key=places.__getitem__)
    line = [1] * len(sizes)
    for axis, place in enumerate(places):
        line[place] = given[axis]
    x = ctx.permuted(node.input(0), order)
    return ctx.op("BroadcastTo", ctx.op("Reshape", x, ctx.const(line, DType.I64)), ctx.const(list(sizes), DType.I64))


@tflite_op("STABLEHLO_DOT_GENERAL")
def dot_general(ctx: Context, node: TfliteNode) -> Value:
    """Batch axes first, then what is left of both sides."""
    batch = node.ints("lhs_batching_dimensions"), node.ints("rhs_batching_dimensions")
    inner = node.ints("lhs_contracting_dimensions"), node.ints("rhs_contracting_dimensions")
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names: list[list[str]] = [[""] * node.rank(i) for i in (0, 1)]
    for pairs in (batch, inner):
        for p, q in zip(*pairs, strict=True):
            names[0][p] = names[1][q] = next(letters)
    rest: list[str] = []
    for side in names:
        for i, name in enumerate(side):
            if not name:
                side[i] = next(letters)
                rest.append(side[i])
    made = [names[0][p] for p in batch[0]] + rest
    equation = f"{''.join(names[0])},{''.join(names[1])}->{''.join(made)}"
    return ctx.op("Einsum", ctx.real(node, 0), ctx.real(node, 1), equation=equation)


@tflite_op("STABLEHLO_REDUCE")
def reduce(ctx: Context, node: TfliteNode) -> Value:
    if len(node.inputs) != 2:
        raise node.unsupported("a reduction of several tensors at once")
    kind, x = combiner(ctx, node, "body_subgraph_index"), ctx.real(node, 0)
    made = ctx.op("Reduction", x, operation=kind, dim=node.ints("dimensions"), keepDims=False)
    return made if kind in ("ANY", "ALL") else ctx.binary(COMBINING[kind], made, ctx.real(node, 1))


@tflite_op("STABLEHLO_REDUCE_WINDOW")
def stablehlo_reduce_window(ctx: Context, node: TfliteNode) -> Value:
    kind, rank = combiner(ctx, node, "body_subgraph_index"), node.rank(0)
    lists = [
        node.ints(k) or [1] * rank
        for k in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    ]
    return _windows(ctx, node, kind, lists, node.ints("padding") or [0] * (2 * rank))


@tflite_op("REDUCE_WINDOW")
def reduce_window(ctx: Context, node: TfliteNode) -> Value:
    """Operands: a tensor, what to begin with, sizes of windows, strides, distances within windows."""
    kinds = {"ADD": "SUM", "MUL": "PROD", "MINIMUM": "MINIMUM", "MAXIMUM": "MAXIMUM", "ALL": "ALL", "ANY": "ANY"}
    kind = kinds.get(str(node.option("reduce_function", "UNSUPPORTED")))
    if kind is None:
        raise node.unsupported("an unknown reduction")
    size, stride, within = (ctx.known_ints(node, i, "windows") for i in (2, 3, 4))
    lists = [size, stride, [1] * len(size), within]
    return _windows(ctx, node, kind, lists, [0] * (2 * node.rank(0)))


def _windows(
    ctx: Context, node: TfliteNode, kind: str, lists: Sequence[Sequence[int]], padding: Sequence[int]
) -> Value:
    """Windows along every axis, one after the other: each tap is a slice, and slices are combined."""
    size, stride, apart, within = lists
    rank, x, first = node.rank(0), ctx.real(node, 0), node.input(1)
    if any(len(v) != rank or min(v, default=1) < 1 for v in lists) or len(padding) != 2 * rank or max(size) > 4096:
        raise node.malformed(f"windows {list(size)} with strides {list(stride)} for {rank} dimensions")
    x = spread(ctx, x, rank, apart, first)
    x = ctx.op("Padding", x, ctx.const(list(padding)), first, mode="CONSTANT") if any(padding) else x
    op = {"ALL": "BITWISE_AND", "ANY": "LOGICALOR"}.get(kind) or COMBINING[kind]
    for axis in range(rank):
        total: Value | None = None
        for tap in range(size[axis]):
            begin = tap * within[axis]
            past = begin - (size[axis] - 1) * within[axis]
            bounds = ([begin], [past if past else 1 << 30], [axis], [stride[axis]])
            part = ctx.op("StridedSlice", x, *(ctx.const(b) for b in bounds), fromType=1)
            total = part if total is None else ctx.binary(op, total, part)
        assert total is not None
        x = total
    return ctx.binary(op, x, first)
