"""Convolutions of one, two and three spatial axes, with weights in floats and in 8 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.quantized import requantized, rounded
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

SAME_UPPER, SAME_LOWER = -233, -234
"""Paddings that make results as large as inputs; what is odd goes to the end, or to the begin."""


def spatial_count(op: str) -> int:
    return 1 if op.endswith("1D") else 3 if op.endswith("3D") else 2


def window(p: Params, count: int, ids: tuple[tuple[int, int, int], ...], defaults: Sequence[int]) -> list[list[int]]:
    """Sizes along (d, h, w), (h, w) or (w): for each of ``ids`` (w, h, d), those of h and d default to that of w."""
    found = []
    for (w, h, d), default in zip(ids, defaults, strict=True):
        width = p.integer(w, default)
        found.append([p.integer(d, width), p.integer(h, width), width][3 - count :])
    return found


def pads(p: Params, count: int) -> tuple[list[int], list[int]]:
    """Begins and ends along the spatial axes."""
    left = p.integer(4)
    top, front = p.integer(14, left), p.integer(24, left)
    begins = [front, top, left][3 - count :]
    ends = [p.integer(17, front), p.integer(16, top), p.integer(15, left)][3 - count :]
    return begins, ends


def pad_mode(begins: Sequence[int], ends: Sequence[int]) -> str:
    every = {*begins, *ends}
    if every == {SAME_UPPER}:
        return "SAME"
    return "SAME_LOWER" if every == {SAME_LOWER} else "CAFFE"


def explicit(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Pads without ncnn's negative marks."""
    return [max(n, 0) for n in (*begins, *ends)]


KERNELS = ((1, 11, 21), (2, 12, 22), (3, 13, 23))
"""Ids of kernel, dilation and stride."""


def _float_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    if p.flag(19):
        return {}
    found = {"weight": r.tagged(p.integer(6))}
    return found | ({"bias": r.plain(p.integer(0))} if p.flag(5) else {})


def _weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    """Those of plain convolutions, with a scale an output where they have 8 bits."""
    return _scaled_weights(p, r, p.integer(0))


def _grouped_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    """Scales are one a group, or one for all."""
    return _scaled_weights(p, r, 1 if p.integer(8) in (2, 102) else p.integer(7, 1))


def _scaled_weights(p: Params, r: WeightReader, scales: int) -> dict[str, np.ndarray]:
    found = _float_weights(p, r)
    if p.integer(8) and not p.flag(19):
        found |= {"scales": r.plain(scales), "input_scale": r.plain(1)}
        if p.integer(8) > 100:
            found["output_scale"] = r.plain(1)
    return found


@ncnn_layer("Convolution", weights=_weights)
@ncnn_layer("ConvolutionDepthWise", weights=_grouped_weights)
@ncnn_layer(
    "Convolution1D", "ConvolutionDepthWise1D", "Convolution3D", "ConvolutionDepthWise3D", weights=_float_weights
)
def convolution(ctx: Context, node: NcnnNode) -> Value:
    p, count = node.params, spatial_count(node.op)
    outputs, group = p.integer(0), p.integer(7, 1) if "DepthWise" in node.op else 1
    kernel, dilations, strides = window(p, count, KERNELS, (0, 1, 1))
    x = node.input(0)
    line = count == 2 and ctx.dims(node, x) == 1 and kernel == [1, 1]  # ncnn takes it for an image of one pixel
    x = ctx.reshape(x, [-1, 1, 1]) if line else ctx.expect(node, x, count + 1)
    out = _convolved(ctx, node, x, outputs, group, kernel, dilations, strides)
    return ctx.reshape(out, [-1]) if line else out


def _convolved(
    ctx: Context, node: NcnnNode, x: Value, outputs: int, group: int, kernel: list[int], dilations: list[int],
    strides: list[int],
) -> Value:  # fmt: skip
    p, count = node.params, len(kernel)
    begins, ends = pads(p, count)
    fill = p.real(18)
    if node.has_weight("scales"):
        x = rounded(ctx, x, float(node.weight("input_scale", [1])[0]))
    x = ctx.floats(x)
    if p.flag(19):
        weight, bias, shape = _computed(ctx, node, count)
    else:
        weight, shape = _constant(ctx, node, outputs, group, kernel)
        bias = ctx.const(node.weight("bias", [outputs])) if node.has_weight("bias") else None
    mode = pad_mode(begins, ends)
    if fill != 0 and (mode != "CAFFE" or any(n > 0 for n in (*begins, *ends))):
        x = _filled(ctx, node, x, mode, begins, ends, shape[2:], dilations, strides, fill)
        mode, begins, ends = "CAFFE", [0] * count, [0] * count
    out = emit(ctx, x, weight, bias, shape, strides, dilations, mode, explicit(begins, ends), group)
    out = ctx.activated(node, out)
    if node.has_weight("output_scale"):
        return requantized(ctx, out, float(node.weight("output_scale", [1])[0]))
    return out


