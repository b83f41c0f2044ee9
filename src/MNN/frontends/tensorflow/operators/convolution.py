"""Convolutions, their transposes, and the fused forms that TensorFlow's own optimiser writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.borders import behind_left_out, same_borders
from MNN.frontends.common.expressions import clamp, unary
from MNN.frontends.common.nhwc import channels_first, channels_last, filter_first, permuted
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.elementwise import plus_bias
from MNN.frontends.tensorflow.operators.images.resizing import bilinear
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value

MAX_TAPS = 1024
END = int(np.iinfo(np.int32).max)


@dataclass
class Windows:
    """Where windows lie: ``first`` says that channels are axis 1; the rest is per spatial axis. ``pads`` are begins,
    then ends; None where ``mode`` tells them."""

    first: bool
    strides: list[int]
    dilations: list[int]
    mode: str
    pads: list[int] | None

    @property
    def count(self) -> int:
        return len(self.strides)


def windows(node: TfNode, count: int, strides: Sequence[int] | None = None) -> Windows:
    """What the attributes say of windows over ``count`` spatial axes."""
    last = ("NDHWC", "NCDHW") if count == 3 else ("NHWC", "NCHW")
    first = node.choice_attr("data_format", last[0], *last) == last[1]

    def spatial(values: Sequence[int], key: str) -> list[int]:
        if len(values) != count + 2:
            raise FormatError(f"{node.where}: attribute '{key}' is {list(values)}, expected {count + 2} numbers")
        kept = list(values[2:]) if first else list(values[1:-1])
        if any(v != 1 for v in (*values[:2], values[-1])) and sorted(values) != sorted([1, 1, *kept]):
            raise node.unsupported(f"{key} {list(values)} over samples or channels", "use 1 there")
        if any(v < 1 for v in kept):
            raise FormatError(f"{node.where}: attribute '{key}' is {list(values)}")
        return kept

    steps = spatial(node.ints_attr("strides") if strides is None else strides, "strides")
    dilations = spatial(node.ints_attr("dilations", [1] * (count + 2)), "dilations")
    padding = node.choice_attr("padding", "VALID", "SAME", "VALID", "EXPLICIT")
    explicit = node.ints_attr("explicit_paddings", [])
    if padding == "EXPLICIT":
        if len(explicit) != 2 * count + 4:
            raise FormatError(f"{node.where}: attribute 'explicit_paddings' is {explicit}")
        pairs = explicit[4:] if first else explicit[2:-2]
        return Windows(first, steps, dilations, "CAFFE", [*pairs[0::2], *pairs[1::2]])
    if padding == "VALID" and count == 3:
        return Windows(first, steps, dilations, "CAFFE", [0] * 6)
    return Windows(first, steps, dilations, padding, None)


def image(ctx: Context, x: Value, where: Windows, kernel: Sequence[int] | None = None) -> Value:
    """The input with channels second; where windows over three axes are told, whose sizes are ``kernel``, without what
    lies before the first of them."""
    x = x if where.first else channels_first(ctx, x, where.count + 2)
    if kernel is None or where.count != 3 or where.mode != "SAME":
        return x
    sizes = zip(kernel, where.dilations, where.strides, strict=True)
    return behind_left_out(ctx, x, {i: ((k - 1) * d + 1, s) for i, (k, d, s) in enumerate(sizes, 2)})


def restored(ctx: Context, y: Value, where: Windows) -> Value:
    """The result with channels where the node has them."""
    return y if where.first else channels_last(ctx, y, where.count + 2)


def planar(where: Windows, kernel: Sequence[int]) -> dict[str, object]:
    """Attributes of the engine's two-dimensional operators."""
    (ky, kx), (sy, sx), (dy, dx) = kernel, where.strides, where.dilations
    return {
        "kernelY": ky, "kernelX": kx, "strideY": sy, "strideX": sx, "dilateY": dy, "dilateX": dx,
        "padMode": where.mode, "pads": where.pads,
    }  # fmt: skip


def filter_shape(ctx: Context, node: TfNode, w: Value, rank: int) -> tuple[int, ...]:
    shape = ctx.static_shape(w)
    if shape is None:
        raise node.unsupported("a filter of unknown shape", "export the model with shapes")
    if len(shape) != rank or 0 in shape:
        raise FormatError(f"{node.where}: a filter of shape {list(shape)}, expected {rank} sizes")
    return shape


