"""Scales for products of fp16 parts on tiles: powers of two, for a block of A and for a panel of B.

An fp32 number is two fp16 numbers, each with 11 bits of it, and three products of these are as exact as fp32
(:mod:`MNN.backends.cpu.amx.split`). But fp16 begins at 2^-24 and ends at 65504. So everything is multiplied by the
power of two that brings the largest number near that end, where 22 bits are held of all numbers down to 2^-18 of the
largest, and smaller ones to within 2^-40 of it; sums are multiplied by the inverses. Infinities and NaNs do not count.

A scale is kept as 16 equal f32 and, behind them, its inverse.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.amx.tiles import ROW_BYTES
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, Builder, Value

SCALE_BYTES = 2 * ROW_BYTES
_LANES = 16
_VECTOR = F32.vec(_LANES)
_BITS = I32.vec(_LANES)
_INFINITE = 0x7F800000
_TOP = 127 + 14
"""The exponent (biased) that the largest number gets: below 2^15."""
_MOST = 127 + 60
"""The largest scale's exponent: smaller numbers than it serves are held less exactly, and its inverse is normal."""


Load = Callable[[Value, Value | None], Value]
"""Gives 16 numbers, from an index on, under a mask."""


def magnitude(b: Builder, x: Value, finite: bool) -> Value:
    """The sizes of 16 numbers as integers, in their order; 0 for what is not ``finite``, where that is asked for."""
    size = b.and_(b.bitcast(x, _BITS), 0x7FFFFFFF)
    return b.select(b.icmp("ult", size, _INFINITE), size, 0) if finite else size


def nothing(b: Builder) -> Value:
    """Magnitudes to begin with."""
    return b.const(_BITS, 0)


def larger(b: Builder, x: Value, y: Value) -> Value:
    """The larger of magnitudes."""
    return b.intrinsic("umax", x, y)


def largest_of_run(b: Builder, load: Load, length: Value, largest: Value, finite: bool) -> Value:
    """``largest`` and the magnitudes of ``length`` numbers."""

    def with_those(largest: Value, at: Value, mask: Value | None = None) -> Value:
        return larger(b, largest, magnitude(b, load(at, mask), finite))

    pairs, whole = b.and_(length, -2 * _LANES), b.and_(length, -_LANES)
    with b.loop(0, pairs, 2 * _LANES, carry=[largest]) as two:
        two.next(with_those(with_those(two.carried[0], two.index), two.index + _LANES))
    with b.loop(pairs, whole, _LANES, carry=two.results) as one:
        one.next(with_those(one.carried[0], one.index))
    rest = length - whole
    start = b.select(b.icmp("sgt", rest, 0), whole, b.const(I64, 0))  # not past the end
    return with_those(one.results[0], start, b.prefix_mask(rest, _LANES))


def store_scale(b: Builder, measure: Callable[[bool], Value], to: Value) -> Value:
    """Writes a scale, and its inverse; gives the scale. ``measure`` emits a way through all numbers, to the largest
    magnitudes (of those that are finite), and is asked for the second one in case there are others."""

    def largest(finite: bool) -> Value:
        return b.call(I32, f"llvm.vector.reduce.umax.{_BITS.suffix}", measure(finite))

    found = largest(False)
    (found,) = b.if_else(b.icmp("ult", found, _INFINITE), lambda: [found], lambda: [largest(True)], likely=True)
    exponent = b.intrinsic("umin", b.sub(b.const(I32, _TOP + 127), b.lshr(found, 23)), b.const(I32, _MOST))
    scale, inverse = (b.bitcast(b.shl(e, 23), F32) for e in (exponent, b.sub(b.const(I32, 254), exponent)))
    vector = b.splat(scale, _LANES)
    b.store(vector, to)
    b.store(b.splat(inverse, _LANES), b.gep(to, I8, ROW_BYTES))
    return vector


def scale_at(b: Builder, place: Value) -> Value:
    """The scale kept at a place."""
    return b.load(_VECTOR, place)


def inverse_at(b: Builder, place: Value, lanes: int) -> Value:
    """Its inverse."""
    return b.load(F32.vec(lanes), b.gep(place, I8, ROW_BYTES))


__all__ = [
    "SCALE_BYTES",
    "inverse_at",
    "larger",
    "largest_of_run",
    "magnitude",
    "nothing",
    "scale_at",
    "store_scale",
]
