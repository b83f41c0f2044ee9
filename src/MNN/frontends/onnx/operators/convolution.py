"""Conv and ConvTranspose. One spatial dimension becomes two with a height of 1."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import FormatError
from MNN.frontends.common.convolutions import convolution, transposed_convolution
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.linear.convolution import same_pads


def spatial_rank(ctx: Context, node: OnnxNode, x: Value, w: Value | None = None) -> int:
    """Number of spatial axes, from whatever is known. Raises :class:`UnsupportedError` when nothing tells it."""
    kernel = node.ints_attr("kernel_shape", None)
    ranks = [ctx.rank(v) for v in (w, x) if v is not None]
    known = [len(kernel)] if kernel else [r - 2 for r in ranks if r is not None]
    if not known:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    if not 1 <= known[0] <= 3:
        raise node.unsupported(f"{known[0]} spatial dimensions", "use 1, 2 or 3")
    return known[0]


def ints(node: OnnxNode, key: str, count: int, default: int) -> list[int]:
    """A list attribute with one entry per axis. Raises :class:`FormatError` for another length."""
    found = node.ints_attr(key, None)
    if found is None or not found:
        return [default] * count
    if len(found) != count:
        raise FormatError(f"{node.where}: attribute '{key}' is {found}, expected {count} numbers")
    return found


def pad_mode(
    ctx: Context, node: OnnxNode, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[str, list[int] | None]:
    """PadMode and explicit pads (begins, then ends). SAME_LOWER becomes explicit when the input's size allows."""
    mode = node.choice_attr("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    count = len(kernel)
    if mode == "NOTSET":
        pads = ints(node, "pads", 2 * count, 0)
        return "CAFFE", pads
    node.ignore("pads")
    if mode == "VALID":  # in three dimensions the official engine wants the pads, and ends the process without them
        return ("VALID", None) if count < 3 else ("CAFFE", [0] * 2 * count)
    if mode == "SAME_UPPER":
        return "SAME", None
    shape = ctx.static_shape(x)
    if shape is None and any(s != 1 for s in strides):
        return "SAME_LOWER", None
    sizes = list(shape[2:]) if shape is not None else [1 << 30] * count
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return "CAFFE", list(same_pads(sizes, spans, strides, lower=True))


@onnx_op("Conv")
def conv(ctx: Context, node: OnnxNode) -> Value:
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    count = spatial_rank(ctx, node, x, w)
    kernel = _kernel(ctx, node, w, count)
    strides, dilations = ints(node, "strides", count, 1), ints(node, "dilations", count, 1)
    group = node.int_attr("group", 1)
    mode, pads = pad_mode(ctx, node, x, kernel, strides, dilations)
    return convolution(ctx, x, w, bias, kernel, strides, dilations, pads, mode, group)


@onnx_op("ConvTranspose")
def conv_transpose(ctx: Context, node: OnnxNode) -> Value:
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    count = spatial_rank(ctx, node, x, w)
    kernel = _kernel(ctx, node, w, count)
    strides, dilations = ints(node, "strides", count, 1), ints(node, "dilations", count, 1)
    extra, group = ints(node, "output_padding", count, 0), node.int_attr("group", 1)
    mode = node.choice_attr("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    pads: list[int] | None = None
    sizes = node.ints_attr("output_shape", None)
    if sizes:
        node.ignore("pads")
        # from the output's size the padding follows; what is odd goes to the end for SAME_UPPER, else to the begin
        mode, sizes = mode if mode == "SAME_UPPER" else "SAME_LOWER", sizes[-count:]
    elif mode == "NOTSET":
        mode, pads = "CAFFE", ints(node, "pads", 2 * count, 0)
    else:
        node.ignore("pads")
        if mode == "VALID" and count == 3:  # as of convolutions
            mode, pads = "CAFFE", [0] * 2 * count
    spans = [(k - 1) * d + 1 + e for k, d, e in zip(kernel, dilations, extra, strict=True)]
    if mode == "SAME_UPPER" and not _beyond(ctx.static_shape(x), spans, strides, sizes):
        mode = "SAME"
    return transposed_convolution(ctx, x, w, bias, kernel, strides, dilations, pads, mode, group, extra, sizes)


def _beyond(
    shape: Sequence[int] | None, spans: Sequence[int], strides: Sequence[int], sizes: Sequence[int] | None
) -> bool:
    """Whether a result is larger than what taps reach: what is missing is halved then, which SAME does not."""
    if sizes is None:
        return any(k < s for k, s in zip(spans, strides, strict=True))
    given = shape[2:] if shape is not None else []
    return any((n - 1) * s + k < size for n, s, k, size in zip(given, strides, spans, sizes, strict=False))


def _kernel(ctx: Context, node: OnnxNode, w: Value, count: int) -> list[int]:
    shape = ctx.static_shape(w)
    if shape is not None:
        if len(shape) != count + 2 or ints(node, "kernel_shape", count, 0) not in (list(shape[2:]), [0] * count):
            raise FormatError(f"{node.where}: weights {list(shape)} do not fit kernel_shape")
        return list(shape[2:])
    kernel = node.ints_attr("kernel_shape", None)
    if not kernel:
        raise node.unsupported("weights of unknown shape without kernel_shape", "export the model with shapes")
    return kernel
