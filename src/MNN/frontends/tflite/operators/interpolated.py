"""Functions that LiteRT's reference kernels define, for integers of 16 bits, by tables that they interpolate in.

The bits are theirs where they define them: with one scale and no zero point, the only form they take. Everything else
is the function itself, rounded where it is to be stored. A table has 513 entries or fewer: it stays in the first cache.
(The kernels: ``LUTPopulate`` and ``LUTLookup`` in LiteRT's ``kernels/internal/common.h``, ``reference/softmax.h`` and
``reference/integer_ops/tanh.h``.)"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.file import Quantization
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_STEPS = 512
"""Intervals of a table of all integers of 16 bits: the upper nine bits say which, the lower seven where in it."""
_EXPONENT = 10.0
"""``SOFTMAX`` takes e^-10 and what is smaller for the same."""
_DEPTH = 1 << 16
"""Exponents whose sum surely fits in 32 bits."""
_SIGMOID_STEPS = 23.999
"""Entries of the kernels' table of the sigmoid from 0 to 1, as its numbers, said to be of 24, have it."""
_SIGMOID_OFF = {4: 1, 65: -1, 69: -1, 71: -1, 117: -1, 163: -1, 174: -1, 255: 1}
"""How its entries are not those numbers rounded."""

Function = Callable[[np.ndarray], np.ndarray]


@tflite_op("EXP")
def exp(ctx: Context, node: TfliteNode) -> Value:
    return _function(ctx, node, _exp) or ctx.unary("EXP", ctx.real(node, 0))


@tflite_op("LOG")
def log(ctx: Context, node: TfliteNode) -> Value:
    """Of what is not positive: the smallest number that can be stored."""

    def function(x: np.ndarray) -> np.ndarray:
        found = np.log(np.where(x > 0, x, 1).astype(np.float64)).astype(x.dtype)
        return _where_positive(x, found, _LOW * _result_scale(node))

    return _function(ctx, node, function) or ctx.unary("LOG", ctx.real(node, 0))


@tflite_op("RSQRT")
def rsqrt(ctx: Context, node: TfliteNode) -> Value:
    """Of what is not positive: the largest number that can be stored."""

    def function(x: np.ndarray) -> np.ndarray:
        found = x.dtype.type(1) / np.sqrt(np.where(x > 0, x, x.dtype.type(1)))
        return _where_positive(x, found, _HIGH * _result_scale(node))

    return _function(ctx, node, function) or ctx.unary("RSQRT", ctx.real(node, 0))


@tflite_op("TANH")
def tanh(ctx: Context, node: TfliteNode) -> Value:
    """``2 sigmoid(2 x) - 1``."""
    return _sigmoid(ctx, node, 8, shifts=(0, 1), end=0xFFFF) or ctx.op("TanH", ctx.real(node, 0))


@tflite_op("LOGISTIC")
def logistic(ctx: Context, node: TfliteNode) -> Value:
    return _sigmoid(ctx, node, 9, shifts=(0,), end=0xFFFE) or ctx.op("Sigmoid", ctx.real(node, 0))


@tflite_op("SOFTMAX")
def softmax(ctx: Context, node: TfliteNode) -> Value:
    beta = float(node.option("beta", 1.0))
    scale, shape = _scale(node, result=2.0**-15), node.input(0).shape
    depth = 1 if shape is None else shape[-1] if shape else 0
    if scale is not None and (not isinstance(depth, int) or 0 < depth <= _DEPTH):
        with np.errstate(over="ignore"):
            step = float(scale * np.float32(beta))
        if 0 <= step < math.inf:
            return _softmax(ctx, node, step)
    x = ctx.real(node, 0)
    return ctx.op("Softmax", x if beta == 1.0 else ctx.binary("MUL", x, ctx.const(np.float32(beta))), axis=-1)


# -- tables ---------------------------------------------------------------------------------------------------------


def _scale(node: TfliteNode, result: float | None = None) -> np.floating | None:
    """The input's scale where the kernels take the node's tensors: of 16 bits, one scale each and no zero point, the
    result's scale, if it is to be ``result``, near that; None elsewhere."""
    q, made = node.quantization(0), node.result_quantization()
    kinds = {t.type for t in (node.tensors_in[0], node.tensors_out[0]) if t is not None}
    if q is None or made is None or kinds != {"INT16"} or not _single(q) or not _single(made):
        return None
    if q.zero.any() or made.zero.any():
        return None
    found = float(made.scale.reshape(-1)[0])
    if result is not None and abs(found / result - 1) > 1e-3:
        return None
    scale: np.floating = np.float32(q.scale.reshape(-1)[0])
    return scale


def _result_scale(node: TfliteNode) -> np.floating:
    made = node.result_quantization()
    assert made is not None
    scale: np.floating = np.float32(made.scale.reshape(-1)[0])
    return scale


def _single(q: Quantization) -> bool:
    return q.scale.size == q.zero.size == 1 and 0 < float(q.scale.reshape(-1)[0]) < math.inf


