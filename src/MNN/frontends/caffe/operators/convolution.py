"""Convolutions over any number of axes up to three, their transposes, and windows as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe.node import CaffeNode, MissingWeightsError
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.convolutions import convolution, patches, transposed_convolution
from MNN.ir.graph import Value

MAX_WINDOW = 1 << 16
DEPTHWISE = ("DepthwiseConvolution", "ConvolutionDepthwise", "DepthwiseConv")


@dataclass(frozen=True)
class Windows:
    """Kernel, strides, dilations and pads along the spatial axes, and the axis of the channels."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    axis: int

    @property
    def both(self) -> list[int]:
        """Pads at the begins, then at the ends."""
        return [*self.pads, *self.pads]


def _windows(node: CaffeNode, param: Message) -> Windows:
    axis = node.axis(param.integer("axis", 1))
    count = node.rank() - axis - 1
    if not 1 <= count <= 3:
        raise node.unsupported(f"{count} spatial axes", "use 1, 2 or 3")
    kernel = _per_axis(node, param, "kernel_size", "kernel", count, 0)
    strides = _per_axis(node, param, "stride", "stride", count, 1)
    pads = _per_axis(node, param, "pad", "pad", count, 0)
    dilations = _per_axis(node, param, "dilation", "dilation", count, 1)
    if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0 or max(kernel + strides + dilations + pads) > MAX_WINDOW:
        raise node.malformed(
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} make no windows"
        )
    return Windows(kernel, strides, dilations, pads, axis)


def _per_axis(node: CaffeNode, param: Message, name: str, stem: str, count: int, default: int) -> list[int]:
    """One number for all axes, one for each, or those called ``_h`` and ``_w``."""
    sides = (f"{stem}_h", f"{stem}_w")
    given = param.integers(name)
    named = [param.has(s) for s in sides]
    if any(named):
        if count != 2 or given:
            raise node.malformed(f"{sides[0]} and {sides[1]} are for two axes, without {name}")
        return [param.integer(s, default) for s in sides]
    if len(given) not in (0, 1, count):
        raise node.malformed(f"{len(given)} numbers of {name} for {count} axes")
    return given * count if len(given) == 1 else given or [default] * count


def _each(ctx: Context, node: CaffeNode, axis: int, one: Callable[[Value], Value]) -> list[Value]:
    """A result for every blob; axes before the channels are independent inputs."""
    if node.outputs not in (0, len(node.inputs)):
        raise node.malformed(f"{len(node.inputs)} bottoms and {node.outputs} tops")
    if axis == 1:
        return [one(x) for x in node.inputs]
    results = []
    for i, x in enumerate(node.inputs):
        lead = node.shape(i)[:axis]
        inner = [node.size(a, i) for a in range(axis, node.rank(i))]
        made = one(ctx.reshaped(x, [-1 if axis else 1, *inner]))
        known = ctx.static_shape(made)
        if known is None or not all(isinstance(d, int) for d in lead):
            raise node.unsupported(f"channels in axis {axis} of a blob with open sizes", "fix the network's inputs")
        results.append(ctx.reshaped(made, [*(int(d) for d in lead), *known[1:]]))
    return results


@caffe_layer("Convolution", *DEPTHWISE)
def conv(ctx: Context, node: CaffeNode) -> list[Value]:
    param = node.params("convolution_param", "depthwise_conv_param", "conv_depthwise_param")
    w, outputs, channels = _windows(node, param), param.integer("num_output", 0), node.size(_axis(node, param))
    group = param.integer("group", channels if node.op in DEPTHWISE else 1)
    if node.op in DEPTHWISE:
        group, outputs = channels, outputs or channels
    _check_groups(node, group, channels, outputs)
    weight = ctx.const(node.weight(0, outputs, channels // group, *w.kernel))
    bias = ctx.const(node.weight(1, outputs)) if param.flag("bias_term", True) else None

    def one(x: Value) -> Value:
        return convolution(ctx, x, weight, bias, w.kernel, w.strides, w.dilations, w.both, group=group)

    return _each(ctx, node, w.axis, one)


@caffe_layer("Deconvolution", "DeconvolutionDepthwise")
def deconv(ctx: Context, node: CaffeNode) -> list[Value]:
    """``y[i * stride + k * dilation - pad] += x[i] * weight[k]``. Without weights in the file, a bilinear filler makes
    them, as when Caffe loads the network."""
    param = node.params("convolution_param")
    w, outputs, channels = _windows(node, param), param.integer("num_output", 0), node.size(_axis(node, param))
    group = channels if node.op == "DeconvolutionDepthwise" else param.integer("group", 1)
    _check_groups(node, group, channels, outputs)
    shape = (channels, outputs // group, *w.kernel)
    try:
        array = node.weight(0, *shape)
    except MissingWeightsError:
        if param.message("weight_filler").text("type") != "bilinear" or len(w.kernel) != 2:
            raise
        array = _bilinear(shape)
    weight = ctx.const(array)
    bias = ctx.const(node.weight(1, outputs)) if param.flag("bias_term", True) else None

    def one(x: Value) -> Value:
        return transposed_convolution(ctx, x, weight, bias, w.kernel, w.strides, w.dilations, w.both, group=group)

    return _each(ctx, node, w.axis, one)


def _axis(node: CaffeNode, param: Message) -> int:
    return node.axis(param.integer("axis", 1))


def _check_groups(node: CaffeNode, group: int, channels: int, outputs: int) -> None:
    if outputs < 1 or group < 1 or channels % group or outputs % group:
        raise node.malformed(f"{channels} channels and {outputs} outputs do not divide into {group} groups")


def _bilinear(shape: tuple[int, ...]) -> np.ndarray:
    """Weights of linear interpolation to twice, thrice... the size."""
    lines = []
    for size in shape[2:]:
        half = -(-size // 2)
        centre = (2 * half - 1 - half % 2) / (2.0 * half)
        lines.append(1 - np.abs(np.arange(size) / half - centre))
    plane = np.outer(lines[0], lines[1]).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(plane, shape))


@caffe_layer("Im2col")
def im2col(ctx: Context, node: CaffeNode) -> list[Value]:
    """The windows of every place, as channels."""
    param = node.params("convolution_param")
    w, channels = _windows(node, param), node.size(_axis(node, param))
    param.integer("num_output", 0)

    def one(x: Value) -> Value:
        return patches(ctx, x, channels, w.kernel, w.strides, w.dilations, w.both)

    return _each(ctx, node, w.axis, one)