def _filled(
    ctx: Context, node: NcnnNode, x: Value, mode: str, begins: Sequence[int], ends: Sequence[int],
    kernel: Sequence[int], dilations: Sequence[int], strides: Sequence[int], fill: float,
) -> Value:  # fmt: skip
    """A border of another number than 0."""
    low, high = [max(n, 0) for n in begins], [max(n, 0) for n in ends]
    if mode != "CAFFE":
        low, high = [], []
        for i, (k, d, s) in enumerate(zip(kernel, dilations, strides, strict=True)):
            n = ctx.known_extent(node, x, 2 + i, "a size that is padded with a number")
            total = max((k - 1) * d + 1 + (n - 1) // s * s - n, 0)
            low.append((total + 1) // 2 if mode == "SAME_LOWER" else total // 2)
            high.append(total - low[-1])
    both = [0, 0, 0, 0, *(n for pair in zip(low, high, strict=True) for n in pair)]
    return ctx.op("Padding", x, ctx.const(both), ctx.const(np.float32(fill)), mode="CONSTANT")


def _constant(
    ctx: Context, node: NcnnNode, outputs: int, group: int, kernel: Sequence[int]
) -> tuple[Value, tuple[int, ...]]:
    """Weights ``[O, I / group, kernel...]``."""
    per, rest = divmod(node.params.integer(6), max(outputs * math.prod(kernel), 1))
    if rest or per < 1 or group < 1 or outputs % group:
        raise node.malformed(
            f"{node.params.integer(6)} weights for {outputs} outputs in {group} groups and a kernel of {list(kernel)}"
        )
    shape = (outputs, per, *kernel)
    weight = node.weight("weight", shape)
    if not node.has_weight("scales"):
        if weight.dtype == np.int8:
            raise node.malformed("8-bit weights without scales")
        return ctx.const(np.ascontiguousarray(weight)), shape
    scales = _scales(node, outputs)
    if weight.dtype != np.int8:
        line = scales.reshape(-1, *[1] * (len(shape) - 1))
        weight = np.clip(_half_away(weight * line), -127, 127).astype(np.int8)
    return ctx.dequantized(np.ascontiguousarray(weight), scales), shape


def _scales(node: NcnnNode, outputs: int) -> np.ndarray:
    """One scale an output (files have one a group)."""
    found = node.weights("scales")
    if outputs % found.size:
        raise node.malformed(f"{found.size} scales for {outputs} outputs")
    return np.repeat(found, outputs // found.size)


def _half_away(x: np.ndarray) -> np.ndarray:
    rounded_off: np.ndarray = np.sign(x) * np.floor(np.abs(x) + np.float32(0.5))
    return rounded_off


def _computed(ctx: Context, node: NcnnNode, count: int) -> tuple[Value, Value | None, tuple[int, ...]]:
    """Weights and bias that other layers make: ``[O, I, kernel...]``."""
    weight = ctx.op("Squeeze", node.input(1), squeezeDims=[0])
    shape = ctx.static_shape(weight)
    if shape is None or len(shape) != count + 2:
        raise node.unsupported("weights that are computed, of unknown shape")
    bias = ctx.op("Reshape", node.input(2), ctx.const([-1])) if node.params.flag(5) else None
    return weight, bias, shape


def emit(
    ctx: Context, x: Value, weight: Value, bias: Value | None, shape: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], mode: str, padding: list[int], group: int, transposed: bool = False, **more: object,
) -> Value:  # fmt: skip
    """The engine's operator. ``shape`` is that of the weights: ``[O, I / group, ...]``, transposed ``[I, O / group,
    ...]``; one spatial axis becomes two with a height of 1."""
    count = len(shape) - 2
    outputs, inputs = (shape[1] * group, shape[0]) if transposed else (shape[0], shape[1] * group)
    given: dict[str, object] = {"group": group, "outputCount": outputs, "inputCount": inputs, "padMode": mode} | more
    if count == 3:
        op = "ConvTranspose3D" if transposed else "Convolution3D"
        return ctx.op(
            op, x, weight, bias, kernels=list(shape[2:]), strides=list(strides), dilates=list(dilations), pads=padding,
            **given,
        )  # fmt: skip
    kernel, steps, spread = list(shape[2:]), list(strides), list(dilations)
    if count == 1:
        x, weight = ctx.op("Unsqueeze", x, squeezeDims=[2]), _flat(ctx, weight)
        kernel, steps, spread, padding = [1, *kernel], [1, *steps], [1, *spread], [0, padding[0], 0, padding[1]]
    depthwise = group > 1 and shape[0] == group and shape[1] == 1
    op = ("Deconvolution" if transposed else "Convolution") + ("Depthwise" if depthwise else "")
    out = ctx.op(
        op, x, weight, bias, kernelY=kernel[0], kernelX=kernel[1], strideY=steps[0], strideX=steps[1],
        dilateY=spread[0], dilateX=spread[1], pads=padding, **given,
    )  # fmt: skip
    return ctx.op("Squeeze", out, squeezeDims=[2]) if count == 1 else out


def _flat(ctx: Context, weight: Value) -> Value:
    if isinstance(weight.data, np.ndarray):
        return ctx.const(np.expand_dims(weight.data, 2))
    return ctx.op("Unsqueeze", weight, squeezeDims=[2])