def _where_positive(x: np.ndarray, found: np.ndarray, other: np.floating) -> np.ndarray:
    chosen: np.ndarray = np.where(x > 0, found, other).astype(x.dtype)
    return chosen


def _exp(x: np.ndarray) -> np.ndarray:
    """Rounded from doubles: what C's function of floats gives, but for one number in very many."""
    found: np.ndarray = np.exp(x.astype(np.float64)).astype(x.dtype)
    return found


def _rounded(x: np.ndarray) -> np.ndarray:
    """To whole numbers, halves away from zero."""
    whole: np.ndarray = np.trunc(x)
    whole += np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype)
    return whole


def _table(function: Function, low: np.floating, high: np.floating, scale: np.floating) -> np.ndarray:
    """``[513]`` int16: a function of numbers from ``low`` to ``high`` in steps of ``scale``, every entry moved by half
    of what the middle of the interval after it would be wrong by. Computed in the dtype of ``low``."""
    kind = np.dtype(type(low)).type
    step = kind((high - low) / kind(_STEPS))
    inverse = kind(kind(1 << 16) / (scale * kind(_HIGH) - scale * kind(_LOW)))
    starts = low + np.arange(_STEPS + 1, dtype=kind) * step
    with np.errstate(over="ignore", invalid="ignore"):
        at, middle = (function(x) * inverse for x in (starts, starts[:-1] + step / kind(2)))
        last = function(np.asarray([high], kind)) * inverse
        between = _rounded((at[1:] + _rounded(at[:-1])) / kind(2))
        bias = _rounded((between - _rounded(middle)) / kind(2))
        entries = np.append(_rounded(at[:-1]) - bias, _rounded(last))
    entries[np.isnan(entries)] = _HIGH  # infinity less infinity
    table: np.ndarray = np.clip(entries, _LOW, _HIGH).astype(np.int16)
    return table


def _line(ctx: Context, index: Value, offset: Value, bits: int, starts: np.ndarray, slopes: np.ndarray) -> Value:
    """``(starts[index] << bits) + slopes[index] * offset``, all int32. Entries of both have 16 bits: they are gathered
    at once, in a word."""
    words = starts.astype(np.int32) << 16 | slopes.astype(np.int16).view(np.uint16).astype(np.int32)
    word = ctx.op("GatherV2", ctx.const(words), index, ctx.const(np.int32(0)))
    high = _bits(ctx, word, -1 << 16)
    start = _right(ctx, high, 16 - bits)
    slope = _right(ctx, ctx.binary("LEFTSHIFT", word, ctx.const(np.int32(16))), 16)
    return ctx.binary("ADD", start, ctx.binary("MUL", slope, offset))


