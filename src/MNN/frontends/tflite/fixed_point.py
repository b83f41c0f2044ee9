"""Integers multiplied by factors, as kernels of TensorFlow Lite that define bits do it: by 31 bits of a factor, and
where that is below a half, by a power of two then, rounded each time.

(The kernels: ``MultiplyByQuantizedMultiplier`` and ``GetInvSqrtQuantizedMultiplierExp`` in LiteRT's
``kernels/internal/common.h``, ``QuantizeMultiplier`` in ``quantization_util.cc``.)
"""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_MOST_LEFT = 14
"""Factors of 2^14 and more: whatever is not 0 is beyond what 16 bits hold, and 32 do not hold the product."""
_MOST_LEFT_WIDE = 8
"""As above, of 8 bits."""
_LEAST = -(0xFFFF << 15)
"""Negative factors whose product with -2^15 fits in 32 bits."""
_MOST_LEFT_SUMS = 29
"""As above, of sums."""
_HALF_ROOT = 1518500250
"""The root of a half in 31 bits."""
_TURNS = 5
"""Newton's steps that the kernels take towards the reciprocal of a root."""


def multiplied(ctx: Context, x: Value, factor: float, wide: bool = False) -> Value | None:
    """int32 of at most 2^15 (``wide``: 2^16) by a factor, rounded as the kernels do; None for one that they do
    not take."""
    if not math.isfinite(factor):
        return None
    whole, shift = parts(factor)
    if shift > (_MOST_LEFT_WIDE if wide else _MOST_LEFT) or whole < _LEAST:
        return None
    left, down = max(shift, 0), max(-shift, 0)
    # floor((x * whole + 2^(30 - left)) / 2^(31 - left)), by the parts of the factor from below
    steps = [(8, whole >> 15 & 0xFF), (8 - left, whole >> 23)] if wide else [(16 - left, whole >> 15)]
    made = plus(ctx, right(ctx, times(ctx, x, whole & 0x7FFF), 15), 1 << (15 - left))
    for bits, part in steps:
        made = right(ctx, ctx.binary("ADD", times(ctx, x, part), made), bits)
    return nearest(ctx, made, down)


def taken(factors: np.ndarray | float) -> bool:
    """Whether kernels take such factors of sums."""
    return bool(np.isfinite(factors).all()) and float(np.max(np.abs(factors))) < 2.0**_MOST_LEFT_SUMS


def scaled_sums(ctx: Context, x: Value, factors: np.ndarray | float) -> Value:
    """int32 of any size by a factor, or by factors that broadcast with it (:func:`taken`)."""
    factors = np.asarray(factors, np.float64)
    found = [parts(float(f)) for f in factors.reshape(-1)]
    bits, shift = (np.array(v, np.int32).reshape(factors.shape) for v in zip(*found, strict=True))
    return ctx.op("FixedPointProduct", x, ctx.const(bits), ctx.const(shift))


def reciprocal_root(ctx: Context, x: Value) -> tuple[Value, Value]:
    """31 bits and the power of two that make ``1 / sqrt(x)`` of int32, which are not negative: Newton's steps with 28
    bits behind the point. 0 is taken for 1."""

    def high(x: Value, y: Value, power: int = 0) -> Value:
        """``x * y / 2^31`` rounded, times a power of two."""
        made = ctx.op("FixedPointProduct", x, y, ctx.const(np.int32(0)))
        return times(ctx, made, 1 << power) if power else made

    large = ctx.binary("GREATER_EQUAL", x, ctx.const(np.int32(1 << 29)))
    number = ctx.op("Select", large, right(ctx, x, 2), ctx.binary("MAXIMUM", x, ctx.const(np.int32(2))))
    shift = plus(ctx, ctx.cast(large, DType.I32), 11)
    for pairs in (8, 4, 2, 1):  # to 2^27 and more
        small = ctx.binary("LESS", number, ctx.const(np.int32(1 << (29 - 2 * pairs))))
        number = ctx.op("Select", small, times(ctx, number, 1 << 2 * pairs), number)
        shift = ctx.op("Select", small, plus(ctx, shift, -pairs), shift)
    half = right(ctx, plus(ctx, right(ctx, number, 1), 1), 1)
    root, three_halves = ctx.const(np.int32(1 << 28)), ctx.const(np.int32(3 << 27))
    for _ in range(_TURNS):
        cube = high(high(root, root), root, 6)
        root = times(ctx, ctx.binary("SUB", high(root, three_halves), high(half, cube)), 1 << 3)
    none = ctx.const(np.int32(0))
    down = ctx.binary("MAXIMUM", shift, none)
    root = ctx.binary("LEFTSHIFT", high(root, ctx.const(np.int32(_HALF_ROOT))), ctx.binary("SUB", down, shift))
    one = ctx.binary("LESS", x, ctx.const(np.int32(2)))
    power = ctx.op("Select", one, none, ctx.binary("SUB", none, down))
    return ctx.op("Select", one, ctx.const(np.int32((1 << 31) - 1)), root), power


