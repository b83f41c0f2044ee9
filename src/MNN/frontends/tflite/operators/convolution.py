"""Convolutions, their transposes, and dilation. Files have images as NHWC, and filters with the outputs first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.frontends.common.convolutions import convolution
from MNN.frontends.common.dynamic_products import dynamic_convolution
from MNN.frontends.tflite.context import BOUNDS, Context
from MNN.frontends.tflite.file import Quantization
from MNN.frontends.tflite.fixed_point import bound, plus, scaled_sums, taken
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import CUSTOM, tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_2D, _3D = ("h", "w"), ("d", "h", "w")


def steps(node: TfliteNode, axes: Sequence[str]) -> tuple[list[int], list[int]]:
    """Strides and dilations. Raises :class:`FormatError` for those that are not positive."""
    strides = [node.number(f"stride_{a}", 1) for a in axes]
    dilations = [node.number(f"dilation_{a}factor", 1) for a in axes]
    if min(strides + dilations) < 1:
        raise node.malformed(f"strides {strides} and dilations {dilations} are not all positive")
    return strides, dilations


def pad_mode(node: TfliteNode) -> str:
    """The schema's padding as our PadMode."""
    return "VALID" if node.option("padding", "SAME") == "VALID" else "SAME"


def weighted(
    ctx: Context, node: TfliteNode, order: Sequence[int], x: int = 0, bias: int = 2
) -> tuple[Value, Value | None]:
    """The weights, operand 1, with their axes in another order, and the bias, as floats. ``x``: the operand that they
    are multiplied by.

    The kernels that define results of 16 bits keep 15 bits of the factor from sums of 64 bits to them (31 for those of
    32 bits, to which a bias of 32 bits is added); so do scales here.
    """
    q, added = node.quantization(1), node.quantization(bias)
    kept = kept_factor(node, x, bias)
    if q is not None and kept is not None and (added is None or kept.size in (1, len(added.scale))):
        q = replace(q, scale=(q.scale * kept).astype(np.float32))
        added = None if added is None else replace(added, scale=(added.scale * kept).astype(np.float32))
    line = node.optional(bias)
    return filters(ctx, node, 1, order, q), None if line is None else ctx.dequantized(line, added)


def kept_factor(node: TfliteNode, x: int, bias: int) -> np.ndarray | None:
    """How much of each factor from 64-bit sums to 16-bit results is kept; None for other results."""
    given, weights, result = node.quantization(x), node.quantization(1), node.result_quantization()
    tensors = node.tensors_in
    if given is None or weights is None or result is None or weights.block or tensors[x].type != "INT16":  # type: ignore[union-attr]
        return None
    line = tensors[bias] if bias < len(tensors) else None
    if line is not None and line.type == "INT32":
        return None
    factor = given.scale.astype(np.float64)[:1] * weights.scale.astype(np.float64) / result.scale.astype(np.float64)[:1]
    with np.errstate(all="ignore"):  # a file may hold any scale
        fraction, exponent = np.frexp(factor)
        whole = np.round(fraction * 2.0**31)
        kept = np.where(whole == 2.0**31, 2.0**15, np.minimum(np.floor((whole + 2.0**15) / 2.0**16), 0x7FFF))
        ratio = np.ldexp(kept, exponent - 15) / factor
    return ratio if bool(np.all(np.isfinite(ratio) & (ratio > 0))) else None


def filters(ctx: Context, node: TfliteNode, index: int, order: Sequence[int], q: Quantization | None) -> Value:
    """Weights with their axes in another order, as floats."""
    w = node.input(index)
    sizes = ctx.static_shape(w)
    if sizes is None or len(sizes) != len(order):
        raise node.unsupported(f"weights of shape {None if sizes is None else list(sizes)}")
    return ctx.dequantized(ctx.permuted(w, order), q, order)


