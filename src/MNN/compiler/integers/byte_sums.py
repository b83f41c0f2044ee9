"""Sums of two quantised tensors in two multiplications: a residual connection between 8-bit layers.

``quantise(dequantise(u) + dequantise(v))`` is two products, a sum and a quotient, each rounded to f32, and then a byte.
But ``u`` and ``v`` are integers of which there are 256 each, so it is a function of 65,536 pairs, and whether
``u * a + (v * b + c)`` rounds to the same byte for all of them is found out by trying them. What may differ are pairs
whose sum lies next to a tie; ``a`` and ``b`` are moved by units in their last place until there is a ``c`` for which
none does. Without one the program stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from MNN.compiler.integers.byte_end import BYTES, byte_end
from MNN.ir.dtype import DType
from MNN.ir.intervals import intervals
from MNN.ir.scalar import Body, BodyBuilder, Instr
from MNN.reference.scalar import evaluate

_Floats = NDArray[np.float64]
_NUMBERS = 256
_LINEAR = ("add", "sub", "mul", "div", "fma", "cast")
_STEPS = 8
"""Units in the last place by which factors are moved, to either side."""
_NEAR = 1 / 256
"""Sums closer than this to a tie decide between candidates."""
_TRIED = 8
"""Candidates that are put to the test of all pairs."""
_LEAST, _MOST = 2.0**-13, 2.0**9
"""Factors within these, with ``c`` in steps of 2^-24, keep products and sums of integers exact in f64."""


@dataclass(frozen=True)
class _Sum:
    """Where a body adds: ``byte`` is the instruction of its result, ``value`` of what is bounded, rounded and moved by
    ``zero`` for it, ``terms`` of the two integers, ``ranges`` their numbers."""

    byte: int
    value: int
    zero: int
    terms: tuple[int, int]
    ranges: tuple[tuple[int, int], tuple[int, int]]


def with_short_sums(body: Body) -> Body:
    """An equal program, in which a sum of two quantised numbers that is quantised again is ``fma`` of ``fma``."""
    found = _find(body)
    if found is None:
        return body
    coefficients = _coefficients(_of_terms(body, found), found.ranges, found.zero)
    return body if coefficients is None else _rewritten(body, found, *coefficients)


def _find(body: Body) -> _Sum | None:
    if len(body.outputs) != 1 or not any(i.op == "round" for i in body.code):
        return None
    code, byte = body.code, body.outputs[0]
    end = byte_end(code, byte)
    terms = None if end is None else _terms(code, end[0])
    if end is None or terms is None:
        return None
    value, zero = end
    bounds = intervals(code)
    ranges = tuple([(int(bounds[t][0]), int(bounds[t][1])) for t in terms])
    return _Sum(byte, value, zero, (terms[0], terms[1]), (ranges[0], ranges[1]))


def _terms(code: Sequence[Instr], value: int) -> list[int] | None:
    """The integers that a value is computed from by sums and products, if they are two of 8 bits."""
    bounds, found, stack, seen = intervals(code), [], [value], set()
    while stack:
        i = stack.pop()
        instr = code[i]
        if i in seen or instr.op == "const":
            continue
        seen.add(i)
        whole = instr.op == "round" or (instr.op == "arg" and instr.dtype in BYTES)
        low, high = bounds[i]
        if whole and high - low < _NUMBERS:  # never of nothing and infinity
            found.append(i)
        elif instr.op in _LINEAR:
            stack += instr.args
        else:
            return None
    return sorted(found) if len(found) == 2 else None


class _Copy(BodyBuilder):
    """Parts of a body, in another one."""

    def __init__(self, code: Sequence[Instr]) -> None:
        super().__init__()
        self._source = code
        self.here: dict[int, int] = {}

    def take(self, root: int) -> int:
        """An instruction, with all that it needs and that is not ``here`` yet."""
        for i in sorted(_needed(self._source, root, self.here)):
            instr = self._source[i]
            args = tuple([self.here[a] for a in instr.args])
            self.here[i] = self._add(Instr(instr.op, args, instr.dtype, instr.value))
        return self.here[root]


def _needed(code: Sequence[Instr], root: int, known: dict[int, int]) -> set[int]:
    found: set[int] = set()
    stack = [root]
    while stack:
        i = stack.pop()
        if i not in found and i not in known:
            found.add(i)
            stack += code[i].args
    return found


def _of_terms(body: Body, found: _Sum) -> Body:
    """The value and the byte as a function of the two integers alone."""
    b = _Copy(body.code)
    for term in found.terms:
        b.here[term] = b.arg(body.code[term].dtype)
    return b.build(b.take(found.value), b.take(found.byte))


def _rewritten(body: Body, found: _Sum, coefficients: tuple[float, float, float], zero: int) -> Body:
    b, dtype = _Copy(body.code), body.code[found.byte].dtype
    for i, instr in enumerate(body.code):
        if instr.op == "arg":
            b.here[i] = b.arg(instr.dtype)
    u, v = (b.cast(b.take(t), DType.F32) for t in found.terms)
    first, second, third = (b.const(c, DType.F32) for c in coefficients)
    value = b("fma", u, first, b("fma", v, second, third))
    info = np.iinfo(dtype.numpy.str)
    least, most = (b.const(float(n - zero), DType.F32) for n in (info.min, info.max))
    whole = b.cast(b("round", b("min", b("max", value, least), most)), DType.I32)
    return b.build(b.cast(b("add", whole, b.const(zero, DType.I32)) if zero else whole, dtype))


@lru_cache(512)
def _coefficients(
    function: Body, ranges: tuple[tuple[int, int], tuple[int, int]], zero: int
) -> tuple[tuple[float, float, float], int] | None:
    """The numbers ``a, b, c`` for which ``u * a + (v * b + c)`` rounds to the byte that the function gives, and what is
    added behind the rounding: nothing, or the zero point where ties are to fall as they do without it."""
    u, v = (np.arange(low, high + 1) for low, high in ranges)
    pairs = [u.repeat(v.size), np.tile(v, u.size)]
    value, byte = evaluate(function, [p.astype(t.numpy) for p, t in zip(pairs, function.args, strict=True)])
    info = np.iinfo(byte.dtype)
    plane = _plane(value.astype(np.float64).reshape(u.size, v.size), u, v)
    if plane is None:
        return None
    a, b, c = plane
    for behind in (0, zero) if zero else (0,):
        wanted, ends = byte.astype(np.float64) - behind, (info.min - behind, info.max - behind)
        for tried in _candidates(a, b, c + (zero - behind), pairs, wanted, ends):
            if all(np.array_equal(np.clip(np.rint(y), *ends), wanted) for y in _both_ways(tried, pairs)):
                return tried, behind
    return None


def _plane(value: _Floats, u: NDArray[np.int64], v: NDArray[np.int64]) -> tuple[float, float, float] | None:
    """The factors of ``u`` and ``v`` and the rest, if the value of every pair is a sum of these."""
    if not np.isfinite(value).all() or u.size < 2 or v.size < 2:
        return None
    left, right = u - u.mean(), v - v.mean()
    a = float((left * value.mean(1)).sum() / (left**2).sum())
    b = float((right * value.mean(0)).sum() / (right**2).sum())
    c = float(value.mean() - a * u.mean() - b * v.mean())
    fits = all(_LEAST <= abs(x) <= _MOST for x in (a, b)) and abs(c) < 1 << 16
    away = np.abs(a * u[:, None] + (b * v + c) - value).max()
    return (a, b, c) if fits and away < _NEAR / 2 else None


def _candidates(
    a: float, b: float, c: float, pairs: Sequence[NDArray[np.int64]], wanted: _Floats, ends: tuple[int, int]
) -> list[tuple[float, float, float]]:
    """Coefficients in f32 that look best, those nearest to the plane first."""
    away = wanted - (a * pairs[0] + b * pairs[1] + c)
    near = np.abs(np.abs(away) - 0.5) < _NEAR
    u, v, t = pairs[0][near], pairs[1][near], wanted[near]
    steps = np.arange(-_STEPS, _STEPS + 1)
    first, second = (x + steps * float(np.spacing(np.float32(abs(x)))) for x in (_f32(a), _f32(b)))
    sums = first[:, None, None] * u + second[None, :, None] * v
    low = np.where(t > ends[0], t - 0.5, -np.inf) - sums
    high = np.where(t < ends[1], t + 0.5, np.inf) - sums
    room = high.min(-1, initial=np.inf) - low.max(-1, initial=-np.inf)
    middle = (high.min(-1, initial=c + 0.25) + low.max(-1, initial=c - 0.25)) / 2
    order = np.argsort(-room, axis=None, kind="stable")[:_TRIED]
    chosen = [np.unravel_index(i, room.shape) for i in order]
    return [
        (_f32(a), _f32(b), _f32(c)),
        *((float(first[i]), float(second[j]), _f32(middle[i, j])) for i, j in chosen),
    ]


def _f32(x: float) -> float:
    """In steps of 2^-24, as f32."""
    return float(np.float32(np.round(float(x) * (1 << 24)) / (1 << 24)))


def _both_ways(
    coefficients: tuple[float, float, float], pairs: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.float32]]:
    """The sums of all pairs: with products that are not rounded, and on processors that round them."""
    u, v = pairs
    a, b, c = coefficients
    fused = (u * a + (v * b + c).astype(np.float32).astype(np.float64)).astype(np.float32)
    first, second, third = (np.float32(x) for x in coefficients)
    x, y = (p.astype(np.float32) for p in pairs)
    return [fused, x * first + (y * second + third)]


__all__ = ["with_short_sums"]