def parts(factor: float) -> tuple[int, int]:
    """31 bits of a factor, and the power of two that ``bits / 2^31`` is to be multiplied by."""
    fraction, shift = math.frexp(factor)
    whole = math.floor(fraction * (1 << 31) + 0.5)
    if whole == 1 << 31:
        whole, shift = 1 << 30, shift + 1
    return (whole, shift) if shift >= -31 else (0, 0)


def nearest(ctx: Context, x: Value, bits: int) -> Value:
    """``x / 2^bits``, halves away from zero."""
    if not bits:
        return x
    return right(ctx, plus(ctx, ctx.binary("ADD", x, right(ctx, x, 31)), 1 << (bits - 1)), bits)


def quotients(above: np.ndarray, below: np.ndarray, whole: int, shift: int) -> np.ndarray:
    """``above / below`` times a factor of 31 bits and a power of two, as kernels that divide bytes round it: three
    products with 31 bits each, the first with the reciprocal of ``below`` (Newton's steps from 48/17 - 32/17 x)."""
    above, below = (
        np.where(below < 0, -above, above).astype(np.int64),
        np.abs(np.where(below, below, 1)).astype(np.int64),
    )
    bits = np.frexp(below.astype(np.float64))[1]
    half = below << (31 - bits)  # between a half and one
    x = 1515870810 + _high(half, np.int64(-1010580540))
    for _ in range(3):
        x = x + (_high(x, (1 << 29) - _high(half, x)) << 2)
    reciprocal = np.minimum(x << 1, (1 << 31) - 1)
    room = 31 - np.frexp(np.abs(above + (above < 0)).astype(np.float64))[1]
    return _over(_high(_high(above << room, reciprocal), np.int64(whole)), room - shift + bits - 1)


def _high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    made: np.ndarray = (x * y + (1 << 30)) >> 31
    return made


def _over(x: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """``x / 2^bits``, halves away from zero."""
    bits = np.clip(bits, 0, 40)
    half = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), 0)
    return np.where(bits > 0, (x + half - (x < 0)) >> bits, x)


def neighbours(number: np.float32, count: int) -> list[np.float32]:
    """A float and so many on either side of it, the nearest first."""
    found = [number]
    low = high = number
    for _ in range(count):
        low, high = np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))
        found += [low, high]
    return found


def bound(real: float, step: np.float32, zero: int, ends: tuple[int, int]) -> int:
    """A real number in steps around a zero point, halves away from zero, within the ends of a type."""
    steps = float(np.float32(real) / step)
    whole = int(math.copysign(math.floor(min(abs(steps), 1 << 20) + 0.5), steps))
    return min(max(zero + whole, ends[0]), ends[1])


def right(ctx: Context, x: Value, bits: int) -> Value:
    return ctx.binary("RIGHTSHIFT", x, ctx.const(np.int32(bits)))


def times(ctx: Context, x: Value, number: int) -> Value:
    return ctx.binary("MUL", x, ctx.const(np.int32(number)))


def plus(ctx: Context, x: Value, number: int) -> Value:
    return ctx.binary("ADD", x, ctx.const(np.int32(number)))
