"""Reading and writing at computed positions, sorting, and results that are as long as the data says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.operators.bodies import combiner, comparator, replaces
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_SCATTERED = {
    "SET": "NONE",
    "SUM": "ADD",
    "PROD": "MUL",
    "MAXIMUM": "MAXIMUM",
    "MINIMUM": "MINIMUM",
    "ALL": "MINIMUM",
    "ANY": "MAXIMUM",
}


@tflite_op("GATHER", stored=True)
def gather(ctx: Context, node: TfliteNode) -> Value:
    """Slices along an axis; after ``batch_dims`` common axes, each entry has its own."""
    x, at = node.input(0), node.input(1)
    axis, batch = node.number("axis"), node.number("batch_dims")
    rank, picked = node.rank(0), node.rank(1)
    axis, batch = axis % max(rank, 1), batch % max(picked, 1) if batch < 0 else batch
    if batch == 0:
        return ctx.op("GatherV2", x, at, ctx.const(axis))
    if not batch <= axis < rank:
        raise node.malformed(f"axis {axis} with {batch} batch axes")
    order = [*range(batch), axis, *(a for a in range(batch, rank) if a != axis)]
    moved = ctx.permuted(x, order)  # the indexed axis right behind the batch
    found = ctx.op("GatherND", moved, ctx.op("Unsqueeze", at, squeezeDims=[picked]), batchDims=batch)
    # batch axes, those of the indices, the rest: the latter go around the indices again
    inner, between = picked - batch, axis - batch
    total = rank - 1 + inner
    rest = list(range(batch + inner, total))
    return ctx.permuted(found, [*range(batch), *rest[:between], *range(batch, batch + inner), *rest[between:]])


@tflite_op("GATHER_ND", stored=True)
def gather_nd(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("GatherND", node.input(0), node.input(1))


@tflite_op("SCATTER_ND", stored=True)
def scatter_nd(ctx: Context, node: TfliteNode) -> Value:
    """Updates are added into zeros: integers as they are stored, whatever stands for the number 0."""
    indices, updates, shape = node.input(0), node.input(1), node.input(2)
    return ctx.op("ScatterNd", indices, updates, shape)


@tflite_op("SPARSE_TO_DENSE", stored=True)
def sparse_to_dense(ctx: Context, node: TfliteNode) -> Value:
    """Operands: places (a number, a list, or rows of coordinates), the shape, values (one for all, or one each), and
    the number elsewhere."""
    at, shape, values, other = (node.input(i) for i in range(4))
    rank = node.rank(0)
    depth = len(node.tensors_out[0].sizes)
    at = ctx.op("Reshape", at, ctx.const([-1, depth])) if rank < 2 else at
    whole = ctx.op("Fill", ctx.cast(shape, DType.I64), other)
    if node.rank(2) == 0:
        count = ctx.op("Shape", at, outputDataType="DT_INT64", hasEnd=True, end=1)
        values = ctx.op("BroadcastTo", values, count)
    return ctx.op("ScatterNd", at, values, shape, whole, opType="NONE")


@tflite_op("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE", stored=True)
def dynamic_update_slice(ctx: Context, node: TfliteNode) -> Value:
    """Operands: a tensor, what is written into it, where: moved so that it lies inside."""
    whole, part = node.input(0), node.input(1)
    starts = _starts(ctx, node, 2)
    sizes, sizes_in = (ctx.op("Shape", v, outputDataType="DT_INT64") for v in (whole, part))
    room = ctx.binary("SUB", sizes, sizes_in)
    starts = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", starts, ctx.const([0])), room)
    rank = node.rank(0)
    grids = []
    for axis in range(rank):
        size = ctx.op(
            "Reshape", ctx.op("GatherV2", sizes_in, ctx.const([axis]), ctx.const(0)), ctx.const([], DType.I64)
        )
        first = ctx.op("GatherV2", starts, ctx.const([axis]), ctx.const(0))
        line = ctx.op("Range", ctx.const(0), size, ctx.const(1))
        placed = ctx.op(
            "Reshape", ctx.binary("ADD", line, first), ctx.const([-1 if a == axis else 1 for a in range(rank)])
        )
        grids.append(ctx.op("BroadcastTo", placed, sizes_in))
    at = ctx.op("Pack", *grids, axis=-1)
    return ctx.op("ScatterNd", at, part, sizes, whole, opType="NONE")


@tflite_op("STABLEHLO_DYNAMIC_SLICE", stored=True)
def dynamic_slice(ctx: Context, node: TfliteNode) -> Value:
    """As many elements as the options say, from computed places on, moved so that they lie inside."""
    x, wanted = node.input(0), node.ints("slice_sizes")
    starts = _starts(ctx, node, 1)
    room = ctx.binary("SUB", ctx.op("Shape", x, outputDataType="DT_INT64"), ctx.const(wanted))
    starts = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", starts, ctx.const([0])), room)
    for axis, size in enumerate(wanted):
        first = ctx.op("GatherV2", starts, ctx.const([axis]), ctx.const(0))
        x = ctx.op("GatherV2", x, ctx.binary("ADD", first, ctx.const(np.arange(size))), ctx.const(axis))
    return x


def _starts(ctx: Context, node: TfliteNode, index: int) -> Value:
    """Places as one list of i64: an operand of one dimension, or a scalar for every axis."""
    if node.rank(index) == 1:
        return ctx.cast(node.input(index), DType.I64)
    scalars = [ctx.cast(node.input(i), DType.I64) for i in range(index, len(node.inputs))]
    return ctx.op("Pack", *scalars, axis=0)


@tflite_op("STABLEHLO_GATHER", stored=True)
def stablehlo_gather(ctx: Context, node: TfliteNode) -> Value:
    """Slices of ``slice_sizes`` at computed places, moved so that they lie inside."""
    x, given = node.input(0), ctx.static_shape(node.input(0))
    offsets, collapsed, axes = (node.ints(k) for k in ("offset_dims", "collapsed_slice_dims", "start_index_map"))
    sizes = node.ints("slice_sizes")
    if given is None:
        raise node.unsupported("an input of unknown sizes")
    if len(sizes) != len(given) or not all(1 <= n <= d for n, d in zip(sizes, given, strict=True)):
        raise node.malformed(f"slices of {sizes} of a tensor of {list(given)}")
    start, outer = _starts_last(ctx, node, axes, len(given))
    room = np.asarray([given[a] - sizes[a] for a in axes])
    start = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", start, ctx.const([0])), ctx.const(room))
    found = ctx.op("GatherND", x, ctx.op("Pack", *_coordinates(ctx, start, outer, axes, sizes), axis=-1))
    shape = [*outer, *(n for a, n in enumerate(sizes) if a not in collapsed)]
    if not _distinct(offsets, len(shape)) or len(offsets) != len(shape) - len(outer):
        raise node.malformed(f"slices along {offsets} of {len(shape)} axes")
    found = ctx.op("Reshape", found, ctx.const(shape, DType.I64))
    batch, inner = iter(range(len(outer))), iter(range(len(outer), len(shape)))
    return ctx.permuted(found, [next(inner) if i in offsets else next(batch) for i in range(len(shape))])


@tflite_op("STABLEHLO_SCATTER", stored=True)
def stablehlo_scatter(ctx: Context, node: TfliteNode) -> Value:
    """Operands: a tensor, places, windows that are combined with it there. Elements outside are left out: they go to a
    cell behind the flat tensor, which is cut off."""
    if len(node.inputs) != 3:
        raise node.unsupported("several tensors at once", "scatter into one after the other")
    x, updates = node.input(0), node.input(2)
    given, parts = ctx.static_shape(x), ctx.static_shape(updates)
    windows, inserted, axes = (
        node.ints(k) for k in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    )
    if given is None or parts is None:
        raise node.unsupported("an input of unknown sizes")
    fit = len(windows) + len(inserted) == len(given)
    if not (fit and _distinct(windows, len(parts)) and _distinct(inserted, len(given))):
        raise node.malformed(f"windows {windows} of {list(parts)} with axes {inserted} put in for {list(given)}")
    body, wide = "update_computation_subgraph_index", x.dtype is DType.BOOL
    kind = "SET" if replaces(ctx, node, body) else combiner(ctx, node, body)
    if kind in ("ALL", "ANY") and not wide:
        raise node.unsupported("a combination of bits")
    start, outer = _starts_last(ctx, node, axes, len(given))
    inner = iter(windows)
    sizes = [1 if a in inserted else parts[next(inner)] for a in range(len(given))]
    cell, inside = ctx.const([0]), ctx.const([1])
    for at, size in zip(_coordinates(ctx, start, outer, axes, sizes), given, strict=True):
        held = ctx.binary("MINIMUM", ctx.binary("MAXIMUM", at, ctx.const([0])), ctx.const([size - 1]))
        cell = ctx.binary("ADD", ctx.binary("MUL", cell, ctx.const([size])), held)
        inside = ctx.binary("MUL", inside, ctx.cast(ctx.binary("EQUAL", held, at), DType.I64))
    count = ctx.const([math.prod(given)])
    cell = ctx.binary("ADD", count, ctx.binary("MUL", inside, ctx.binary("SUB", cell, count)))
    moved = ctx.permuted(updates, [*(a for a in range(len(parts)) if a not in windows), *windows])
    line, room = (ctx.op("Reshape", v, ctx.const([-1])) for v in (moved, x))
    line, room = (ctx.cast(v, DType.I32) if wide else v for v in (line, room))
    room = ctx.op("Padding", room, ctx.const([0, 1]))
    places = ctx.op("Reshape", cell, ctx.const([-1, 1]))
    made = ctx.op("ScatterNd", places, line, ctx.const([math.prod(given) + 1]), room, opType=_SCATTERED[kind])
    made = ctx.op("Reshape", ctx.op("SliceTf", made, ctx.const([0]), count), ctx.const(list(given), DType.I64))
    return ctx.cast(made, DType.BOOL) if wide else made


def _starts_last(ctx: Context, node: TfliteNode, axes: Sequence[int], rank: int) -> tuple[Value, list[int]]:
    """The second operand's places (along ``axes`` of a tensor) as i64, each along the last axis, and the sizes of the
    other axes."""
    at, depth = node.input(1), node.number("index_vector_dim")
    places = ctx.static_shape(at)
    if places is None:
        raise node.unsupported("places of unknown sizes")
    if not 0 <= depth <= len(places):
        raise node.malformed(f"places of {list(places)} have no axis {depth}")
    if depth == len(places):
        at, places = ctx.op("Unsqueeze", at, squeezeDims=[depth]), (*places, 1)
    if not _distinct(axes, rank) or len(axes) != places[depth]:
        raise node.malformed(f"places of {places[depth]} numbers for the axes {list(axes)} of {rank}")
    at = ctx.permuted(at, [i for i in range(len(places)) if i != depth] + [depth])
    return ctx.cast(at, DType.I64), [n for i, n in enumerate(places) if i != depth]


def _distinct(axes: Sequence[int], rank: int) -> bool:
    return len({a for a in axes if 0 <= a < rank}) == len(axes)


def _coordinates(
    ctx: Context, start: Value, outer: Sequence[int], axes: Sequence[int], sizes: Sequence[int]
) -> list[Value]:
    """By axis, where the elements of windows of ``sizes`` lie that begin at ``start[outer..., axes]``, each
    ``[outer..., sizes...]``."""
    ones = [1] * len(sizes)
    made = []
    for axis, size in enumerate(sizes):
        shape = [*ones[:axis], size, *ones[axis + 1 :]]
        line = ctx.const(np.arange(size).reshape([1] * len(outer) + shape))
        if axis in axes:
            first = ctx.op("GatherV2", start, ctx.const([list(axes).index(axis)]), ctx.const(-1))
            line = ctx.binary("ADD", ctx.op("Reshape", first, ctx.const([*outer, *ones], DType.I64)), line)
        made.append(ctx.op("BroadcastTo", line, ctx.const([*outer, *sizes])))
    return made


@tflite_op("STABLEHLO_SORT", stored=True)
def stablehlo_sort(ctx: Context, node: TfliteNode) -> list[Value]:
    """Tensors sorted along an axis as one of them says; equal entries keep their order."""
    key, down = comparator(ctx, node, "comparator_subgraph_index")
    x, axis, sizes = node.input(key), node.number("dimension"), ctx.static_shape(node.input(key))
    if sizes is None or not -len(sizes) <= axis < len(sizes):
        raise node.unsupported(f"axis {axis} of a tensor of sizes {sizes}")
    wide = ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x
    operands = [wide, ctx.const(sizes[axis]), ctx.const(axis % len(sizes), DType.I32)]
    places = ctx.emit("TopKV2", operands, 2, sorted=True, largest=down, outputDataType="DT_INT64")[1]
    return [ctx.op("GatherElements", node.input(i), places, operands[2]) for i in range(len(node.inputs))]


@tflite_op("TOPK_V2", stored=True)
def top_k(ctx: Context, node: TfliteNode) -> list[Value]:
    kind = node.tensors_out[1].dtype if len(node.tensors_out) > 1 else None
    return ctx.emit("TopKV2", [node.input(0), node.input(1)], 2, outputDataType=data_type(kind or DType.I32))


@tflite_op("WHERE")
def where(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Where", node.input(0), outputDataType="DT_INT64")


@tflite_op("UNIQUE", stored=True)
def unique(ctx: Context, node: TfliteNode) -> list[Value]:
    kind = node.tensors_out[1].dtype if len(node.tensors_out) > 1 else None
    return ctx.emit("Unique", [node.input(0)], 2, sorted=False, outputDataType=data_type(kind or DType.I32))


@tflite_op("BUCKETIZE")
def bucketize(ctx: Context, node: TfliteNode) -> Value:
    """How many boundaries are not above a number: all for one that is none."""
    given = node.option("boundaries")
    x = ctx.cast(node.input(0), DType.F32)
    line = ctx.const(np.asarray([] if given is None else given, np.float32))
    above = ctx.binary("LESS", ctx.op("Unsqueeze", x, squeezeDims=[-1]), line)
    reached = ctx.binary("SUB", ctx.const(np.int32(1)), ctx.cast(above, DType.I32))
    return ctx.op("Reduction", reached, operation="SUM", dim=[-1], keepDims=False)


@tflite_op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppression(ctx: Context, node: TfliteNode) -> list[Value]:
    """Boxes that stay, filled up with zeros to the most asked for, their scores (the newer one), and their number. A
    sixth operand lowers the scores of neighbours instead of dropping them."""
    newer = node.op.endswith("V5")
    kept, scores = ctx.emit("SoftSuppression", [node.input(i) for i in range(6 if newer else 5)], 2)
    count = ctx.op("Shape", kept)
    room = ctx.binary("SUB", ctx.op("Reshape", node.input(2), ctx.const([1])), count)
    pads = ctx.op("Concat", ctx.const([0], DType.I32), room, axis=0)
    filled = [ctx.op("Padding", v, pads) for v in (kept, scores)]
    return [*filled[: 1 + newer], ctx.op("Reshape", count, ctx.const([], DType.I64))]
