"""Convolutions. One spatial dimension becomes two with a height of 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Ints
from MNN.frontends.torch.registry import aten
from MNN.ir.graph import Value

Spatial = int | Ints


@aten("conv1d", "conv2d", "conv3d")
def conv(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None = None, stride: Spatial = 1,
    padding: Spatial | str = 0, dilation: Spatial = 1, groups: int = 1,
) -> Value:  # fmt: skip
    return convolution(ctx, x, weight, bias, stride, padding, dilation, False, 0, groups)


@aten("_convolution_mode")
def convolution_mode(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None, stride: Spatial, padding: str, dilation: Spatial,
    groups: int,
) -> Value:  # fmt: skip
    return convolution(ctx, x, weight, bias, stride, padding, dilation, False, 0, groups)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None = None, stride: Spatial = 1, padding: Spatial = 0,
    output_padding: Spatial = 0, groups: int = 1, dilation: Spatial = 1,
) -> Value:  # fmt: skip
    return convolution(ctx, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@aten("convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution")
def convolution(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None, stride: Spatial, padding: Spatial | str,
    dilation: Spatial, transposed: bool, output_padding: Spatial, groups: int, *_: object,
) -> Value:  # fmt: skip
    """Without a batch too."""
    shape = ctx.static_shape(weight)
    if shape is None:
        raise ctx.unsupported("weights of open sizes", "export the model with fixed weights")
    count = len(shape) - 2
    if not 1 <= count <= 3:
        raise ctx.unsupported(f"{count} spatial dimensions", "use 1, 2 or 3")
    if x.shape is None:
        inputs = shape[0] if transposed else shape[1] * groups
        x.shape = (f"{x.name}.0", inputs, *(f"{x.name}.{i + 2}" for i in range(count)))
    alone = len(x.shape) == count + 1
    if alone:
        x = ctx.unsqueeze(x, 0)
    kernel = list(shape[2:])
    strides = ctx.known_ints(stride, count, "a stride")
    dilations = ctx.known_ints(dilation, count, "a dilation")
    begins, ends = _pads(ctx, padding, kernel, strides, dilations)
    if transposed:
        extra = ctx.known_ints(output_padding, count, "an output padding")
        out = _transposed(ctx, x, weight, bias, shape, strides, dilations, begins, extra, groups)
    else:
        out = _plain(ctx, x, weight, bias, shape, strides, dilations, begins, ends, groups)
    return ctx.squeeze(out, 0) if alone else out


def _pads(
    ctx: TorchBuilder, padding: Spatial | str, kernel: list[int], strides: list[int], dilations: list[int]
) -> tuple[list[int], list[int]]:
    """Where ``same`` cannot be even, more is put at the end."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ctx.unsupported(f"padding '{padding}'", "use same, valid or numbers")
        spans = [(k - 1) * d if padding == "same" else 0 for k, d in zip(kernel, dilations, strict=True)]
        return [s // 2 for s in spans], [s - s // 2 for s in spans]
    pads = ctx.known_ints(padding, len(kernel), "a padding")
    return pads, pads


def _plain(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None, shape: tuple[int, ...], strides: list[int],
    dilations: list[int], begins: list[int], ends: list[int], groups: int,
) -> Value:  # fmt: skip
    channels: dict[str, object] = {"outputCount": shape[0], "inputCount": shape[1] * groups}
    if len(strides) == 3:
        return ctx.op(
            "Convolution3D", x, weight, bias, kernels=list(shape[2:]), strides=strides, dilates=dilations,
            pads=[*begins, *ends], padMode="CAFFE", group=groups, **channels,
        )  # fmt: skip
    depthwise = groups > 1 and shape[0] == groups and shape[1] == 1
    op = "ConvolutionDepthwise" if depthwise else "Convolution"
    return _planar(
        ctx, op, [x, weight, bias], list(shape[2:]), strides, dilations, begins, ends, group=groups, **channels
    )


def _transposed(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None, shape: tuple[int, ...], strides: list[int],
    dilations: list[int], pads: list[int], extra: list[int], groups: int,
) -> Value:  # fmt: skip
    more: dict[str, object] = {"group": groups, "outputCount": shape[1] * groups, "inputCount": shape[0]}
    if len(strides) == 3:
        return ctx.op(
            "ConvTranspose3D", x, weight, bias, kernels=list(shape[2:]), strides=strides, dilates=dilations,
            pads=[*pads, *pads], padMode="CAFFE", outPads=extra if any(extra) else None, **more,
        )  # fmt: skip
    if any(extra):
        more["outPads"] = [0] * (2 - len(extra)) + extra
    depthwise = groups > 1 and shape[0] == groups and shape[1] == 1
    op = "DeconvolutionDepthwise" if depthwise else "Deconvolution"
    return _planar(ctx, op, [x, weight, bias], list(shape[2:]), strides, dilations, pads, pads, **more)


def _planar(
    ctx: TorchBuilder, op: str, operands: Sequence[Value | None], kernel: list[int], strides: list[int],
    dilations: list[int], begins: list[int], ends: list[int], **more: object,
) -> Value:  # fmt: skip
    x, weight, bias = operands
    assert x is not None
    assert weight is not None
    one = len(kernel) == 1
    if one:
        x, weight = ctx.unsqueeze(x, 2), ctx.unsqueeze(weight, 2)
        kernel, strides, dilations = [1, *kernel], [1, *strides], [1, *dilations]
        begins, ends = [0, *begins], [0, *ends]
    out = ctx.op(
        op, x, weight, bias, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1],
        dilateY=dilations[0], dilateX=dilations[1], padMode="CAFFE", pads=[*begins, *ends], **more,
    )  # fmt: skip
    return ctx.squeeze(out, 2) if one else out


