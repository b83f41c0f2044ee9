"""Functions of numbers one by one that are made of several others, or that look at their bits."""

from __future__ import annotations

import math as _math

from numpy.typing import ArrayLike

from MNN.errors import MNNError
from MNN.expr import build, math, products
from MNN.expr.arrays.options import into
from MNN.expr.var import Var
from MNN.numpy._at_hand import WIDE, at_hand, made, met
from MNN.numpy._at_hand import untyped as _np
from MNN.numpy._calculation import trunc
from MNN.numpy._elementwise import elementwise, several


def _floats(x1: object, x2: object) -> tuple[Var, Var]:
    a, b = build.pair(x1, x2)
    return build.floats(a), build.floats(b)


def _addexp(x1: object, x2: object, base: float) -> Var:
    """``log(base^x1 + base^x2)`` to that base, without overflow."""
    a, b = _floats(x1, x2)
    same = math.add(a, _math.log(2, base))
    gap = math.multiply(math.negative(math.abs(math.subtract(a, b))), _math.log(base))
    apart = math.add(math.maximum(a, b), math.divide(math.log1p(math.exp(gap)), _math.log(base)))
    return math.select(math.equal(a, b), same, apart)  # infinities of one sign have no difference


@elementwise
def logaddexp(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``log(e^x1 + e^x2)``."""
    return _addexp(x1, x2, _math.e)


@elementwise
def logaddexp2(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``log2(2^x1 + 2^x2)``."""
    return _addexp(x1, x2, 2.0)


def sinc(x: ArrayLike) -> Var:
    """``sin(pi x) / (pi x)``, 1 at 0."""
    v = math.multiply(build.floats(x), _math.pi)
    return math.select(math.equal(v, 0.0), 1.0, math.divide(math.sin(v), v))


@elementwise
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``x1 * 2^x2``."""
    a, exponent = _floats(x1, x2)
    half = math.floor(math.multiply(exponent, 0.5))  # 2^x2 alone might be too large or too small
    return math.multiply(math.multiply(a, math.pow(2.0, half)), math.pow(2.0, math.subtract(exponent, half)))


@several
def frexp(x: ArrayLike) -> tuple[Var, Var]:
    """Mantissa (from 0.5 to below 1) and exponent, as ``int``."""
    mantissa, exponent = at_hand(_np.frexp, build.floats(x))
    return mantissa, exponent


@several
def divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Var, Var]:
    """``floor(x1 / x2)`` and what is left, with the divisor's sign, so that ``q * x2 + r`` is ``x1``."""
    a, b = build.pair(x1, x2)
    return products.floor_divide(a, b), math.floormod(a, b)


@several
def modf(x: ArrayLike) -> tuple[Var, Var]:
    """The fraction and the whole part, both with the sign of ``x``."""
    v = build.floats(x)
    whole = trunc(v)
    nothing = math.select(math.equal(v, 0.0), v, math.multiply(math.sign(v), 0.0))
    return math.select(math.equal(v, whole), nothing, math.subtract(v, whole)), whole


@elementwise
def float_power(x: ArrayLike, y: ArrayLike) -> Var:
    """``x`` to the power of ``y`` as floats, also of integers."""
    return math.pow(*_floats(x, y))


@elementwise
def heaviside(x1: ArrayLike, x2: ArrayLike) -> Var:
    """0 below 0, 1 above, and ``x2`` at 0."""
    a, b = _floats(x1, x2)
    above = math.select(math.greater(a, 0.0), 1.0, a)  # what is left but no-numbers is below 0
    return math.select(math.equal(a, 0.0), b, math.select(math.less(a, 0.0), 0.0, above))


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Var:
    """Numbers in place of no-numbers and infinities; the largest finite ones unless said otherwise. Without ``copy``
    a Var is changed itself."""
    v = build.to_var(x)
    if not v._kind.is_float:
        return v.copy() if copy and not v._expr.sources else build.own(v)
    limits = _np.finfo(v._kind.numpy)
    high = float(limits.max) if posinf is None else float(posinf)
    low = float(limits.min) if neginf is None else float(neginf)
    v = math.select(math.equal(v, _math.inf), high, v)
    v = math.select(math.equal(v, -_math.inf), low, v)
    v = math.select(math.not_equal(v, v), float(nan), v)
    return v if copy or not isinstance(x, Var) else build.to_var(into(v, x))


def i0(x: ArrayLike) -> Var:
    """The modified Bessel function of the first kind and order 0."""
    return build.to_var(at_hand(_np.i0, build.floats(x)))


@elementwise
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Var:
    """The next float after ``x1`` in the direction of ``x2``."""
    return build.to_var(at_hand(_np.nextafter, *_floats(x1, x2)))


@elementwise
def spacing(x: ArrayLike) -> Var:
    """The distance to the next float away from 0."""
    return build.to_var(at_hand(_np.spacing, build.floats(x)))


def _whole(x1: object, x2: object, name: str) -> tuple[Var, Var]:
    a, b = build.pair(x1, x2)
    if a._kind.is_float:
        raise MNNError(f"{name}() needs integers, found {a.dtype}")
    return a, b


@elementwise
def gcd(x1: ArrayLike, x2: ArrayLike) -> Var:
    """The greatest common divisor of integers."""
    return build.to_var(at_hand(_np.gcd, *_whole(x1, x2, "gcd")))


@elementwise
def lcm(x1: ArrayLike, x2: ArrayLike) -> Var:
    """The least common multiple of integers."""
    return build.to_var(at_hand(_np.lcm, *_whole(x1, x2, "lcm")))


@elementwise
def invert(x: ArrayLike) -> Var:
    """The other bits of integers: ``-1 - x``, or ``255 - x`` of ``uint8``."""
    v = build.to_var(x)
    if v._kind.is_float:
        raise MNNError(f"invert() needs integers, found {v.dtype}")
    return math.bitwise_xor(v, build.number(255 if v._kind.is_unsigned else -1, v._kind))


@elementwise
def left_shift(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``x1 * 2^x2`` of integers; bits that leave are lost."""
    return math.left_shift(*_whole(x1, x2, "left_shift"))


@elementwise
def right_shift(x1: ArrayLike, x2: ArrayLike) -> Var:
    """``floor(x1 / 2^x2)`` of integers."""
    return math.right_shift(*_whole(x1, x2, "right_shift"))


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Var:
    """Eight truth values a ``uint8``."""
    return build.to_var(at_hand(lambda x: _np.packbits(x != 0, axis=axis, bitorder=bitorder), a))


def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Var:
    """The bits of ``uint8``, each as a ``uint8``."""
    return build.to_var(at_hand(_np.unpackbits, a, axis=axis, count=count, bitorder=bitorder))


def binary_repr(num: int, width: int | None = None) -> str:
    """A whole number in base 2, as text; of negative ones the two's complement of ``width`` digits."""
    return str(_np.binary_repr(int(num), width))


def base_repr(number: int, base: int = 2, padding: int = 0) -> str:
    """A whole number in a base of 2 to 36, as text, with ``padding`` zeros before it."""
    return str(_np.base_repr(int(number), base, padding))


def real_if_close(a: ArrayLike, tol: float = 100) -> Var:
    """``a``: Vars are real."""
    return build.own(build.to_var(a))


def unwrap(p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * _math.pi) -> Var:
    """Angles whose jumps of more than ``discont`` (half a period) are taken out by adding periods."""
    v = build.floats(p)
    found = at_hand(_np.unwrap, v, discont=discont, axis=axis, period=period)
    return build.cast(build.to_var(found), v._kind)


def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: float | None = None, right: float | None = None,
           period: float | None = None) -> Var:  # fmt: skip
    """The line through the points (xp, fp) at ``x``; beyond its ends ``left`` and ``right``, or the end's value."""
    given = met(x, xp, fp)
    arrays = [v._array() for v in given]
    if arrays[1].ndim != 1 or arrays[1].shape != arrays[2].shape or not arrays[1].size:
        raise MNNError(f"interp(): xp and fp are as many numbers, found shapes {arrays[1].shape} and {arrays[2].shape}")
    return build.to_var(made(_np.interp(*arrays, left, right, period), any(v._kind in WIDE for v in given)))


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Var:
    """Two vectors convolved: ``full``, ``same`` or ``valid``."""
    return build.to_var(at_hand(_np.convolve, a, v, mode=mode))


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Var:
    """Two vectors correlated: ``valid``, ``same`` or ``full``."""
    return build.to_var(at_hand(_np.correlate, a, v, mode=mode))


__all__ = [
    "base_repr", "binary_repr", "convolve", "correlate", "divmod", "float_power", "frexp", "gcd", "heaviside",
    "i0", "interp", "invert", "lcm", "ldexp", "left_shift", "logaddexp", "logaddexp2", "modf", "nan_to_num",
    "nextafter", "packbits", "real_if_close", "right_shift", "sinc", "spacing", "unpackbits", "unwrap",
]  # fmt: skip