def _looked_up(ctx: Context, x: Value, table: np.ndarray) -> Value:
    """int32 for int32 of 16 bits, by a table of :func:`_table`."""
    index = _plus(ctx, _right(ctx, x, 7), _STEPS // 2)
    # differences of 16 bits: they wrap as the kernels' do
    found = _line(ctx, index, _bits(ctx, x, 127), 7, table[:-1], np.diff(table))
    return _right(ctx, _plus(ctx, found, 64), 7)


def _function(ctx: Context, node: TfliteNode, function: Function) -> Value | None:
    """A function of one number; None where the kernels have no table for it."""
    scale = _scale(node)
    if scale is None:
        return None
    table = _table(function, scale * np.float32(_LOW), scale * np.float32(_HIGH), _result_scale(node))
    return ctx.cast(_looked_up(ctx, ctx.cast(node.input(0), DType.I32), table), DType.I16)


# -- the sigmoid ----------------------------------------------------------------------------------------------------


def _sigmoid(ctx: Context, node: TfliteNode, bits: int, shifts: tuple[int, ...], end: int) -> Value | None:
    """The upper half of the sigmoid, ``bits`` of a number between two entries; the other by symmetry. ``shifts``: the
    powers of two times 2^-12 that scales need no multiplier for. ``end``: what the last entry stands for."""
    scale = _scale(node, result=2.0**-15)
    if scale is None:
        return None
    factor, right = _sigmoid_steps(float(scale), shifts)
    places = np.arange(256) / _SIGMOID_STEPS
    entries = np.floor((1 << 16) / (1 + np.exp(-places)) + 0.5).astype(np.int64)
    entries[list(_SIGMOID_OFF)] += list(_SIGMOID_OFF.values())
    starts, slopes = np.append(entries[:-1], end) - (1 << 15), np.append(np.diff(entries), 0)
    x = ctx.binary("MUL", ctx.cast(node.input(0), DType.I32), ctx.const(np.int32(factor)))
    if right:
        x = _right(ctx, _plus(ctx, x, 1 << (right - 1)), right)
    sign = _right(ctx, x, 31)
    size = ctx.binary("SUB", ctx.binary("BITWISE_XOR", x, sign), sign)
    index = ctx.binary("MINIMUM", _right(ctx, size, bits), ctx.const(np.int32(255)))
    found = _line(ctx, index, _bits(ctx, size, (1 << bits) - 1), bits, starts, slopes)
    found = ctx.binary("BITWISE_XOR", found, sign)
    if bits == 8:
        made = _right(ctx, _plus(ctx, found, 1 << 7), 8)
    else:
        made = _right(ctx, _plus(ctx, found, (1 << 24) + (1 << 9)), 10)
    return ctx.cast(made, DType.I16)


def _sigmoid_steps(scale: float, shifts: tuple[int, ...]) -> tuple[int, int]:
    """What integers are multiplied by, and shifted right by, to count steps of 2^-12 / 3."""
    power = math.log2(scale)
    if abs(power - round(power)) < 1e-3 and 12 + round(power) in shifts:
        return 3 << (12 + round(power)), 0
    factor, right = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and right <= 30:
        factor, right = factor * 2.0, right + 1
    return int(min(factor, 0xFFFF)), right  # the products of larger ones would not fit in 32 bits


# -- softmax --------------------------------------------------------------------------------------------------------


def _softmax(ctx: Context, node: TfliteNode, scale: float) -> Value:
    """Of integers that stand for multiples of ``scale``. Exponents by a table of e^x from -10 to 0, their sum's
    reciprocal by one of 1 / (1 + x) from 0 to 1."""
    span = np.float64(_HIGH - _LOW)
    powers = _table(_exp, _EXPONENT / span * -span, np.float64(0), 2 / span)
    inverses = _table(lambda x: 1 / (1 + x), np.float64(0), 1 / span * span, 2 / span)

    x = ctx.cast(node.input(0), DType.I32)
    below = ctx.binary("SUB", ctx.op("Reduction", x, operation="MAXIMUM", dim=[-1], keepDims=True), x)
    depth = ctx.binary("MINIMUM", _multiplied(ctx, below, scale / (_EXPONENT / 65535.0)), _wide(ctx, 65535))
    exps = _looked_up(ctx, ctx.binary("SUB", ctx.const(np.int32(_HIGH)), ctx.cast(depth, DType.I32)), powers)
    total = ctx.op("Reduction", exps, operation="SUM", dim=[-1], keepDims=True)

    # the position of the highest bit set: that of a float's exponent, once no rounding can carry into it
    cut = ctx.binary("BITWISE_XOR", total, ctx.binary("BITWISE_AND", total, _right(ctx, total, 8)))
    bits = ctx.op("BitCast", ctx.cast(cut, DType.F32), dstT=data_type(DType.I32))
    top = _plus(ctx, _right(ctx, bits, 23), -127)
    shifted = ctx.binary("LEFTSHIFT", total, ctx.binary("SUB", ctx.const(np.int32(30)), top))
    over = _plus(ctx, _right(ctx, _plus(ctx, _right(ctx, shifted, 13), 1), 1), _LOW - (1 << 16))
    inverse = _looked_up(ctx, ctx.binary("MINIMUM", over, ctx.const(np.int32(_HIGH))), inverses)

    half = ctx.binary("LEFTSHIFT", ctx.const(np.int32(1)), _plus(ctx, top, -1))
    made = ctx.binary("RIGHTSHIFT", ctx.binary("ADD", ctx.binary("MUL", exps, inverse), half), top)
    return ctx.cast(ctx.op("ReLU6", made, minValue=0.0, maxValue=float(_HIGH)), DType.I16)


def _multiplied(ctx: Context, x: Value, factor: float) -> Value:
    """Natural numbers below 2^16 times a factor, as int64: by 31 bits of it, which is rounded, halves down; then, if
    there is more to shift, rounded again, halves up."""
    mantissa, shift = math.frexp(factor)
    whole = math.floor(mantissa * (1 << 31) + 0.5)
    if whole == 1 << 31:
        whole, shift = 1 << 30, shift + 1
    left, right = min(max(shift, 0), 15), max(-shift, 0)  # larger ones reach e^-10 at once
    if right > 31:
        whole = right = 0
    made = ctx.binary("MUL", ctx.cast(x, DType.I64), _wide(ctx, whole << left))
    made = _wide_right(ctx, ctx.binary("ADD", made, _wide(ctx, (1 << 30) - 1)), 31)
    return _wide_right(ctx, ctx.binary("ADD", made, _wide(ctx, 1 << (right - 1))), right) if right else made


# -- integers -------------------------------------------------------------------------------------------------------


def _wide(ctx: Context, number: int) -> Value:
    return ctx.const(np.int64(number))


def _wide_right(ctx: Context, x: Value, bits: int) -> Value:
    return ctx.binary("RIGHTSHIFT", x, _wide(ctx, bits))


def _right(ctx: Context, x: Value, bits: int) -> Value:
    return ctx.binary("RIGHTSHIFT", x, ctx.const(np.int32(bits)))


def _plus(ctx: Context, x: Value, number: int) -> Value:
    return ctx.binary("ADD", x, ctx.const(np.int32(number)))


def _bits(ctx: Context, x: Value, mask: int) -> Value:
    return ctx.binary("BITWISE_AND", x, ctx.const(np.int32(mask)))
