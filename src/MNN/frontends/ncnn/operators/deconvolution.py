"""Transposed convolutions, and the way from images to columns and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.convolution import KERNELS, emit, explicit, pad_mode, pads, spatial_count, window
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value


def _weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    if p.flag(28):
        return {}
    found = {"weight": r.tagged(p.integer(6))}
    return found | ({"bias": r.plain(p.integer(0))} if p.flag(5) else {})


@ncnn_layer(
    "Deconvolution", "DeconvolutionDepthWise", "Deconvolution1D", "DeconvolutionDepthWise1D", "Deconvolution3D",
    "DeconvolutionDepthWise3D", weights=_weights,
)  # fmt: skip
def deconvolution(ctx: Context, node: NcnnNode) -> Value:
    """Results are cut by the paddings, or in the middle to the sizes that parameters 20 and following give."""
    p, count = node.params, spatial_count(node.op)
    outputs, group = p.integer(0), p.integer(7, 1) if "DepthWise" in node.op else 1
    kernel, dilations, strides = window(p, count, KERNELS, (0, 1, 1))
    x = ctx.floats(ctx.expect(node, node.input(0), count + 1))
    begins, ends = pads(p, count)
    right = p.integer(18)
    extra = [p.integer(20, right) if count == 3 else 0, p.integer(19, right), right][3 - count :]
    if p.flag(28):
        weight, shape = _computed(ctx, node, count)
        bias = ctx.op("Reshape", node.input(2), ctx.const([-1])) if p.flag(5) else None
    else:
        weight, shape = _constant(ctx, node, outputs, group, kernel)
        bias = ctx.const(node.weight("bias", [outputs])) if node.has_weight("bias") else None
    mode, wanted = pad_mode(begins, ends), _wanted(p, count)
    if mode != "CAFFE" and all(n > 0 for n in wanted):
        begins, ends = _around(ctx, node, x, shape[2:], strides, dilations, extra, mode, wanted)
    more = [0] * (2 - count) + extra if any(extra) else None
    out = emit(
        ctx, x, weight, bias, shape, strides, dilations, "CAFFE", explicit(begins, ends), group, transposed=True,
        outPads=more,
    )  # fmt: skip
    return ctx.activated(node, out)


def _wanted(p: Params, count: int) -> list[int]:
    """Sizes of the result along the spatial axes; 0 where not given."""
    first = 25 if count == 3 else 20
    width = p.integer(first)
    return [p.integer(first + 2, width), p.integer(first + 1, width), width][3 - count :]


def _around(
    ctx: Context, node: NcnnNode, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    extra: Sequence[int], mode: str, wanted: Sequence[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """What is cut off on both sides of the whole result so that ``wanted`` is left."""
    begins, ends = [], []
    for i, (k, d, s, e, n) in enumerate(zip(kernel, dilations, strides, extra, wanted, strict=True)):
        size = ctx.known_extent(node, x, 2 + i, "a size that a result is cut from")
        total = (size - 1) * s + (k - 1) * d + 1 + e - n
        if total < 0:
            raise node.malformed(f"a result of {n} is larger than the whole, which is {total + n}")
        begins.append((total + 1) // 2 if mode == "SAME_LOWER" else total // 2)
        ends.append(total - begins[-1])
    return begins, ends


def _constant(
    ctx: Context, node: NcnnNode, outputs: int, group: int, kernel: Sequence[int]
) -> tuple[Value, tuple[int, ...]]:
    """Weights ``[I, O / group, kernel...]``; the file has them as ``[group, O / group, I / group, kernel...]``."""
    per, rest = divmod(node.params.integer(6), max(outputs * math.prod(kernel), 1))
    if rest or per < 1 or group < 1 or outputs % group:
        raise node.malformed(
            f"{node.params.integer(6)} weights for {outputs} outputs in {group} groups and a kernel of {list(kernel)}"
        )
    found = node.weight("weight", (group, outputs // group, per, *kernel))
    if found.dtype == np.int8:
        raise node.unsupported("8-bit weights")
    shape = (group * per, outputs // group, *kernel)
    return ctx.const(np.ascontiguousarray(found.swapaxes(1, 2).reshape(shape))), shape


def _computed(ctx: Context, node: NcnnNode, count: int) -> tuple[Value, tuple[int, ...]]:
    weight = ctx.op("Squeeze", node.input(1), squeezeDims=[0])
    shape = ctx.static_shape(weight)
    if shape is None or len(shape) != count + 2:
        raise node.unsupported("weights that are computed, of unknown shape")
    return weight, shape


@ncnn_layer("Unfold")
def unfold(ctx: Context, node: NcnnNode) -> Value:
    """Windows as columns, ``[C * kh * kw, places]``, by a convolution whose weights pick one element each."""
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    kernel, dilations, strides = window(p, 2, KERNELS, (0, 1, 1))
    begins, ends = pads(p, 2)
    if p.real(18) != 0:
        raise node.unsupported("a border of another number than 0")
    channels = ctx.known_extent(node, x, 1, "a number of channels")
    count = math.prod(kernel)
    if count < 1 or count * count * channels > 1 << 24:
        raise node.malformed(f"a window of {kernel}")
    picks = np.tile(np.eye(count, dtype=np.float32).reshape(count, 1, *kernel), (channels, 1, 1, 1))
    out = emit(
        ctx, x, ctx.const(picks), None, (count * channels, 1, *kernel), strides, dilations, pad_mode(begins, ends),
        explicit(begins, ends), channels,
    )  # fmt: skip
    return ctx.reshape(out, [count * channels, -1])


@ncnn_layer("Fold")
def fold(ctx: Context, node: NcnnNode) -> Value:
    """The sum of windows, which are columns."""
    p, x = node.params, ctx.expect(node, node.input(0), 2)
    kernel, dilations, strides = window(p, 2, KERNELS, (0, 1, 1))
    begins, ends = pads(p, 2)
    width = p.integer(20)
    image = [p.integer(21, width), width]
    if min(*kernel, *image) < 1:
        raise node.malformed(f"windows of {kernel} in an image of {image}")
    return ctx.op(
        "OnnxCol2Im", x, ctx.const(image), ctx.const(kernel), dilations=dilations, pads=explicit(begins, ends),
        strides=strides,
    )  # fmt: skip


def _deformable_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    found = {"weight": r.tagged(p.integer(6))}
    return found | ({"bias": r.plain(p.integer(0))} if p.flag(5) else {})


@ncnn_layer("DeformableConv2D", weights=_deformable_weights)
def deformable(ctx: Context, node: NcnnNode) -> Value:
    """Operands: the image, offsets (h before w), a mask or none."""
    p, outputs = node.params, node.params.integer(0)
    kernel, dilations, strides = window(p, 2, KERNELS, (0, 1, 1))
    begins, ends = pads(p, 2)
    inputs = p.integer(6) // max(outputs * math.prod(kernel), 1)
    weight = ctx.const(node.weight("weight", (outputs, inputs, *kernel)))
    bias = ctx.const(node.weight("bias", [outputs])) if node.has_weight("bias") else None
    out = ctx.op(
        "DeformConv", node.input(0), weight, node.input(1), bias, node.optional(2), strides=strides,
        dilations=dilations, pads=explicit(begins, ends), group=1, offset_group=1,
    )  # fmt: skip
    return ctx.activated(node, out)