def planar(strides: Sequence[int], dilations: Sequence[int], kernel: Sequence[int]) -> dict[str, object]:
    """Attributes of an operator on images."""
    return {
        "kernelY": kernel[0], "kernelX": kernel[1], "strideY": strides[0], "strideX": strides[1],
        "dilateY": dilations[0], "dilateX": dilations[1],
    }  # fmt: skip


@tflite_op("CONV_2D")
def conv_2d(ctx: Context, node: TfliteNode) -> Value:
    found = of_four_bits(ctx, node, (0, 3, 1, 2))
    if found is not None:
        return found
    x = ctx.image(node, 0)
    whole = hybrid(ctx, node, x, (0, 3, 1, 2))
    w, bias = weighted(ctx, node, (0, 3, 1, 2)) if whole is None else (whole[0], ctx.maybe_real(node, 2))
    outputs, inputs, *kernel = ctx.static_shape(w) or ()
    channels = x.shape[1] if x.shape is not None else inputs
    group = channels // inputs if isinstance(channels, int) and inputs else 1
    strides, dilations = steps(node, _2D)
    attrs = {
        "padMode": pad_mode(node), "group": max(group, 1), "outputCount": outputs,
        "inputCount": inputs * max(group, 1), **planar(strides, dilations, kernel),
    }  # fmt: skip
    if whole is not None:
        out = dynamic_convolution(ctx, x, *whole, bias, attrs)
    else:
        out = ctx.op("Convolution", x, w, bias, **attrs)
    return ctx.channels_last(ctx.activated(node, out))


def hybrid(ctx: Context, node: TfliteNode, x: Value, order: Sequence[int]) -> tuple[Value, np.ndarray] | None:
    """Constant weights of 8 bits beside floats that are not quantised, with their axes in another order, outputs first,
    and their scales (dynamic range); None where a product is something else."""
    q, value = node.quantization(1), node.input(1)
    data = value.data
    if q is None or q.block or x.dtype is not DType.F32 or node.quantization(0) is not None:
        return None
    if not isinstance(data, np.ndarray) or data.dtype != np.int8 or data.ndim != len(order) or q.zero.any():
        return None
    if len(q.scale) > 1 and q.axis != order[0]:
        return None
    return ctx.permuted(value, order), q.scale


def of_four_bits(ctx: Context, node: TfliteNode, order: Sequence[int]) -> Value | None:
    """A convolution of bytes by weights of 4 bits, to the bits of LiteRT's reference kernels, which round the sums
    twice; None for others, which LiteRT leaves to XNNPACK: that rounds once. ``order``: see :func:`hybrid`."""
    kinds = [None if t is None else t.type for t in (*node.tensors_in[:2], node.tensors_out[0])]
    given, w, made = node.quantization(0), node.quantization(1), node.result_quantization()
    value, bias, activation = node.input(1), node.optional(2), node.option("fused_activation_function", "NONE")
    if kinds != ["INT8", "INT4", "INT8"] or given is None or w is None or made is None or value.data is None:
        return None
    if given.scale.size != 1 or made.scale.size != 1 or w.block or w.zero.any():
        return None
    if (w.scale.size > 1 and w.axis != order[0]) or activation not in (*BOUNDS, "NONE"):
        return None
    weights = ctx.permuted(value, order)
    inputs = (ctx.static_shape(weights) or (0, 0))[1]
    shape = node.input(0).shape
    channels = None if shape is None or len(shape) != 4 else shape[3]
    if not isinstance(channels, int) or not inputs or channels % inputs:
        return None
    factors = given.scale.astype(np.float64).item() * w.scale.astype(np.float64) / made.scale.astype(np.float64).item()
    if not taken(factors):
        return None
    strides, dilations = steps(node, _2D)
    sums = ctx.op(
        "ConvInteger", ctx.permuted(node.input(0), ctx.channels_first(node, 0)), weights,
        ctx.const(given.zero.reshape(()), DType.I8), strides=strides, dilations=dilations, padMode=pad_mode(node),
        group=channels // inputs,
    )  # fmt: skip
    column = [-1, 1, 1]
    if bias is not None:
        sums = ctx.binary("ADD", sums, ctx.op("Reshape", bias, ctx.const(column)))
    zero, step = int(made.zero.item()), np.float32(made.scale.item())
    low, high = (bound(v, step, zero, (-128, 127)) for v in BOUNDS.get(str(activation), (-np.inf, np.inf)))
    whole = scaled_sums(ctx, sums, factors.reshape(column) if factors.size > 1 else factors.item())
    bounded = ctx.op("ReLU6", plus(ctx, whole, zero), minValue=float(low), maxValue=float(high))
    return ctx.channels_last(ctx.cast(bounded, DType.I8))


