"""Convolutions. Those of one dimension are of two, the other of which is 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, drop_axis, insert_axis
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import activated
from MNN.frontends.keras.layers.core import kernel_and_bias
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def rank_of(op: str) -> int:
    """Spatial axes by the name of a layer."""
    return next(n for n in (1, 2, 3) if f"{n}D" in op)


class Sliding:
    """Windows of a layer over its input, made of two dimensions where it has one."""

    def __init__(self, node: KerasNode) -> None:
        self.rank = rank_of(node.op)
        self.first = node.channels_first()
        self.count = max(self.rank, 2)
        self.format = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}[self.count][self.first]
        self._lone = 2 if self.first else 1

    def numbers(self, values: Sequence[int], filler: int = 1) -> list[int]:
        """One per axis of the tensor, of those per spatial axis."""
        inner = [filler, *values] if self.rank == 1 else list(values)
        return [1, 1, *inner] if self.first else [1, *inner, 1]

    def given(self, ctx: KerasContext, x: Value) -> Value:
        return insert_axis(ctx, x, self._lone) if self.rank == 1 else x

    def result(self, ctx: KerasContext, y: Value) -> Value:
        return drop_axis(ctx, y, self._lone) if self.rank == 1 else y

    def filter(self, array: np.ndarray) -> np.ndarray:
        return array[None] if self.rank == 1 else array


def _padded_before(ctx: KerasContext, x: Value, before: int, first: bool) -> Value:
    """Zeros in front of the steps."""
    pads = [0, 0, 0, 0, before, 0] if first else [0, 0, before, 0, 0, 0]
    y = ctx.op("Padding", x, ctx.const(pads, DType.I32), mode="CONSTANT")
    y.dtype = x.dtype
    return y


def added_bias(ctx: KerasContext, node: KerasNode, y: Value, first: bool) -> Value:
    bias = ctx.weight(node, "bias")
    if bias is None:
        return y
    if first:
        bias = ctx.const(np.reshape(bias.array(), (-1, *(1,) * rank_of(node.op))))
    return binary(ctx, "ADD", y, bias)


def _array(node: KerasNode, name: str, rank: int) -> np.ndarray:
    array = node.array(name)
    if array is None or array.ndim != rank:
        raise FormatError(f"{node.where}: its variable '{name}' is {None if array is None else list(array.shape)}")
    return array


def convolved(ctx: KerasContext, node: KerasNode, x: Value, op: str, kernel: np.ndarray) -> Value:
    """One convolution with the layer's strides, padding and dilations."""
    where = Sliding(node)
    strides, dilations = node.ints_attr("strides", where.rank, 1), node.ints_attr("dilation_rate", where.rank, 1)
    padding = node.choice_attr("padding", "valid", "valid", "same", "causal")
    if padding == "causal":
        if where.rank != 1:
            raise node.unsupported("causal padding of images", "pad them with ZeroPadding2D")
        x = _padded_before(ctx, x, (kernel.shape[0] - 1) * dilations[0], where.first)
    filler = 1 if op == "Conv2D" else strides[0]  # TensorFlow has one stride for both axes there
    y = ctx.tf(
        op if where.count == 2 else op.replace("2D", "3D"), where.given(ctx, x),
        ctx.const(where.filter(typed(x, kernel))), strides=where.numbers(strides, filler),
        dilations=where.numbers(dilations), padding="SAME" if padding == "same" else "VALID", data_format=where.format,
    )  # fmt: skip
    y.dtype = x.dtype
    return where.result(ctx, y)


def typed(x: Value, array: np.ndarray) -> np.ndarray:
    """A variable in the type of what it is multiplied with."""
    return array if x.dtype is None or array.dtype == x.dtype.numpy else array.astype(x.dtype.numpy)


@keras_layer("Conv1D", "Conv2D", "Conv3D", variables=kernel_and_bias)
def conv(ctx: KerasContext, node: KerasNode) -> Value:
    kernel = _array(node, "kernel", rank_of(node.op) + 2)
    y = convolved(ctx, node, node.input(0), "Conv2D", kernel)
    return activated(ctx, node, added_bias(ctx, node, y, node.channels_first()))


