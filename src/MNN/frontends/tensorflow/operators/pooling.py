"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.convolution import Windows, image, restored, windows
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


@tf_op("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(ctx: Context, node: TfNode) -> Value:
    where = windows(node, 3 if node.op.endswith("3D") else 2)
    return _pooled(ctx, node, where, node.ints_attr("ksize"))


@tf_op("MaxPoolV2")
def max_pool_by_operands(ctx: Context, node: TfNode) -> Value:
    kernel, strides = (ctx.constant_ints(v) for v in node.tensors(1, 3))
    if kernel is None or strides is None:
        raise node.unsupported("sizes that are not constant", "use constants")
    return _pooled(ctx, node, windows(node, 2, strides), kernel)


def _pooled(ctx: Context, node: TfNode, where: Windows, sizes: Sequence[int]) -> Value:
    kernel = list(sizes[2:]) if where.first else list(sizes[1:-1])
    if len(sizes) != where.count + 2 or sorted(sizes) != sorted([1, 1, *kernel]) or min(kernel) < 1:
        raise node.unsupported(f"windows of {list(sizes)}", "use 1 over samples and channels")
    x = image(ctx, node.input(0), where, kernel)
    largest = node.op.startswith("Max")
    if where.count == 3 or (where.mode == "CAFFE" and any(where.pads or ())):
        op = "MaxPool" if largest else "AveragePool"
        y = ctx.op(
            op, x, kernel_shape=kernel, strides=where.strides, dilations=[1] * where.count, pads=where.pads,
            padMode=where.mode, ceil_mode=False,
        )  # fmt: skip
        return restored(ctx, y, where)
    y = ctx.op(
        "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=where.strides[0], strideX=where.strides[1],
        padType=where.mode, pads=where.pads, ceilModel=False, type="MAXPOOL" if largest else "AVEPOOL",
        countType=None if largest else "EXCLUDE_PADDING",
    )  # fmt: skip
    return restored(ctx, y, where)


@tf_op("MaxPoolWithArgmax")
def max_pool_with_argmax(ctx: Context, node: TfNode) -> list[Value]:
    """The places count with channels last, within one sample unless ``include_batch_in_index``."""
    node.ignore("data_format")
    where = windows(node, 2)
    sizes, whole = node.ints_attr("ksize"), node.bool_attr("include_batch_in_index", False)
    to = node.dtype_attr("Targmax", DType.I64)
    if sizes[0] != 1 or sizes[-1] != 1 or where.first:
        raise node.unsupported("windows over samples or channels, or channels first,", "use plain windows")
    x = image(ctx, node.input(0), where)
    largest, places = ctx.emit(
        "MaxPool", [x], 2, kernel_shape=sizes[1:-1], strides=where.strides, dilations=[1, 1], padMode=where.mode,
        pads=where.pads, ceil_mode=False, storage_order=0,
    )  # fmt: skip

    def number(kind: str, value: Value, by: Value) -> Value:
        return ctx.op("BinaryOp", value, by, opType=kind)

    shape = ctx.op("Shape", x, outputDataType="DT_INT64")
    _, channels, height, width = ctx.emit("Slice", [shape], 4, axis=0, slicePoints=[1] * 4, sourceType="TORCH")
    plane = number("MUL", height, width)
    whole_plane = number("MUL", plane, channels)
    channel = number("FLOORMOD", number("FLOORDIV", places, plane), channels)
    flat = number("ADD", number("MUL", number("FLOORMOD", places, plane), channels), channel)
    if whole:
        flat = number("ADD", flat, number("MUL", number("FLOORDIV", places, whole_plane), whole_plane))
    flat = restored(ctx, flat, where)
    if to is not DType.I64:
        flat = ctx.op("Cast", flat, dstT=data_type(to))
    return [restored(ctx, largest, where), flat]
