"""Products: matrices, convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.frontends.onnx_export.exporter import Exporter, exports
from MNN.frontends.onnx_export.operators.elementwise import limited
from MNN.frontends.onnx_export.padding import MODES, padding
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value


def geometry(e: Exporter, node: Node, count: int, transposed: bool = False) -> dict[str, object]:
    """Strides, dilations and pads in ONNX's terms; of ``count`` spatial axes. The convolution is ``transposed``: what
    ``SAME`` means then follows from its result."""
    if count == 3:
        strides, dilations = e.list_of(node, "strides") or [1] * 3, e.list_of(node, "dilates") or [1] * 3
        explicit: list[int] = []
    else:
        strides = [e.integer(node, "strideY") or 1, e.integer(node, "strideX") or 1]
        dilations = [e.integer(node, "dilateY") or 1, e.integer(node, "dilateX") or 1]
        explicit = [e.integer(node, "padY"), e.integer(node, "padX")]
    mode, pads = MODES.get(e.text(node, "padMode"), "NOTSET"), e.list_of(node, "pads") or explicit
    found: dict[str, object] = {"strides": strides, "dilations": dilations}
    if transposed and mode != "NOTSET":
        return found | {"auto_pad": mode}
    spans = (e.required(node, 1).shape or ())[2:] or [""] * count
    return found | padding(mode, pads, e.required(node, 0), spans, strides, dilations)


def finished(e: Exporter, node: Node, out: str) -> str:
    """The activation that an operator has swallowed."""
    if e.flag(node, "relu6"):
        return limited(e, out, e.required(node, 0), 0.0, 6.0)
    return e.op("Relu", out) if e.flag(node, "relu") else out


@exports("Convolution", "ConvolutionDepthwise", "Convolution3D")
def convolution(e: Exporter, node: Node) -> str:
    w = e.required(node, 1)
    shape = w.shape or ()
    count = 3 if node.op == "Convolution3D" else 2
    group = e.integer(node, "group")
    if node.op == "ConvolutionDepthwise" and shape and isinstance(shape[0], int):
        group = group if group > 1 else int(shape[0])
    out = e.op("Conv", e.input(node, 0), e.name(w), e.input(node, 2), group=group or 1, **geometry(e, node, count))
    return finished(e, node, out)


@exports("Deconvolution", "DeconvolutionDepthwise", "ConvTranspose3D")
def deconvolution(e: Exporter, node: Node) -> str:
    x, w = e.required(node, 0), e.required(node, 1)
    count = 3 if node.op == "ConvTranspose3D" else 2
    attrs = geometry(e, node, count, transposed=True)
    bias = e.value(node, 2)
    if e.flag(node, "hasOutputShape"):
        given = node.inputs[-1]
        sizes = e.ints(given)
        bias = None if bias is given else bias
        if sizes is None:
            return finished(e, node, _cut_to_size(e, node, attrs, bias, count))
        attrs["output_shape"] = sizes if len(sizes) == count else sizes[1 : 1 + count]
    extra = e.list_of(node, "outPads")
    if extra:
        attrs["output_padding"] = extra
    if "auto_pad" in attrs and "output_shape" not in attrs and attrs["auto_pad"] != "VALID":
        # ONNX Runtime and the specification differ in how they divide what is cut off: it is written out
        shape, spans = x.shape, w.shape or ()
        steps, spread = attrs["strides"], attrs["dilations"]
        assert isinstance(steps, list)
        assert isinstance(spread, list)
        if shape is None or not all(isinstance(d, int) for d in (*spans, *steps)):
            raise e.unsupported(node, "transposed convolution of this padding with an open size")
        lower, clips = attrs.pop("auto_pad") == "SAME_LOWER", e.text(node, "padMode") == "SAME"
        totals = [(int(k) - 1) * d + 1 - s for k, d, s in zip(spans[2:], spread, steps, strict=True)]
        begins = [(t + 1) // 2 if lower else max(t, 0) // 2 if clips else t // 2 for t in totals]
        attrs["pads"] = [*begins, *(t - b for t, b in zip(totals, begins, strict=True))]
    operands = (e.name(x), e.name(w), e.name(bias))
    return finished(e, node, e.op("ConvTranspose", *operands, group=_groups(e, node), **_grown(e, node, attrs)))


def _grown(e: Exporter, node: Node, attrs: dict[str, object]) -> dict[str, object]:
    """Attributes of a transposed convolution. Where less than nothing is cut off at the ends, that is
    ``output_padding``: ONNX has no negative pads."""
    pads, extra = attrs.get("pads"), attrs.get("output_padding")
    if not isinstance(pads, list) or min(pads, default=0) >= 0:
        return attrs
    count = len(pads) // 2
    if min(pads[:count]) < 0:
        raise e.unsupported(node, "transposed convolution with strides wider than its filter")
    beyond = extra if isinstance(extra, list) else [0] * count
    grown = [more + max(-pad, 0) for pad, more in zip(pads[count:], beyond, strict=True)]
    return attrs | {"pads": [max(pad, 0) for pad in pads], "output_padding": grown}


def _groups(e: Exporter, node: Node) -> int:
    group, w = e.integer(node, "group") or 1, e.required(node, 1)
    if node.op == "DeconvolutionDepthwise":
        channels = (w.shape or (group,))[0]
        group = int(channels) if isinstance(channels, int) else group
    return group


def _cut_to_size(e: Exporter, node: Node, attrs: dict[str, object], bias: Value | None, count: int) -> str:
    """Everything that the windows reach, cut to a size that is known only at run time."""
    steps = {key: attrs[key] for key in ("strides", "dilations")}
    operands = (e.input(node, 0), e.input(node, 1), e.name(bias))
    whole = e.op("ConvTranspose", *operands, group=_groups(e, node), **steps)
    given = node.inputs[-1]
    sizes = e.i64(node, len(node.inputs) - 1)
    if given is None or given.shape != (count,):
        sizes = e.op("Slice", sizes, e.const([1]), e.const([1 + count]))
    over = e.op("Max", e.op("Sub", e.op("Shape", whole, start=2), sizes), e.const([0] * count))
    lower = e.text(node, "padMode") == "SAME_LOWER"
    begin = e.op("Div", e.op("Add", over, e.const([int(lower)] * count)), e.const([2] * count))
    return e.op("Slice", whole, begin, e.op("Add", begin, sizes), e.const(list(range(2, 2 + count))))


@exports("MatMul", "BatchMatMul")
def matmul(e: Exporter, node: Node) -> str:
    keys = ("transposeA", "transposeB") if node.op == "MatMul" else ("adjX", "adjY")
    x, y = (_turned(e, node, i, e.flag(node, key)) for i, key in enumerate(keys))
    out = e.op("MatMul", x, y)
    return e.op("Add", out, e.input(node, 2)) if e.value(node, 2) is not None else out


def _turned(e: Exporter, node: Node, index: int, swap: bool) -> str:
    value = e.required(node, index)
    if not swap:
        return e.name(value)
    rank = e.rank(value)
    if rank < 2:
        return e.name(value)
    return e.op("Transpose", e.name(value), perm=[*range(rank - 2), rank - 1, rank - 2])


@exports("InnerProduct")
def inner_product(e: Exporter, node: Node) -> str:
    x, w = e.required(node, 0), e.required(node, 1)
    axis = e.integer(node, "axis")
    flat = e.op("Flatten", e.name(x), axis=axis)
    turned = 0 if e.flag(node, "transpose") else 1
    out = e.op("Gemm", flat, e.name(w), e.input(node, 2), transB=turned)
    if axis == 1 or e.rank(x) == 2:
        return out
    sizes = e.op("Concat", e.op("Shape", e.name(x), end=axis), e.const([-1]), axis=0)
    return e.op("Reshape", out, sizes)


@exports("Einsum")
def einsum(e: Exporter, node: Node) -> str:
    return e.op("Einsum", *(e.name(v) for v in node.inputs), equation=e.text(node, "equation"))


def _between_floats(e: Exporter, node: Node, product: Callable[[str, str, str], str], axis: int, rank: int) -> str:
    """A product of 16-bit integers, of which ONNX has none, between dequantised and quantised tensors; ``axis`` is that
    of the outputs in weights."""
    x, xs, xz, w, ws, wz, ys, yz = (e.input(node, i) for i in range(8))
    bias, added = e.value(node, 8), ""
    if bias is not None:
        added = e.op("Mul", e.cast(e.name(bias), DType.F32), e.op("Reshape", e.op("Mul", xs, ws), e.const([-1])))
    weights = e.op("DequantizeLinear", w, ws, wz, axis=axis % max(rank, 1))
    return e.op("QuantizeLinear", product(e.op("DequantizeLinear", x, xs, xz), weights, added), ys, yz)


@exports("MatMulInteger", "QLinearMatMul")
def quantized_matmul(e: Exporter, node: Node) -> str:
    bias = e.value(node, 8)
    x = e.required(node, 0)
    if x.dtype is DType.I16:

        def product(a: str, w: str, added: str) -> str:
            whole = e.op("MatMul", a, w)
            return e.op("Add", whole, added) if added else whole

        return _between_floats(e, node, product, -1, e.rank(e.required(node, 3)))
    if bias is None:
        return e.op(node.op, *_both_signed(e, node, [e.name(v) for v in node.inputs]))
    # ONNX's operator has no bias: the same integers, added up and rounded once
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (e.input(node, i) for i in range(8))
    total = e.op("Add", e.op("MatMulInteger", a, b, a_zero, b_zero), e.name(bias))
    factor = e.op("Mul", a_scale, b_scale)
    return e.op("QuantizeLinear", e.op("Mul", e.cast(total, DType.F32), factor), scale, zero)


@exports("ConvInteger", "QLinearConv")
def quantized_convolution(e: Exporter, node: Node) -> str:
    mode, pads = MODES.get(e.text(node, "padMode"), "NOTSET"), e.list_of(node, "pads")
    scaled = len(node.inputs) > 4
    x, weight = e.required(node, 0), e.required(node, 3 if scaled else 1)
    spans = (weight.shape or ())[2:]
    strides, dilations = (e.list_of(node, key) or [1] * len(spans) for key in ("strides", "dilations"))
    attrs: dict[str, object] = {"strides": strides, "dilations": dilations, "group": e.integer(node, "group") or 1}
    attrs |= padding(mode, pads, x, spans, strides, dilations)
    operands = [e.name(v) for v in node.inputs]
    if scaled and x.dtype is DType.I16:
        return _between_floats(e, node, lambda a, w, b: e.op("Conv", a, w, b, **attrs), 0, len(weight.shape or ()))
    zero = None if scaled else e.value(node, 2)
    if zero is not None and zero.shape is not None and len(zero.shape) > 1:
        if zero.shape[0] != 1:
            return _centred_convolution(e, operands, weight, attrs)
        operands[2] = e.op("Reshape", operands[2], e.const(np.zeros(0, np.int64)))
    if scaled:
        return e.op(node.op, *_both_signed(e, node, operands), **attrs)
    zeros, given = e.numbers(e.value(node, 3)), e.value(node, 3)
    if zeros is not None and zeros.size and (zeros == zeros.flat[0]).all():
        operands[3] = e.const(zeros.reshape(-1)[0])  # ONNX Runtime takes one for all channels
    elif given is not None and given.shape not in ((), (1,)):
        return _convolution_by_channel(e, operands, weight, attrs)
    return e.op(node.op, *operands, **attrs)


def _both_signed(e: Exporter, node: Node, operands: list[str]) -> list[str]:
    """Weights without a sign become signed ones, and their zero point with them, beside signed activations:
    ONNX Runtime multiplies these by nothing else."""
    x, weight = e.required(node, 0), e.value(node, 3)
    if node.op not in ("QLinearConv", "QLinearMatMul") or weight is None:
        return operands
    if x.dtype is not DType.I8 or weight.dtype is not DType.U8:
        return operands
    for i in (3, 5):
        numbers, name = e.numbers(e.value(node, i)), operands[i]
        if numbers is not None or not name:
            held = np.zeros((), np.uint8) if numbers is None else numbers
            operands[i] = e.const((held.astype(np.int16) - 128).astype(np.int8))
        else:
            operands[i] = e.cast(e.op("Sub", e.cast(name, DType.I32), e.const(np.int32(128))), DType.I8)
    return operands


def _convolution_by_channel(e: Exporter, operands: list[str], weight: Value, attrs: dict[str, object]) -> str:
    """ONNX Runtime takes one zero point for all weights. Those of each channel are taken off behind: as often as the
    activations under its window add up to, which is a convolution by ones."""
    x, w, zero, zeros = operands
    shape = [n for n in weight.shape or () if isinstance(n, int)]
    if len(shape) != e.rank(weight):
        return _centred_convolution(e, operands, weight, attrs)
    group = attrs["group"]
    rows = group if isinstance(group, int) and group in (1, shape[0]) else shape[0]
    window = e.op("ConvInteger", x, e.const(np.ones((rows, *shape[1:]), np.uint8)), zero, **attrs)
    column = e.op("Reshape", e.cast(zeros, DType.I32), e.const([-1, *[1] * (len(shape) - 2)]))
    return e.op("Sub", e.op("ConvInteger", x, w, zero, **attrs), e.op("Mul", window, column))


def _centred_convolution(e: Exporter, operands: list[str], weight: Value, attrs: dict[str, object]) -> str:
    """ONNX's operator has one zero point for all samples: those of each are taken off before a convolution of floats,
    whose sums are whole numbers."""
    x, w, zero, *more = operands
    centred = e.op("Sub", e.cast(x, DType.F32), e.cast(zero, DType.F32))
    weights = e.cast(w, DType.F32)
    if more and more[0]:
        column = e.op("Reshape", e.cast(more[0], DType.F32), e.const([-1, *[1] * (e.rank(weight) - 1)]))
        weights = e.op("Sub", weights, column)
    return e.cast(e.op("Conv", centred, weights, **attrs), DType.I32)


@exports("QLinearConvTranspose")
def quantized_transposed(e: Exporter, node: Node) -> str:
    """Between dequantised and quantised tensors, as no operator of ONNX has the integers."""
    if e.text(node, "padMode") not in ("CAFFE", "NOTSET", "EXPLICIT"):
        raise e.unsupported(node, "a quantised transposed convolution of this padding")
    x, xs, xz, w, ws, wz, ys, yz = (e.input(node, i) for i in range(8))
    weights = e.op("DequantizeLinear", w, ws, wz, axis=1)
    bias = e.value(node, 8)
    steps = None if bias is None else e.op("Reshape", e.op("Mul", xs, ws), e.const([-1]))
    keys = {"strides": "strides", "dilations": "dilations", "pads": "pads", "output_padding": "outPads"}
    attrs: dict[str, object] = {theirs: e.list_of(node, ours) or None for theirs, ours in keys.items()}
    out = e.op(
        "ConvTranspose", e.op("DequantizeLinear", x, xs, xz), weights,
        "" if steps is None else e.op("Mul", e.cast(e.name(bias), DType.F32), steps),
        group=e.integer(node, "group") or 1, **_grown(e, node, attrs),
    )  # fmt: skip
    return e.op("QuantizeLinear", out, ys, yz)


@exports("QuantizeLinear", "DequantizeLinear")
def quantize(e: Exporter, node: Node) -> str:
    """The zero point tells the type; where another is named, a zero of it."""
    to = e.type_attr(node, "dtype")
    operands = [e.input(node, 0), e.input(node, 1), e.input(node, 2)]
    if to is not None and not operands[2] and node.op == "QuantizeLinear":
        scale = e.numbers(e.value(node, 1))
        shape = () if scale is None else scale.shape
        operands[2] = e.const(np.zeros(shape, to.numpy))
    return e.op(
        node.op, *operands, axis=e.integer(node, "axis"), block_size=e.integer(node, "block_size") or None,
        saturate=None if e.flag(node, "saturate") or node.op != "QuantizeLinear" else 0,
    )  # fmt: skip


@exports("DynamicQuantizeLinear")
def dynamic_quantize(e: Exporter, node: Node) -> list[str]:
    x, least, apart = e.required(node, 0), e.number(node, "least"), e.flag(node, "per_sample")
    if not apart and not least:
        return e.emit(node.op, [e.name(x)], 3)
    rank = e.rank(x)
    if x.shape is not None and x.shape[0] == 1 and not least:
        y, *numbers = e.emit(node.op, [e.name(x)], 3)
        return [y, *(e.op("Reshape", n, e.const([1] * rank)) for n in numbers)]
    axes, none, top = e.const(list(range(int(apart), rank))), e.const(0.0, DType.F32), e.const(255.0, DType.F32)
    low, high = (e.op(f"Reduce{end}", e.name(x), axes, keepdims=int(apart)) for end in ("Min", "Max"))
    low, high = e.op("Min", low, none), e.op("Max", high, none)
    width = e.op("Div", e.op("Sub", high, low), top)
    if least:
        scale = e.op("Max", width, e.const(least, DType.F32))
    else:
        scale = e.op("Where", e.op("Equal", width, none), e.const(1.0, DType.F32), width)
    zero = e.op("Clip", e.op("Round", e.op("Neg", e.op("Div", low, scale))), none, top)
    steps = e.op("Add", e.op("Round", e.op("Div", e.name(x), scale)), zero)
    return [e.cast(e.op("Clip", steps, none, top), DType.U8), scale, e.cast(zero, DType.U8)]