@keras_layer("DepthwiseConv1D", "DepthwiseConv2D", variables=kernel_and_bias)
def depthwise(ctx: KerasContext, node: KerasNode) -> Value:
    kernel = _array(node, "kernel", rank_of(node.op) + 2)
    y = convolved(ctx, node, node.input(0), "DepthwiseConv2dNative", kernel)
    return activated(ctx, node, added_bias(ctx, node, y, node.channels_first()))


def _separable_names(config: Config) -> Sequence[str]:
    return ["depthwise_kernel", "pointwise_kernel", *(["bias"] if config.get("use_bias", True) else [])]


@keras_layer("SeparableConv1D", "SeparableConv2D", variables=_separable_names)
def separable(ctx: KerasContext, node: KerasNode) -> Value:
    """Each channel by itself, then a product over the channels."""
    rank = rank_of(node.op) + 2
    y = convolved(ctx, node, node.input(0), "DepthwiseConv2dNative", _array(node, "depthwise_kernel", rank))
    where, pointwise = Sliding(node), _array(node, "pointwise_kernel", rank)
    y = ctx.tf(
        "Conv2D", where.given(ctx, y), ctx.const(where.filter(typed(y, pointwise))), strides=[1] * 4,
        dilations=[1] * 4, padding="VALID", data_format=where.format,
    )  # fmt: skip
    y.dtype = node.input(0).dtype
    return activated(ctx, node, added_bias(ctx, node, where.result(ctx, y), where.first))


@keras_layer("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", variables=kernel_and_bias)
def transposed(ctx: KerasContext, node: KerasNode) -> Value:
    """The whole of what the kernel spreads, cut to the size that padding says."""
    where, kernel = Sliding(node), _array(node, "kernel", rank_of(node.op) + 2)
    x = node.input(0)
    strides, dilations = node.ints_attr("strides", where.rank, 1), node.ints_attr("dilation_rate", where.rank, 1)
    same = node.choice_attr("padding", "valid", "valid", "same") == "same"
    more = node.ints_attr("output_padding", where.rank) if node.config.get("output_padding") is not None else None
    spans = [(k - 1) * d + 1 for k, d in zip(kernel.shape[: where.rank], dilations, strict=True)]
    begins, ends, extra = [], [], []
    for span, stride, index in zip(spans, strides, range(where.rank), strict=True):
        begin, end, out = _borders(span, stride, same, None if more is None else more[index])
        begins.append(begin)
        ends.append(end)
        extra.append(out)
    if where.rank == 1:
        begins, ends, extra = [0, *begins], [0, *ends], [0, *extra]
        strides, dilations = [1, *strides], [1, *dilations]
    *sizes, outer, inner = where.filter(kernel).shape
    weight = ctx.const(np.ascontiguousarray(np.moveaxis(typed(x, where.filter(kernel)), (-1, -2), (0, 1))))
    last = where.count + 1
    given = where.given(ctx, x)
    planes = given if where.first else ctx.tf("Transpose", given, ctx.const([0, last, *range(1, last)], DType.I32))
    attrs = {"outputCount": outer, "inputCount": inner, "padMode": "CAFFE", "pads": [*begins, *ends], "group": 1}
    if any(extra):
        attrs["outPads"] = extra
    if where.count == 3:
        y = ctx.op("ConvTranspose3D", planes, weight, None, kernels=sizes, strides=strides, dilates=dilations, **attrs)
    else:
        y = ctx.op(
            "Deconvolution", planes, weight, None, kernelY=sizes[0], kernelX=sizes[1], strideY=strides[0],
            strideX=strides[1], dilateY=dilations[0], dilateX=dilations[1], **attrs,
        )  # fmt: skip
    y.dtype = x.dtype
    if not where.first:
        y = ctx.tf("Transpose", y, ctx.const([0, *range(2, last + 1), 1], DType.I32))
    return activated(ctx, node, added_bias(ctx, node, where.result(ctx, y), where.first))


def _borders(span: int, stride: int, same: bool, more: int | None) -> tuple[int, int, int]:
    """What is cut off before and behind ``(size - 1) * stride + span``, and what is put on behind, as Keras has it."""
    if same:
        over = span - stride if more is None else span - span % 2 - more
    else:
        over = -(max(stride - span, 0) if more is None else more)
    begin = max(over, 0) // 2
    return begin, max(over, 0) - begin, max(-over, 0)