@aten("torchvision.deform_conv2d")
def deform_conv2d(
    ctx: TorchBuilder, x: Value, weight: Value, offset: Value, mask: Value, bias: Value | None, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int,
    use_mask: bool,
) -> Value:  # fmt: skip
    """torchvision's."""
    return ctx.op(
        "DeformConv", x, weight, offset, bias, mask if use_mask else None, strides=[stride_h, stride_w],
        dilations=[dilation_h, dilation_w], pads=[pad_h, pad_w, pad_h, pad_w], group=groups, offset_group=offset_groups,
    )  # fmt: skip


@aten("im2col")
def im2col(
    ctx: TorchBuilder, x: Value, kernel_size: Spatial, dilation: Spatial, padding: Spatial, stride: Spatial
) -> Value:
    """Windows as columns, by a convolution whose weights pick one element each."""
    alone = ctx.rank_of(x) == 3
    if alone:
        x = ctx.unsqueeze(x, 0)
    kernel, dilations, pads, strides = (
        ctx.known_ints(v, 2, "a size") for v in (kernel_size, dilation, padding, stride)
    )
    channels = ctx.known(ctx.size(x, 1), "a number of channels")
    count = math.prod(kernel)
    picks = np.tile(np.eye(count, dtype=np.float32).reshape(count, 1, *kernel), (channels, 1, 1, 1))
    weight = ctx.cast(ctx.const(picks), ctx.type_of(x))
    shape = (count * channels, 1, *kernel)
    out = _plain(ctx, x, weight, None, shape, strides, dilations, pads, pads, channels)
    columns = ctx.op("Reshape", out, ctx.const([0, count * channels, -1]))
    return ctx.squeeze(columns, 0) if alone else columns


@aten("col2im")
def col2im(
    ctx: TorchBuilder, x: Value, output_size: Spatial, kernel_size: Spatial, dilation: Spatial, padding: Spatial,
    stride: Spatial,
) -> Value:  # fmt: skip
    alone = ctx.rank_of(x) == 2
    if alone:
        x = ctx.unsqueeze(x, 0)
    kernel, dilations, pads, strides = (
        ctx.known_ints(v, 2, "a size") for v in (kernel_size, dilation, padding, stride)
    )
    image = ctx.ints([output_size] * 2 if isinstance(output_size, int) else output_size)
    out = ctx.op("OnnxCol2Im", x, image, ctx.const(kernel), dilations=dilations, pads=[*pads, *pads], strides=strides)
    return ctx.squeeze(out, 0) if alone else out