@tf_op("Conv2D")
def conv2d(ctx: Context, node: TfNode) -> Value:
    where = windows(node, 2)
    return restored(ctx, convolved(ctx, node, node.input(0), node.input(1), where), where)


def convolved(ctx: Context, node: TfNode, x: Value, w: Value, where: Windows, bias: Value | None = None) -> Value:
    """The convolution with channels second."""
    *kernel, inner, outer = filter_shape(ctx, node, w, where.count + 2)
    x = image(ctx, x, where, kernel)
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else inner
    if not isinstance(channels, int) or channels % inner:
        channels = inner
    group, weight = channels // inner, filter_first(ctx, w, where.count + 2)
    more = {"group": group, "outputCount": outer, "inputCount": channels}
    if where.count == 3:
        return ctx.op(
            "Convolution3D", x, weight, bias, kernels=kernel, strides=where.strides, dilates=where.dilations,
            pads=where.pads, padMode=where.mode, **more,
        )  # fmt: skip
    op = "ConvolutionDepthwise" if group > 1 and inner == 1 and outer == group else "Convolution"
    return ctx.op(op, x, weight, bias, **planar(where, kernel), **more)


@tf_op("Conv3D")
def conv3d(ctx: Context, node: TfNode) -> Value:
    where = windows(node, 3)
    return restored(ctx, convolved(ctx, node, node.input(0), node.input(1), where), where)


@tf_op("DepthwiseConv2dNative")
def depthwise(ctx: Context, node: TfNode) -> Value:
    where = windows(node, 2)
    return restored(ctx, convolved_depthwise(ctx, node, node.input(0), node.input(1), where), where)


def convolved_depthwise(
    ctx: Context, node: TfNode, x: Value, w: Value, where: Windows, bias: Value | None = None
) -> Value:
    """Each channel with filters of its own, ``[h, w, channels, multiplier]``."""
    ky, kx, channels, times = filter_shape(ctx, node, w, 4)
    weight = depthwise_filter(ctx, w, ky, kx, channels, times)
    more = {"group": channels, "outputCount": channels * times, "inputCount": channels}
    op = "ConvolutionDepthwise" if times == 1 else "Convolution"
    return ctx.op(op, image(ctx, x, where), weight, bias, **planar(where, (ky, kx)), **more)


def depthwise_filter(ctx: Context, w: Value, ky: int, kx: int, channels: int, times: int) -> Value:
    """``[h, w, channels, multiplier]`` as ``[channels * multiplier, 1, h, w]``."""
    return ctx.op("Reshape", permuted(ctx, w, [2, 3, 0, 1]), ctx.const([channels * times, 1, ky, kx]))


# -- transposed -------------------------------------------------------------------------------------------------------


