"""Convolutions and their transposes over one, two or three axes, of formats that keep channels second."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.common.expressions import drop_axis, insert_axis
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value


def convolution(
    ctx: GraphBuilder, x: Value, weight: Value, bias: Value | None, kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], pads: Sequence[int] | None, mode: str = "CAFFE", group: int = 1,
) -> Value:  # fmt: skip
    """``x[N, C, spatial...]`` with ``weight[O, C/group, kernel...]``; ``pads``: begins, then ends."""
    shape = ctx.static_shape(weight)
    channels = {"outputCount": shape[0], "inputCount": shape[1] * group} if shape else {}
    if len(kernel) == 3:
        return ctx.op(
            "Convolution3D", x, weight, bias, kernels=list(kernel), strides=list(strides), dilates=list(dilations),
            pads=pads, padMode=mode, group=group, **channels,
        )  # fmt: skip
    op = "ConvolutionDepthwise" if _depthwise(shape, group) else "Convolution"
    return _planar(ctx, op, [x, weight, bias], kernel, strides, dilations, pads, mode, group=group, **channels)


def transposed_convolution(
    ctx: GraphBuilder, x: Value, weight: Value, bias: Value | None, kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], pads: Sequence[int] | None, mode: str = "CAFFE", group: int = 1,
    extra: Sequence[int] = (), sizes: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    """``x[N, C, spatial...]`` with ``weight[C, O/group, kernel...]``; ``extra`` is added at the ends of the result,
    ``sizes`` are its spatial ones where they are given instead of pads."""
    shape, count = ctx.static_shape(weight), len(kernel)
    more: dict[str, object] = {"group": group}
    if shape:
        more |= {"outputCount": shape[1] * group, "inputCount": shape[0]}
    operands: list[Value | None] = [x, weight, bias]
    if sizes:
        more["hasOutputShape"] = True
        operands.append(ctx.const(list(sizes) if count == 3 else [1, *([1] * (2 - count)), *sizes, 1]))
    if any(extra):
        more["outPads"] = [0] * (2 - count) + list(extra)
    if count == 3:
        return ctx.op(
            "ConvTranspose3D", *operands, kernels=list(kernel), strides=list(strides), dilates=list(dilations),
            pads=pads, padMode=mode, **more,
        )  # fmt: skip
    op = "DeconvolutionDepthwise" if _depthwise(shape, group) else "Deconvolution"
    return _planar(ctx, op, operands, kernel, strides, dilations, pads, mode, **more)


def patches(
    ctx: GraphBuilder, x: Value, channels: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int],
) -> Value:  # fmt: skip
    """The windows of ``x[N, channels, spatial...]`` as ``[N, channels * prod(kernel), windows...]``, by a convolution
    whose weights pick one element each."""
    count = math.prod(kernel)
    picks = np.tile(np.eye(count, dtype=np.float32).reshape(count, 1, *kernel), (channels, *([1] * (len(kernel) + 1))))
    weight = ctx.const(picks, x.dtype)
    return convolution(ctx, x, weight, None, kernel, strides, dilations, pads, group=channels)


def _depthwise(shape: tuple[int, ...] | None, group: int) -> bool:
    return shape is not None and group > 1 and shape[0] == group and shape[1] == 1


def _planar(
    ctx: GraphBuilder, op: str, operands: Sequence[Value | None], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], pads: Sequence[int] | None, mode: str, **more: object,
) -> Value:  # fmt: skip
    """A 2-D operator; for one spatial axis a height of 1 is put in and taken out again."""
    x, weight, *rest = operands
    assert x is not None
    assert weight is not None
    one = len(kernel) == 1
    if one:
        x, weight = insert_axis(ctx, x, 2), insert_axis(ctx, weight, 2)
        kernel, strides, dilations = [1, *kernel], [1, *strides], [1, *dilations]
        pads = None if pads is None else [0, pads[0], 0, pads[1]]
    out = ctx.op(
        op, x, weight, *rest, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1],
        dilateY=dilations[0], dilateX=dilations[1], padMode=mode, pads=None if pads is None else list(pads),
        **more,
    )  # fmt: skip
    return drop_axis(ctx, out, 2) if one else out
