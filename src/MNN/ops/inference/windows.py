"""Hints for products, convolutions, pooling and recurrent layers; see :mod:`MNN.ops.inference.infer`."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.symbolic import Size, add, ceil_divide, floor_divide
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.inference.infer import Hint, Hints, Sizes, broadcast, ints, number, operand, rule, sizes


@rule("MatMul", "BatchMatMul", "MatMulInteger")
def matmul(h: Hints, node: Node) -> list[Hint]:
    x, y = operand(node, 0), operand(node, 1)
    a, b = sizes(x), sizes(y)
    dtype = DType.I32 if node.op == "MatMulInteger" else x.dtype or y.dtype
    if a is None or b is None or not a or not b:
        return [(dtype, None)]
    turned = [
        bool(node.attrs.get(k))
        for k in (("adjX", "adjY") if node.op == "BatchMatMul" else ("transposeA", "transposeB"))
    ]
    left = (*a[:-2], a[-1], a[-2]) if turned[0] and len(a) > 1 else a
    right = (*b[:-2], b[-1], b[-2]) if turned[1] and len(b) > 1 else b
    batch = broadcast([left[:-2], right[:-2]]) or ()
    return [(dtype, (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))]


def _window(size: Size, kernel: int, stride: int, dilation: int, pads: int, mode: str, ceil: bool) -> Size:
    if size is None or stride < 1 or kernel < 1:
        return None
    if mode.startswith("SAME"):
        return ceil_divide(size, stride)
    room = add(size, (0 if mode == "VALID" else pads) - dilation * (kernel - 1) - 1)
    count = add(ceil_divide(room, stride) if ceil else floor_divide(room, stride), 1)
    return max(count, 0) if isinstance(count, int) else count


def _windows(
    spatial: Sequence[Size], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int], mode: str, ceil: bool = False,
) -> Sizes:  # fmt: skip
    count = len(spatial)
    both = list(pads) * 2 if len(pads) == count else list(pads) or [0] * (2 * count)
    return tuple(
        _window(spatial[i], kernel[i], strides[i], dilations[i], both[i] + both[i + count], mode, ceil)
        for i in range(count)
    )


def steps(node: Node, planar: bool) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and padding: MNN names those of two axes one by one, those of three in lists."""
    if planar:
        strides = [number(node, "strideY", 1), number(node, "strideX", 1)]
        dilations = [number(node, "dilateY", 1), number(node, "dilateX", 1)]
        return strides, dilations, ints(node, "pads") or [number(node, "padY"), number(node, "padX")]
    return ints(node, "strides") or [1] * 3, ints(node, "dilates") or [1] * 3, ints(node, "pads")


@rule("Convolution", "ConvolutionDepthwise", "Convolution3D")
def convolution(h: Hints, node: Node) -> list[Hint]:
    x, w = operand(node, 0), operand(node, 1)
    known, weights = sizes(x), sizes(w)
    planar = node.op != "Convolution3D"
    rank = 4 if planar else 5
    if known is None or weights is None:
        return [(x.dtype, (known[0] if known else None, weights[0] if weights else None, *(None,) * (rank - 2)))]
    strides, dilations, pads = steps(node, planar)
    kernel = [d if isinstance(d, int) else 0 for d in weights[2:]]
    mode = str(node.attrs.get("padMode", "CAFFE"))
    return [(x.dtype, (known[0], weights[0], *_windows(known[2:], kernel, strides, dilations, pads, mode)))]


@rule("QLinearConv", "ConvInteger")
def quantized_convolution(h: Hints, node: Node) -> list[Hint]:
    linear = node.op == "QLinearConv"
    x, w = operand(node, 0), operand(node, 3 if linear else 1)
    dtype = operand(node, 7).dtype if linear else DType.I32
    known, weights = sizes(x), sizes(w)
    if known is None or weights is None:
        return [(dtype, None if weights is None else (None, weights[0], *(None,) * (len(weights) - 2)))]
    count = len(weights) - 2
    strides, dilations = (ints(node, key) or [1] * count for key in ("strides", "dilations"))
    kernel = [d if isinstance(d, int) else 0 for d in weights[2:]]
    mode = str(node.attrs.get("padMode", "CAFFE"))
    return [(dtype, (known[0], weights[0], *_windows(known[2:], kernel, strides, dilations, ints(node, "pads"), mode)))]


@rule("QLinearMatMul")
def quantized_product(h: Hints, node: Node) -> list[Hint]:
    plain = Node("MatMul", node.name, [node.inputs[0], node.inputs[3]], node.outputs)
    return [(operand(node, 7).dtype, matmul(h, plain)[0][1])]


@rule("Pooling", "Pooling3D")
def pooling(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    if known is None:
        return [(x.dtype, None)]
    if node.attrs.get("isGlobal"):
        return [(x.dtype, (*known[:2], *(1,) * (len(known) - 2)))]
    if node.op == "Pooling":
        kernel = [number(node, "kernelY"), number(node, "kernelX")]
        strides = [number(node, "strideY") or 1, number(node, "strideX") or 1]
        pads = ints(node, "pads") or [number(node, "padY"), number(node, "padX")]
        ceil = bool(node.attrs.get("ceilModel", True))
    else:
        kernel, strides, ceil = ints(node, "kernels"), ints(node, "strides") or [1] * 3, False
        pads = ints(node, "pads") or [0] * 3
    mode = str(node.attrs.get("padType", "CAFFE"))
    if ceil:  # windows that begin in the padding are left out, which depends on more than this
        return [(x.dtype, (*known[:2], *(None,) * (len(known) - 2)))]
    return [(x.dtype, (*known[:2], *_windows(known[2:], kernel, strides, [1] * len(kernel), pads, mode)))]


@rule("MaxPool", "AveragePool", "LpPool", "GlobalLpPool")
def onnx_pooling(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    out: Sizes | None = None if known is None else (*known[:2], *(None,) * (len(known) - 2))
    kernel, mode = ints(node, "kernel_shape"), str(node.attrs.get("padMode", "CAFFE"))
    if known is not None and node.op == "GlobalLpPool":
        out = (*known[:2], *(1,) * (len(known) - 2))
    elif known is not None and len(known) == len(kernel) + 2 and not node.attrs.get("ceil_mode"):
        ones = [1] * len(kernel)
        strides, dilations = ints(node, "strides") or ones, ints(node, "dilations") or ones
        out = (*known[:2], *_windows(known[2:], kernel, strides, dilations, ints(node, "pads"), mode))
    return [(x.dtype, out), (DType.I64, out)]


@rule("QuantizeLinear")
def quantize(h: Hints, node: Node) -> list[Hint]:
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    named = node.attrs.get("dtype")
    dtype = from_data_type(str(named)) if named else zero.dtype if zero is not None else DType.U8
    return [(dtype, sizes(operand(node, 0)))]


@rule("DequantizeLinear")
def dequantize(h: Hints, node: Node) -> list[Hint]:
    return [(operand(node, 1).dtype, sizes(operand(node, 0)))]


@rule("Einsum")
def einsum(h: Hints, node: Node) -> list[Hint]:
    equation = str(node.attrs.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    known: dict[str, Size] = {}
    for term, value in zip(left.split(","), node.inputs, strict=True):
        if value is not None and value.shape is not None and "." not in term and len(term) == len(value.shape):
            known.update(zip(term, value.shape, strict=True))
    out = tuple(known.get(label) for label in right) if arrow and "." not in right else None
    return [(operand(node, 0).dtype, out)]
