"""Resizing and cropping images, blocks of pixels."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, cast, compare, insert_axis, select, unary
from MNN.frontends.common.nearest import taken, unlike_ours
from MNN.frontends.common.nhwc import channels_first, channels_last
from MNN.frontends.common.terms import line
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import Method


def _flags(node: TfNode) -> tuple[bool, bool]:
    align, half = node.bool_attr("align_corners", False), node.bool_attr("half_pixel_centers", False)
    if align and half:
        raise node.unsupported("align_corners together with half_pixel_centers", "use one of them")
    return align, half


def _floats(ctx: Context, x: Value) -> Value:
    """Pictures of whole numbers as f32."""
    return x if x.dtype is None or x.dtype.is_float else ctx.op("Cast", x, dstT="DT_FLOAT")


@tf_op("ResizeBilinear")
def resize_bilinear(ctx: Context, node: TfNode) -> Value:
    return bilinear(ctx, node.input(0), node.input(1), *_flags(node))


def bilinear(ctx: Context, x: Value, size: Value, align: bool, half: bool) -> Value:
    """``[batch, height, width, channels]`` resized; ``align`` outer centres, or take pixels at ``half`` places."""
    y = ctx.op(
        "Interp", channels_first(ctx, _floats(ctx, x)), size, resizeType=2, alignCorners=align, halfPixelCenters=half,
        ctm="AlignCorners" if align else "HalfPixels" if half else "Asymmetric",
    )  # fmt: skip
    return channels_last(ctx, y)


@tf_op("ResizeNearestNeighbor")
def resize_nearest(ctx: Context, node: TfNode) -> Value:
    align, half = _flags(node)
    transform = "align_corners" if align else "tf_half_pixel_for_nn" if half else "asymmetric"
    method = Method("nearest", transform, "round_prefer_ceil" if align else "floor")
    lines = unlike_ours(node.input(0), ctx.constant_ints(node.input(1)), method, align, half)
    if lines is not None:
        return taken(ctx, node.input(0), lines)
    x = channels_first(ctx, node.input(0))
    if not align and not half:
        return channels_last(ctx, ctx.op("Interp", x, node.input(1), resizeType=1, ctm="Asymmetric"))
    y = ctx.op(
        "OnnxResize", x, None, None, _whole(ctx, x, node.input(1)), mode=method.mode,
        coordinate_transformation_mode=method.transform, nearest_mode=method.rounding,
    )  # fmt: skip
    return channels_last(ctx, y)


def _whole(ctx: Context, x: Value, size: Value) -> Value:
    """The sizes of all axes from those of the spatial ones."""
    front = ctx.op("Shape", x, hasStart=True, start=0, hasEnd=True, end=2)
    size = size if size.dtype is DType.I32 else ctx.op("Cast", size, dstT="DT_INT32")
    return ctx.op("Cast", ctx.op("Concat", front, size, axis=0), dstT="DT_INT64")


@tf_op("DepthToSpace", "SpaceToDepth")
def blocks(ctx: Context, node: TfNode) -> Value:
    first = node.choice_attr("data_format", "NHWC", "NHWC", "NCHW") == "NCHW"
    x = node.input(0) if first else channels_first(ctx, node.input(0))
    y = ctx.op(node.op, x, blockSize=node.int_attr("block_size"), mode="DCR")
    return y if first else channels_last(ctx, y)


@tf_op("SpaceToBatchND", "BatchToSpaceND")
def batch_blocks(ctx: Context, node: TfNode) -> Value:
    """Blocks over one or two axes behind the samples."""
    x, rank = node.input(0), ctx.rank(node.input(0))
    block, borders = ctx.constant_ints(node.input(1)), cast(ctx, node.input(2), DType.I32)
    if rank is None or block is None or len(block) > 2 or rank <= len(block) or rank > 4:
        raise node.unsupported("blocks over more than two axes, or of unknown size,", "use one or two axes")
    borders = ctx.op("Reshape", borders, ctx.const([-1]))
    one = len(block) == 1 and rank < 4
    if len(block) == 1 and not one:
        block, borders = [*block, 1], ctx.op("Concat", borders, ctx.const([0, 0], DType.I32), axis=0)
    elif one:  # as convolutions have lines, so that nothing is moved between them
        x, rank = insert_axis(ctx, x, 1), rank + 1
        block, borders = [1, *block], ctx.op("Concat", ctx.const([0, 0], DType.I32), borders, axis=0)
    flat = rank == 3
    if flat:
        x = insert_axis(ctx, x, 3)
    y = _batch_blocks(ctx, node, x, block, borders)
    if flat:
        y = ctx.op("Squeeze", y, squeezeDims=[3])
    return ctx.op("Squeeze", y, squeezeDims=[1]) if one else y


@tf_op("SpaceToBatch", "BatchToSpace")
def batch_blocks_of_old(ctx: Context, node: TfNode) -> Value:
    size, borders = node.int_attr("block_size"), cast(ctx, node.input(1), DType.I32)
    return _batch_blocks(ctx, node, node.input(0), [size, size], ctx.op("Reshape", borders, ctx.const([-1])))


def _batch_blocks(ctx: Context, node: TfNode, x: Value, block: list[int], borders: Value) -> Value:
    op = "SpaceToBatchND" if node.op.startswith("Space") else "BatchToSpaceND"
    y = ctx.op(op, channels_first(ctx, x), ctx.const(block, DType.I32), borders)
    return channels_last(ctx, y)


@tf_op("CropAndResize")
def crop_and_resize(ctx: Context, node: TfNode) -> Value:
    """Boxes ``[y1, x1, y2, x2]`` of images, each sampled to one size: the grid is made here, and read bilinearly or at
    the nearest place; what lies outside is ``extrapolation_value``."""
    x, boxes, which, size = node.tensors(0, 4)
    nearest = node.choice_attr("method", "bilinear", "bilinear", "nearest") == "nearest"
    outside = node.float_attr("extrapolation_value", 0.0)
    counts = ctx.constant_ints(size)
    if counts is not None and len(counts) != 2:
        raise FormatError(f"{node.where}: a crop size {counts}, expected 2 numbers")
    if x.dtype is not DType.F32:
        x = ctx.op("Cast", x, dstT="DT_FLOAT")
    chosen = ctx.op("GatherV2", channels_first(ctx, x), which, ctx.const(0, DType.I32))
    lines, inside = [], []
    for axis in (0, 1):
        count = counts[axis] if counts else _item(ctx, size, axis)
        place = _line(ctx, boxes, x, axis, count, nearest)
        inside.append(place[1])
        lines.append(place[0])
    sizes = ctx.const(counts, DType.I32) if counts else size
    shape = ctx.op("Concat", ctx.op("Shape", which), sizes, ctx.const([1], DType.I32), axis=0)
    rows = ctx.op("BroadcastTo", ctx.op("Unsqueeze", lines[0], squeezeDims=[2, 3]), shape)
    columns = ctx.op("BroadcastTo", ctx.op("Unsqueeze", lines[1], squeezeDims=[1, 3]), shape)
    grid = ctx.op("Concat", columns, rows, axis=3)
    mode = "NEAREST" if nearest else "BILINEAR"
    y = ctx.op("GridSample", chosen, grid, mode=mode, paddingMode="CLAMP", alignCorners=True)
    row, column = insert_axis(ctx, inside[0], 2), insert_axis(ctx, inside[1], 1)
    both = insert_axis(ctx, ctx.op("BinaryOp", row, column, opType="MUL"), 1)
    return channels_last(ctx, ctx.op("Select", both, y, ctx.const(outside, DType.F32)))


def _item(ctx: Context, x: Value, place: int) -> Value:
    out = ctx.op("GatherV2", x, ctx.const(place, DType.I32), ctx.const(0, DType.I32))
    out.dtype = x.dtype
    return out


def _line(ctx: Context, boxes: Value, x: Value, axis: int, count: int | Value, nearest: bool) -> tuple[Value, Value]:
    """Along one axis, where the samples of each box lie (-1 the first pixel, 1 the last), and whether inside.
    ``nearest``: at whole pixels, to which halves are rounded up."""
    low, high = (ctx.op("GatherV2", boxes, ctx.const([axis + i], DType.I32), ctx.const(1, DType.I32)) for i in (0, 2))
    low.dtype = high.dtype = boxes.dtype
    size = ctx.op("Cast", ctx.op("Shape", x, hasStart=True, start=1 + axis, hasEnd=True, end=2 + axis), dstT="DT_FLOAT")
    last = binary(ctx, "SUB", size, 1)
    last.dtype = DType.F32
    middle = binary(ctx, "MUL", binary(ctx, "MUL", binary(ctx, "ADD", low, high), 0.5), last)
    if isinstance(count, Value):
        many, steps = cast(ctx, count, DType.F32), cast(ctx, line(ctx, count), DType.F32)
        between = binary(ctx, "MAXIMUM", binary(ctx, "SUB", many, 1), 1)
        step = binary(ctx, "REALDIV", binary(ctx, "MUL", binary(ctx, "SUB", high, low), last), between)
        place = binary(ctx, "ADD", binary(ctx, "MUL", low, last), binary(ctx, "MUL", step, steps))
        place = select(ctx, compare(ctx, "GREATER", many, 1), place, middle)
        place.dtype = DType.F32
    elif count > 1:
        step = binary(ctx, "REALDIV", binary(ctx, "MUL", binary(ctx, "SUB", high, low), last), count - 1)
        steps = ctx.const(np.arange(count), DType.F32)
        place = binary(ctx, "ADD", binary(ctx, "MUL", low, last), binary(ctx, "MUL", step, steps))
    else:
        place = middle
    inside = ctx.op(
        "BinaryOp",
        ctx.op("BinaryOp", place, ctx.const(0, DType.F32), opType="GREATER_EQUAL"),
        ctx.op("BinaryOp", place, last, opType="LESS_EQUAL"),
        opType="MUL",
    )
    if nearest:
        place = unary(ctx, "FLOOR", binary(ctx, "ADD", place, 0.5))
    normal = binary(ctx, "REALDIV", binary(ctx, "MUL", place, 2), binary(ctx, "MAXIMUM", last, 1))
    return binary(ctx, "SUB", normal, 1), inside