@tf_op("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "Conv3DBackpropInputV2")
def transposed(ctx: Context, node: TfNode) -> Value:
    """What is called a gradient is a layer too: the transposed convolution, whose output's size is an operand."""
    count = 3 if "3D" in node.op else 2
    where = windows(node, count)
    sizes, w, x = node.tensors(0, 3)
    *kernel, outer, inner = filter_shape(ctx, node, w, count + 2)
    if "Depthwise" in node.op:
        channels, group = outer * inner, outer
        weight = depthwise_filter(ctx, w, kernel[0], kernel[1], outer, inner)
    else:
        channels, group, weight = inner, 1, permuted(ctx, w, [count + 1, count, *range(count)])
    x = image(ctx, x, where)
    attrs: dict[str, object] = {"group": group, "outputCount": outer, "inputCount": channels}
    where, operands = _sized(ctx, node, where, kernel, x, sizes, attrs)
    if count == 3:
        y = ctx.op(
            "ConvTranspose3D", x, weight, None, *operands, kernels=kernel, strides=where.strides,
            dilates=where.dilations, padMode=where.mode, pads=where.pads, **attrs,
        )  # fmt: skip
    else:
        op = "DeconvolutionDepthwise" if group > 1 and channels == group else "Deconvolution"
        y = ctx.op(op, x, weight, None, *operands, **planar(where, kernel), **attrs)
    y = restored(ctx, y, where)
    open_size = where.mode == "VALID" or (where.pads is not None and y.shape is not None and None in known_sizes(y))
    return _grown(ctx, y, sizes) if open_size and not operands else y


def known_sizes(x: Value) -> list[int | None]:
    """The sizes of a tensor; None for the open ones."""
    return [d if isinstance(d, int) else None for d in x.shape or ()]


def _grown(ctx: Context, y: Value, sizes: Value) -> Value:
    """Zeros behind the spatial axes, up to a size that is an operand."""
    rank, count = ctx.rank(y) or 4, sizes.shape[0] if sizes.shape else None
    if count != rank:
        return y
    missing = ctx.op("BinaryOp", sizes, ctx.op("Shape", y), opType="SUB")
    pairs = ctx.op("Pack", ctx.op("ZerosLike", missing), missing, axis=1)
    return ctx.op("Padding", y, ctx.op("Reshape", pairs, ctx.const([-1])), mode="CONSTANT")


def _sized(
    ctx: Context, node: TfNode, where: Windows, kernel: Sequence[int], x: Value, sizes: Value, attrs: dict[str, object]
) -> tuple[Windows, list[Value]]:
    """Pads that give the size that is asked for, where sizes are known; else the size is handed on."""
    known, given = ctx.model.shape_inference.ints(sizes), None if x.shape is None else x.shape[2:]
    if known is not None and len(known) in (where.count, where.count + 2):
        spatial = known if len(known) == where.count else known[2:] if where.first else known[1:-1]
        wanted = [d for d in spatial if isinstance(d, int)]
        if given is not None and all(isinstance(d, int) for d in given) and len(wanted) == where.count:
            return _exact(node, where, kernel, [int(d) for d in given], wanted, attrs), []
    if where.mode != "SAME":  # nothing is cut off; what is put on is seen while running
        return where, []
    attrs["hasOutputShape"] = True
    first, last = (2, where.count + 2) if where.first else (1, where.count + 1)
    if where.count == 2 and not where.first:
        return where, [sizes]
    cut = ctx.op(
        "StridedSlice", sizes, ctx.const([first]), ctx.const([last]), ctx.const([0]), ctx.const([1]), fromType=1
    )
    if where.count == 3:
        return where, [cut]
    one = ctx.const([1], sizes.dtype)
    return where, [ctx.op("Concat", one, cut, one, axis=0)]


def _exact(
    node: TfNode, where: Windows, kernel: Sequence[int], given: Sequence[int], wanted: Sequence[int],
    attrs: dict[str, object],
) -> Windows:  # fmt: skip
    begins, ends, extra = [], [], []
    for i, (size, out) in enumerate(zip(given, wanted, strict=True)):
        span = (kernel[i] - 1) * where.dilations[i] + 1
        full = (size - 1) * where.strides[i] + span
        if where.mode == "SAME":
            over = max(full - out, 0)
            begin = over // 2
            end = over - begin
        else:
            begin = where.pads[i] if where.pads else 0
            end = where.pads[i + where.count] if where.pads else 0
        begins.append(begin)
        ends.append(end)
        extra.append(out - (full - begin - end))
    if any(e < 0 for e in extra):
        raise FormatError(f"{node.where}: an output of {list(wanted)} does not fit an input of {list(given)}")
    if any(extra):
        attrs["outPads"] = extra
    return Windows(where.first, where.strides, where.dilations, "CAFFE", [*begins, *ends])


# -- fused ------------------------------------------------------------------------------------------------------------

_ACTIVATIONS: dict[str, Callable[[Context, Value], Value]] = {
    "Relu": lambda ctx, x: ctx.op("ReLU", x),
    "Relu6": lambda ctx, x: clamp(ctx, x, 0.0, 6.0),
    "Elu": lambda ctx, x: ctx.op("ELU", x, alpha=1.0),
    "Tanh": lambda ctx, x: ctx.op("TanH", x),
    "Sigmoid": lambda ctx, x: ctx.op("Sigmoid", x),
    "GeluExact": lambda ctx, x: unary(ctx, "GELU_STANDARD", x),
    "GeluApproximate": lambda ctx, x: unary(ctx, "GELU", x),
}


def finished(ctx: Context, node: TfNode, x: Value, args: Sequence[Value], first: bool) -> Value:
    """What the attribute ``fused_ops`` names, applied to ``x``; ``args`` are the operands for it."""
    rest = list(args)
    slope = node.float_attr("leakyrelu_alpha", 0.2)
    epsilon = node.float_attr("epsilon", 1e-4)
    for name in node.strs_attr("fused_ops"):
        if name == "BiasAdd":
            x = plus_bias(ctx, node, x, rest.pop(0), first)
        elif name == "Add":
            x = ctx.op("BinaryOp", x, rest.pop(0), opType="ADD")
        elif name == "LeakyRelu":
            x = ctx.op("ReLU", x, slope=slope)
        elif name == "FusedBatchNorm":
            moments = [rest.pop(0) for _ in range(4)]
            planes = x if first else channels_first(ctx, x)
            normal = ctx.op("BatchNorm", planes, *moments, epsilon=epsilon)
            x = normal if first else channels_last(ctx, normal)
        elif name in _ACTIVATIONS:
            x = _ACTIVATIONS[name](ctx, x)
        else:
            raise node.unsupported(f"the fused operator {name}", "freeze the graph without TensorFlow's optimiser")
    return x


@tf_op("_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedConv3D", "FusedConv2D")
def fused_conv(ctx: Context, node: TfNode) -> Value:
    node.ignore("num_args", "num_host_args", "filter_format")
    where = windows(node, 3 if "3D" in node.op else 2)
    apply = convolved_depthwise if "Depthwise" in node.op else convolved
    y = restored(ctx, apply(ctx, node, node.input(0), node.input(1), where), where)
    return finished(ctx, node, y, node.tensors(2), where.first)


@tf_op("FusedPadConv2D", "FusedResizeAndPadConv2D")
def padded_conv(ctx: Context, node: TfNode) -> Value:
    """A convolution of a picture (channels last) that is mirrored beyond its borders, and resized before that."""
    x, *operands = node.tensors()
    if node.op == "FusedResizeAndPadConv2D":
        x = bilinear(ctx, x, operands.pop(0), node.bool_attr("resize_align_corners", False), half=False)
    mode = node.choice_attr("mode", "REFLECT", "REFLECT", "SYMMETRIC")
    borders = ctx.op("Reshape", operands[0], ctx.const([-1]))
    where = windows(node, 2)
    return restored(ctx, convolved(ctx, node, ctx.op("Padding", x, borders, mode=mode), operands[1], where), where)


@tf_op("_FusedMatMul")
def fused_matmul(ctx: Context, node: TfNode) -> Value:
    node.ignore("num_args")
    flags = {"transposeA": node.bool_attr("transpose_a", False), "transposeB": node.bool_attr("transpose_b", False)}
    return finished(ctx, node, ctx.op("MatMul", node.input(0), node.input(1), **flags), node.tensors(2), False)


# -- morphology -------------------------------------------------------------------------------------------------------


@tf_op("Dilation2D")
def dilation2d(ctx: Context, node: TfNode) -> Value:
    """The largest of ``x + filter`` over each window: one shifted sum per tap of the filter."""
    x, w = node.input(0), node.input(1)
    height, width, _ = filter_shape(ctx, node, w, 3)
    (_, sy, sx, _), (_, dy, dx, _) = node.ints_attr("strides"), node.ints_attr("rates")
    same = node.choice_attr("padding", "VALID", "SAME", "VALID") == "SAME"
    if ctx.rank(x) != 4 or height * width > MAX_TAPS or min(sy, sx, dy, dx) < 1:
        raise node.unsupported("an input of unknown rank, or a filter this large,", "export the model with shapes")
    spans = [(height - 1) * dy + 1, (width - 1) * dx + 1]
    if same:
        lowest = ctx.const_like(float(np.finfo(np.float32).min), x)
        borders = same_borders(ctx, x, {1: (spans[0], sy), 2: (spans[1], sx)})
        padded = ctx.op("Padding", x, borders, lowest, mode="CONSTANT")
    else:
        padded = x
    best: Value | None = None
    for ky in range(height):
        for kx in range(width):
            begins = [ky * dy, kx * dx]
            ends = [b - span + 1 or END for b, span in zip(begins, spans, strict=True)]
            bounds = (ctx.const(begins), ctx.const(ends), ctx.const([1, 2]), ctx.const([sy, sx]))
            taps = ctx.op("StridedSlice", padded, *bounds, fromType=1)
            tap = ctx.op("GatherND", w, ctx.const([ky, kx]))
            total = ctx.op("BinaryOp", taps, tap, opType="ADD")
            best = total if best is None else ctx.op("BinaryOp", best, total, opType="MAXIMUM")
    assert best is not None
    return best
