"""Rules for quantised operators: the official engine computes them in floating point, on the integers in the file.

Its sums of products are exact below 2^24. Where a product whose result is whole numbers (ConvInteger, MatMulInteger)
may pass that, its weights are cut into digits whose sums stay below, and these sums are added up as integers. What
quantises its sums (QLinearConv, QLinearMatMul) rounds them there, by less than the rounding that follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.frontends.mnn.official.compose import Steps
from MNN.frontends.mnn.official.rules.arithmetic import operand
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.shape import Shape

_STORED = (DType.U8, DType.I8, DType.I16, DType.U16)
_TYPES = {"DT_UINT8": DType.U8, "DT_INT8": DType.I8, "DT_INT16": DType.I16, "DT_UINT16": DType.U16}


def _rank(x: Value) -> int | None:
    return None if x.shape is None else len(x.shape)


def _centred(s: Steps, x: Value, zero: Value | None, axis: int | None = None) -> Value:
    """``x - zero`` as floats; ``axis``: along which zero points lie where there are several."""
    wide = s.cast(x, DType.F32)
    if zero is None or (zero.data is not None and not zero.array().any()):
        return wide
    return s.binary("SUB", wide, _along(s, s.cast(zero, DType.F32), _rank(x), axis))


def _along(s: Steps, t: Value, rank: int | None, axis: int | None) -> Value:
    """One number, or one per index of ``axis``, so that it broadcasts."""
    if t.shape is None or len(t.shape) == 0 or rank is None or rank < 2 or axis is None or t.shape == (1,):
        return t
    return s.reshape(t, *(-1 if a == axis % rank else 1 for a in range(rank)))


def _rounded(s: Steps, x: Value, zero: Value | None, dtype: DType, rank: int | None, axis: int | None) -> Value:
    """``saturate(round(x) + zero)``."""
    info = np.iinfo(dtype.numpy.name)
    whole = s.unary("ROUND", x)
    if zero is not None and not (zero.data is not None and not zero.array().any()):
        whole = s.binary("ADD", whole, _along(s, s.cast(zero, DType.F32), rank, axis))
    return s.cast(s.binary("MINIMUM", s.binary("MAXIMUM", whole, float(info.min)), float(info.max)), dtype)


def _parts(node: Node) -> tuple[Value, Value, Value | None, int] | None:
    """Tensor, scale, zero point and axis of a (de)quantisation without blocks."""
    x, scale, zero, axis = operand(node, 0), operand(node, 1), operand(node, 2), node.attrs.get("axis", 1)
    if x is None or scale is None or scale.dtype is not DType.F32 or node.attrs.get("block_size"):
        return None
    if scale.shape is None or len(scale.shape) > 1 or not isinstance(axis, int):
        return None
    return None if _rank(x) is None and scale.shape not in ((), (1,)) else (x, scale, zero, axis)


def quantize(node: Node) -> list[Node] | None:
    found = _parts(node)
    named = _TYPES.get(str(node.attrs.get("dtype", "DT_INVALID")))
    if found is None or found[0].dtype is not DType.F32:
        return None
    x, scale, zero, axis = found
    dtype = named or (DType.U8 if zero is None else zero.dtype)
    if dtype not in _STORED or (zero is not None and zero.dtype is not dtype):
        return None
    s, rank = Steps(node), _rank(x)
    return s.finish([_rounded(s, s.binary("REALDIV", x, _along(s, scale, rank, axis)), zero, dtype, rank, axis)])


def dequantize(node: Node) -> list[Node] | None:
    found = _parts(node)
    if found is None or found[0].dtype not in (*_STORED, DType.I32) or node.attrs.get("dtype", "DT_INVALID") not in (
        "DT_INVALID", "DT_FLOAT",
    ):  # fmt: skip
        return None
    x, scale, zero, axis = found
    s = Steps(node)
    return s.finish([s.binary("MUL", _centred(s, x, zero, axis), _along(s, scale, _rank(x), axis))])


def dynamic(node: Node) -> list[Node] | None:
    """Range with 0 in it, its scale and zero point, and the numbers."""
    x, apart = operand(node, 0), bool(node.attrs.get("per_sample"))
    if x is None or x.dtype is not DType.F32 or (_rank(x) or 0) < 1 + apart:
        return None
    s, axes = Steps(node), list(range(int(apart), _rank(x) or 0))
    low = s.binary("MINIMUM", s.reduce("MINIMUM", x, axes, keep=apart), 0.0)
    high = s.binary("MAXIMUM", s.reduce("MAXIMUM", x, axes, keep=apart), 0.0)
    scale = s.binary("REALDIV", s.binary("SUB", high, low), 255.0)
    zero = _rounded(s, s.unary("NEG", s.binary("REALDIV", low, scale)), None, DType.U8, 0, None)
    y = _rounded(s, s.binary("REALDIV", x, scale), zero, DType.U8, 0, None)
    return s.finish([y, scale, zero])


def _product(s: Steps, x: Value, y: Value, x_zero: Value | None, y_zero: Value | None) -> Value:
    """``(x - x_zero) @ (y - y_zero)`` as floats: zero points one, per row of x, or per column of y."""
    return s.matmul(_centred(s, x, x_zero, -2), _centred(s, y, y_zero, -1))


def _integers(*values: Value | None) -> bool:
    return all(v is None or v.dtype in (DType.U8, DType.I8) for v in values)


_EXACT = 1 << 24
"""Below it floats are whole numbers."""
_DIGITS = (16, 7, 4, 3)
"""Bases in which a byte has two digits, three, four and six."""


def _reach(x: Value, zero: Value | None) -> int:
    """The largest absolute value that centred bytes have."""
    low, high = (0, 255) if x.dtype is DType.U8 else (-128, 127)
    if zero is None:
        return max(-low, high)
    if zero.data is None or not zero.array().size:
        return 255
    zeros = zero.array().astype(np.int64)
    return int(max(zeros.max() - low, high - zeros.min()))


def _cut(
    s: Steps, weights: Value, shape: Shape | None, axes: tuple[int, ...], most: int
) -> list[tuple[Value, int]] | None:
    """Centred weights (floats, of this ``shape``) as digits and what each counts, so that sums over ``axes`` of their
    products with numbers up to ``most`` are below 2^24; None where there are too many of them."""
    if weights.data is not None:
        numbers = weights.array().astype(np.int64)
        left, sign = np.abs(numbers), np.sign(numbers)
        for base in (256, *_DIGITS):
            parts = [left // base**i % base for i in range(6) if base**i < 256]
            if all(int(part.sum(axes).max(initial=0)) * most < _EXACT for part in parts):
                digits = [(s.const(sign * part, DType.F32), base**i) for i, part in enumerate(parts)]
                return [(digit, factor) for digit, factor in digits if digit.array().any()] or digits[:1]
        return None
    sizes = None if shape is None else [shape[a] for a in axes]
    if sizes is None or not all(isinstance(n, int) for n in sizes):
        return None
    count = int(np.prod([int(n) for n in sizes], dtype=np.int64)) * most
    if count * 255 < _EXACT:
        return [(weights, 1)]
    if count * 16 >= _EXACT:
        return None
    high = s.unary("FLOOR", s.binary("MUL", weights, 1 / 16))
    return [(s.binary("SUB", weights, s.binary("MUL", high, 16.0)), 1), (high, 16)]


def _summed(s: Steps, parts: list[tuple[Value, int]], product: Callable[[Value], Value | None]) -> Value | None:
    """Products with the digits, added up as integers."""
    total: Value | None = None
    for digit, factor in parts:
        found = product(digit)
        if found is None:
            return None
        whole = s.cast(found, DType.I32)
        whole = whole if factor == 1 else s.binary("MUL", whole, factor)
        total = whole if total is None else s.binary("ADD", total, whole)
    return total


def _weights(s: Steps, w: Value, zero: Value | None, axis: int) -> Value:
    """Centred weights; numbers, where they are known."""
    if w.data is None or (zero is not None and zero.data is None):
        return _centred(s, w, zero, axis)
    whole = w.array().astype(np.float32)
    if zero is not None:
        shift, rank = zero.array().astype(np.float32), whole.ndim
        whole -= shift.reshape([-1 if a == axis % rank else 1 for a in range(rank)]) if shift.ndim == 1 else shift
    return s.const(whole, DType.F32)


def matmul_integer(node: Node) -> list[Node] | None:
    x, y, x_zero, y_zero = (operand(node, i) for i in range(4))
    if x is None or y is None or not _integers(x, y, x_zero, y_zero) or (_rank(x) or 0) < 2 or (_rank(y) or 0) < 2:
        return None
    s = Steps(node)
    parts = _cut(s, _weights(s, y, y_zero, -1), y.shape, (-2,), _reach(x, x_zero))
    if parts is None:
        return None
    centred = _centred(s, x, x_zero, -2)
    total = _summed(s, parts, lambda digit: s.matmul(centred, digit))
    return None if total is None else s.finish([total])


def _linear(node: Node) -> list[Value] | None:
    """The operands of a quantised product, (numbers, scale, zero point) of both factors, scale and zero point of the
    result; None unless all are given, bytes with single precision scales."""
    given = [v for v in (operand(node, i) for i in range(8)) if v is not None]
    if len(given) < 8 or not _integers(*(given[i] for i in (0, 2, 3, 5, 7))):
        return None
    return given if all(given[i].dtype is DType.F32 for i in (1, 4, 6)) else None


def qlinear_matmul(node: Node) -> list[Node] | None:
    given, bias = _linear(node), operand(node, 8)
    if given is None:
        return None
    x, xs, xz, y, ys, yz, os, oz = given
    ranks = _rank(x) or 0, _rank(y) or 0
    if min(ranks) < 2 or oz.dtype is None:
        return None
    s, rank = Steps(node), max(ranks)
    total = _product(s, x, y, xz, yz)
    if bias is not None:
        total = s.binary("ADD", total, s.cast(bias, DType.F32))
    factor = s.binary("REALDIV", s.binary("MUL", _along(s, xs, ranks[0], -2), _along(s, ys, ranks[1], -1)), os)
    return s.finish([_rounded(s, s.binary("MUL", total, factor), oz, oz.dtype, rank, -1)])


def _window(s: Steps, node: Node, rank: int | None, images: Value, w: Value, shape: Shape | None) -> Value | None:
    """The convolution of centred integers as floats, by weights of this ``shape``: over images, over lines as images of
    height 1, and over volumes with constant weights."""
    if rank not in (3, 4, 5) or shape is None or len(shape) != rank or not all(isinstance(d, int) for d in shape):
        return None
    axes, attrs = rank - 2, node.attrs
    strides, dilations = (_numbers(attrs.get(key), axes, 1) for key in ("strides", "dilations"))
    pads = _numbers(attrs.get("pads"), 2 * axes, 0)
    if strides is None or dilations is None or pads is None:
        return None
    common: dict[str, Any] = {"padMode": attrs.get("padMode", "CAFFE"), "group": attrs.get("group", 1)}
    kernel = shape[2:]
    if axes == 3:
        if w.data is None:
            return None
        return s.op(
            "Convolution3D", [images, w], DType.F32, kernels=list(kernel), strides=strides, dilates=dilations,
            pads=pads, inputCount=shape[1] * int(common["group"]), outputCount=shape[0], **common,
        )  # fmt: skip
    if axes == 1:
        images, w, kernel = s.unsqueeze(images, 2), s.unsqueeze(w, 2), (1, *kernel)
        strides, dilations, pads = [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
    found = s.op(
        "Convolution", [images, w], DType.F32, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0],
        strideX=strides[1], dilateY=dilations[0], dilateX=dilations[1], pads=pads, **common,
    )  # fmt: skip
    return s.squeeze(found, 2) if axes == 1 else found


def _numbers(value: object, count: int, default: int) -> list[int] | None:
    if not value:
        return [default] * count
    return [int(v) for v in value] if isinstance(value, (list, tuple)) and len(value) == count else None


def conv_integer(node: Node) -> list[Node] | None:
    x, w, x_zero, w_zero = (operand(node, i) for i in range(4))
    if x is None or w is None or not _integers(x, w, x_zero, w_zero):
        return None
    s = Steps(node)
    parts = _cut(s, _weights(s, w, w_zero, 0), w.shape, tuple(range(1, _rank(w) or 1)), _reach(x, x_zero))
    if parts is None:
        return None
    images = _centred(s, x, x_zero)
    total = _summed(s, parts, lambda digit: _window(s, node, _rank(x), images, digit, w.shape))
    return None if total is None else s.finish([total])


def qlinear_conv(node: Node) -> list[Node] | None:
    given, bias = _linear(node), operand(node, 8)
    if given is None:
        return None
    x, xs, xz, w, ws, wz, os, oz = given
    if oz.dtype is None:
        return None
    s = Steps(node)
    total = _window(s, node, _rank(x), _centred(s, x, xz), _weights(s, w, wz, 0), w.shape)
    if total is None:
        return None
    rank = _rank(x) or 4
    if bias is not None:
        total = s.binary("ADD", total, s.reshape(s.cast(bias, DType.F32), 1, -1, *(1,) * (rank - 2)))
    factor = s.binary("REALDIV", s.binary("MUL", xs, _along(s, ws, rank, 1)), os)
    return s.finish([_rounded(s, s.binary("MUL", total, factor), oz, oz.dtype, rank, None)])