@tflite_op("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(ctx: Context, node: TfliteNode) -> Value:
    found = of_four_bits(ctx, node, (3, 0, 1, 2))
    if found is not None:
        return found
    x = ctx.image(node, 0)
    whole = hybrid(ctx, node, x, (3, 0, 1, 2))
    w, bias = weighted(ctx, node, (3, 0, 1, 2)) if whole is None else (whole[0], ctx.maybe_real(node, 2))
    outputs, _, *kernel = ctx.static_shape(w) or ()
    channels = x.shape[1] if x.shape is not None else None
    if not isinstance(channels, int) or channels < 1 or outputs % channels:
        raise node.malformed(f"{outputs} filters for {channels} channels")
    strides, dilations = steps(node, _2D)
    op = "ConvolutionDepthwise" if outputs == channels and channels > 1 else "Convolution"
    attrs = {
        "padMode": pad_mode(node), "group": channels, "outputCount": outputs, "inputCount": channels,
        **planar(strides, dilations, kernel),
    }  # fmt: skip
    out = ctx.op(op, x, w, bias, **attrs) if whole is None else dynamic_convolution(ctx, x, *whole, bias, attrs)
    return ctx.channels_last(ctx.activated(node, out))


@tflite_op("CONV_3D")
def conv_3d(ctx: Context, node: TfliteNode) -> Value:
    x, w, bias = (
        ctx.image(node, 0),
        filters(ctx, node, 1, (4, 3, 0, 1, 2), node.quantization(1)),
        ctx.maybe_real(node, 2),
    )
    strides, dilations = steps(node, _3D)
    shape = ctx.static_shape(w) or ()
    out = ctx.op(
        "Convolution3D", x, w, bias, kernels=list(shape[2:]), strides=strides, dilates=dilations,
        padMode=pad_mode(node), outputCount=shape[0], inputCount=shape[1],
    )  # fmt: skip
    return ctx.channels_last(ctx.activated(node, out), 5)


@tflite_op("TRANSPOSE_CONV")
def transpose_conv(ctx: Context, node: TfliteNode) -> Value:
    """Operands: the output's shape, filters ``[O, H, W, I]``, the input, a bias."""
    x, (w, bias) = ctx.image(node, 2), weighted(ctx, node, (3, 0, 1, 2), 2, 3)
    strides, dilations = steps(node, _2D)
    inputs, outputs, *kernel = ctx.static_shape(w) or ()
    operands, placed = _placed(ctx, node, x, kernel, strides, dilations)
    out = ctx.op(
        "Deconvolution", x, w, bias, *operands, outputCount=outputs, inputCount=inputs, group=1, **placed,
        **planar(strides, dilations, kernel),
    )  # fmt: skip
    return ctx.channels_last(ctx.activated(node, out))


@tflite_op("CONV_3D_TRANSPOSE")
def conv_3d_transpose(ctx: Context, node: TfliteNode) -> Value:
    """Operands: the output's shape, filters ``[D, H, W, O, I]``, the input, a bias."""
    x, w, bias = (
        ctx.image(node, 2),
        filters(ctx, node, 1, (4, 3, 0, 1, 2), node.quantization(1)),
        ctx.maybe_real(node, 3),
    )
    strides, dilations = steps(node, _3D)
    inputs, outputs, *kernel = ctx.static_shape(w) or ()
    operands, placed = _placed(ctx, node, x, kernel, strides, dilations)
    out = ctx.op(
        "ConvTranspose3D", x, w, bias, *operands, kernels=kernel, strides=strides, dilates=dilations,
        outputCount=outputs, inputCount=inputs, **placed,
    )  # fmt: skip
    return ctx.channels_last(ctx.activated(node, out), 5)


def _placed(
    ctx: Context, node: TfliteNode, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[Value], dict[str, object]]:
    """How the output lies over what is scattered: an operand with its sizes, or pads; those at the begin are of the
    convolution from the output to the input, and what is left over is at the end."""
    sizes, count = ctx.model.shape_inference.ints(node.input(0)), len(kernel)
    given = None if x.shape is None else x.shape[2:]
    if sizes is not None and len(sizes) != count + 2:
        raise node.malformed(f"an output of sizes {sizes}")
    spatial = [d for d in (sizes or ())[1:-1] if isinstance(d, int)]
    if len(spatial) != count or given is None or not all(isinstance(d, int) for d in given):
        # with VALID nothing is cut off, so that SAME, which puts what is missing behind, is right for both
        return [node.input(0)], {"padMode": "SAME", "hasOutputShape": True}
    begins, ends = [], []
    for n, out, k, s, d in zip(given, spatial, kernel, strides, dilations, strict=True):
        span = (k - 1) * d + 1
        windows = -(-out // s) if pad_mode(node) == "SAME" else (out + s - span) // s
        begins.append(max((windows - 1) * s + span - out, 0) // 2)
        ends.append((int(n) - 1) * s + span - out - begins[-1])
    return [], {"padMode": "CAFFE", "pads": [*begins, *ends]}


@tflite_op(f"{CUSTOM}Convolution2DTransposeBias")
def convolution_transpose_bias(ctx: Context, node: TfliteNode) -> Value:
    """MediaPipe's: input, filters ``[O, H, W, I]``, bias; options are padding, stride width and height, as i32."""
    given = np.frombuffer(node.operation.custom_options[:12].ljust(12, b"\0"), "<i4").tolist()
    x, w = ctx.image(node, 0), filters(ctx, node, 1, (3, 0, 1, 2), node.quantization(1))
    shape = ctx.static_shape(w) or ()
    padding, strides = given[0], [given[2], given[1]]
    if padding not in (1, 2) or min(strides) < 1:
        raise node.malformed(f"padding {padding} and strides {strides}")
    out = ctx.op(
        "Deconvolution", x, w, ctx.maybe_real(node, 2), outputCount=shape[1], inputCount=shape[0], group=1,
        padMode="SAME" if padding == 1 else "VALID", **planar(strides, (1, 1), shape[2:]),
    )  # fmt: skip
    return ctx.channels_last(out)


@tflite_op("STABLEHLO_CONVOLUTION")
def stablehlo_convolution(ctx: Context, node: TfliteNode) -> Value:
    """Axes in any order; with distances between the input's elements, windows that run backwards, borders that cut, and
    groups of channels or of samples (then every group of filters sees its own samples)."""
    spatial, kernels, results = (node.ints(f"{k}_spatial_dimensions") for k in ("input", "kernel", "output"))
    count = len(spatial)
    x = _ordered(ctx, node, 0, [node.number("input_batch_dimension"), node.number("input_feature_dimension"), *spatial])
    features = [node.number(f"kernel_{k}_feature_dimension") for k in ("output", "input")]
    w = _ordered(ctx, node, 1, [*features, *kernels])
    shape, given = ctx.static_shape(w), ctx.static_shape(x)
    if shape is None or given is None or not 1 <= count <= 3:
        raise node.unsupported(f"{count} axes of an input of sizes {given} and weights of {shape}")
    strides, apart, within = (node.ints(k) or [1] * count for k in ("window_strides", "lhs_dilation", "rhs_dilation"))
    padding, back = node.ints("padding") or [0] * (2 * count), node.ints("window_reversal") or [0] * count
    lists = (strides, apart, within, back, kernels, results)
    if any(len(v) != count for v in lists) or len(padding) != 2 * count or min(*strides, *apart, *within) < 1:
        raise node.malformed(f"strides {strides}, dilations {apart} and {within} and borders {padding}")
    group, samples = (max(node.number(f"{k}_group_count", 1), 1) for k in ("feature", "batch"))
    if samples > 1:
        if group > 1 or given[0] % samples:
            raise node.malformed(f"{samples} groups of {given[0]} samples and {group} of channels")
        parts = ctx.op("Reshape", x, ctx.const([samples, given[0] // samples, *given[1:]], DType.I64))
        parts = ctx.permuted(parts, [1, 0, *range(2, count + 3)])
        x = ctx.op("Reshape", parts, ctx.const([given[0] // samples, samples * given[1], *given[2:]], DType.I64))
        group = samples
    backwards = [i + 2 for i, flipped in enumerate(back) if flipped]
    if backwards:
        w = ctx.op("Reverse", w, ctx.const(backwards, DType.I32))
    zero = ctx.const_like(0, x)
    x = spread(ctx, x, count + 2, [1, 1, *apart], zero)
    if min(padding) < 0:
        x = ctx.op("Padding", x, ctx.const([0, 0, 0, 0, *padding]), zero)
        padding = [0] * (2 * count)
    y = convolution(ctx, x, w, None, shape[2:], strides, within, [*padding[::2], *padding[1::2]], group=group)
    places = [node.number("output_batch_dimension"), node.number("output_feature_dimension"), *results]
    if sorted(places) != list(range(count + 2)):
        raise node.malformed(f"{places} is no order of axes")
    return ctx.permuted(y, sorted(range(count + 2), key=places.__getitem__))


def _ordered(ctx: Context, node: TfliteNode, index: int, order: Sequence[int]) -> Value:
    """An operand's floats with its axes in ``order``."""
    if sorted(order) != list(range(node.rank(index))):
        raise node.malformed(f"{list(order)} is no order of {node.rank(index)} axes")
    return ctx.permuted(ctx.real(node, index), order)


@tflite_op("DILATE", stored=True)
def dilate(ctx: Context, node: TfliteNode) -> Value:
    """Elements apart, a number between them."""
    factors, rank = ctx.known_ints(node, 1, "distances"), node.rank(0)
    if len(factors) != rank or min(factors, default=1) < 1:
        raise node.malformed(f"distances {factors} for {rank} dimensions")
    made = spread(ctx, node.input(0), rank, factors, node.input(2))
    return ctx.op("Identity", made) if made is node.input(0) else made


def spread(ctx: Context, x: Value, rank: int, factors: Sequence[int], fill: Value) -> Value:
    """Neighbours ``factors`` apart, filled up: every axis gets a new one behind it, which is filled, joined and cut."""
    for axis, factor in enumerate(factors):
        if factor == 1:
            continue
        wide = ctx.op("Unsqueeze", x, squeezeDims=[axis + 1])
        pads = [0] * (2 * rank + 2)
        pads[2 * axis + 3] = factor - 1
        filled = ctx.op("Padding", wide, ctx.const(pads), fill)
        shape = ctx.op("Shape", x, outputDataType="DT_INT64")
        times = ctx.const([factor if i == axis else 1 for i in range(rank)])
        whole = ctx.op("Reshape", filled, ctx.binary("MUL", shape, times))
        less = ctx.const([factor - 1 if i == axis else 0 for i in range(rank)])
        x = ctx.op("SliceTf", whole, ctx.const([0] * rank), ctx.binary("SUB", ctx.binary("MUL", shape, times), less))
    return x
