"""Convolutions. One spatial dimension becomes two with a height of 1."""

from __future__ import annotations

import math

from MNN.frontends.common import convolutions
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Ints
from MNN.frontends.torch.registry import apply, aten
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


@aten("mkldnn_convolution")
def mkldnn_convolution(
    ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None, padding: Spatial, stride: Spatial,
    dilation: Spatial, groups: int,
) -> Value:  # fmt: skip
    """Has the padding before the stride."""
    return convolution(ctx, x, weight, bias, stride, padding, dilation, False, 0, groups)


@aten("convolution", "_convolution", "convolution_overrideable")
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
    pads = [*begins, *ends]
    if transposed:
        extra = ctx.known_ints(output_padding, count, "an output padding")
        out = convolutions.transposed_convolution(
            ctx, x, weight, bias, kernel, strides, dilations, pads, group=groups, extra=extra
        )
    else:
        out = convolutions.convolution(ctx, x, weight, bias, kernel, strides, dilations, pads, group=groups)
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


@aten("im2col")
def im2col(
    ctx: TorchBuilder, x: Value, kernel_size: Spatial, dilation: Spatial, padding: Spatial, stride: Spatial
) -> Value:
    """Windows as columns."""
    alone = ctx.rank_of(x) == 3
    if alone:
        x = ctx.unsqueeze(x, 0)
    kernel, dilations, pads, strides = (
        ctx.known_ints(v, 2, "a size") for v in (kernel_size, dilation, padding, stride)
    )
    channels = ctx.known(ctx.size(x, 1), "a number of channels")
    out = convolutions.patches(ctx, x, channels, kernel, strides, dilations, [*pads, *pads])
    if out.shape is not None and out.shape[0] == 0:  # what -1 is cannot be found from nothing
        columns = apply(ctx, "flatten", [out, 2, 3], {})
    else:
        columns = ctx.op("Reshape", out, ctx.const([0, math.prod(kernel) * channels, -1]))
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
