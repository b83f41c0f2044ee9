"""Pooling, and MediaPipe's pooling with positions."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import CHANNELS_FIRST, Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.operators.convolution import pad_mode
from MNN.frontends.tflite.registry import CUSTOM, tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tflite_op("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool_2d(ctx: Context, node: TfliteNode) -> Value:
    average = node.op == "AVERAGE_POOL_2D"
    kernel, strides = _window(node)

    def pooled(x: Value) -> Value:
        return ctx.op(
            "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1],
            type="AVEPOOL" if average else "MAXPOOL", padType=pad_mode(node), ceilModel=False,
            countType="EXCLUDE_PADDING" if average else None,
        )  # fmt: skip

    order = ctx.channels_first(node, 0)
    out = ctx.mean_of_steps(node, node.input(0), order, pooled) if average else pooled(ctx.image(node, 0))
    return ctx.channels_last(ctx.activated(node, out))


@tflite_op("L2_POOL_2D")
def l2_pool_2d(ctx: Context, node: TfliteNode) -> Value:
    """The root of the mean of squares."""
    kernel, strides = _window(node)
    x = ctx.image(node, 0)
    mean = ctx.op(
        "AveragePool", ctx.unary("SQUARE", x), kernel_shape=kernel, strides=strides, padMode=pad_mode(node),
        count_include_pad=False,
    )  # fmt: skip
    return ctx.channels_last(ctx.activated(node, ctx.unary("SQRT", mean)))


def _window(node: TfliteNode) -> tuple[list[int], list[int]]:
    kernel = [node.number("filter_height"), node.number("filter_width")]
    strides = [node.number("stride_h"), node.number("stride_w")]
    if min(kernel + strides) < 1:
        raise node.malformed(f"windows of {kernel} with strides {strides}")
    return kernel, strides


@tflite_op(f"{CUSTOM}MaxPoolingWithArgmax2D")
def max_pool_with_argmax(ctx: Context, node: TfliteNode) -> list[Value]:
    """MediaPipe's: options are padding, stride width and height, filter width and height, as i32. Positions count
    pixels within the window's own channel, as floats."""
    padding, strides, kernel = _params(node)
    x = ctx.image(node, 0)
    best, at = ctx.emit(
        "MaxPool", [x], 2, kernel_shape=kernel, strides=strides, padMode="SAME" if padding == 1 else "VALID"
    )
    plane = ctx.op("Shape", x, outputDataType="DT_INT64", hasStart=True, start=2)
    area = ctx.op("Reduction", plane, operation="PROD", dim=[0], keepDims=False)
    within = ctx.binary("FLOORMOD", at, area)
    return [ctx.channels_last(best), ctx.channels_last(ctx.cast(within, DType.F32))]


@tflite_op(f"{CUSTOM}MaxUnpooling2D")
def max_unpool(ctx: Context, node: TfliteNode) -> Value:
    """MediaPipe's: values and the positions that MaxPoolingWithArgmax2D gave; zeros elsewhere."""
    _, strides, _ = _params(node)
    x, at = ctx.image(node, 0), ctx.permuted(node.input(1), CHANNELS_FIRST[4])
    sizes = ctx.static_shape(x)
    if sizes is None:
        raise node.unsupported("an input of unknown sizes")
    height, width = sizes[2] * strides[0], sizes[3] * strides[1]
    base = np.arange(sizes[0] * sizes[1], dtype=np.int64).reshape(sizes[0], sizes[1], 1, 1) * (height * width)
    flat = ctx.binary("ADD", ctx.cast(at, DType.I64), ctx.const(base))
    whole = ctx.const([sizes[0], sizes[1], height, width])
    made = ctx.op("MaxUnpool", x, flat, whole, kernel_shape=strides, strides=strides)
    return ctx.channels_last(made)


def _params(node: TfliteNode) -> tuple[int, list[int], list[int]]:
    """Padding, strides and window (height first) of the options."""
    given = np.frombuffer(node.operation.custom_options[:20].ljust(20, b"\0"), "<i4").tolist()
    strides, kernel = [given[2], given[1]], [given[4], given[3]]
    if given[0] not in (1, 2) or min(strides + kernel) < 1:
        raise node.malformed(f"padding {given[0]}, strides {strides} and windows {kernel}")
    return given[0], strides, kernel
