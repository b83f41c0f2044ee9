"""Functions of complex numbers."""

from __future__ import annotations

import math
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.arithmetic import (
    add,
    angle,
    joined,
    made,
    magnitude,
    mul,
    of_complex,
    part_type,
    parts,
    polar,
    reciprocal,
)
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex
from MNN.frontends.torch.registry import apply


def _both(ctx: TorchBuilder, z: Complex) -> tuple[Variable, Variable]:
    """Absolute value and angle."""
    return magnitude(ctx, z), angle(ctx, z)


@COMPLEX.handles("exp")
def exp(ctx: TorchBuilder, z: Complex) -> Complex:
    real, imag = parts(ctx, z.numbers(ctx))
    return polar(ctx, Variable(ctx.unary("EXP", real)), Variable(imag))  # type: ignore[no-any-return]


_BASES = {"log": None, "log2": math.log(2), "log10": math.log(10)}


@COMPLEX.handles(*_BASES)
def log(ctx: TorchBuilder, z: Complex) -> Complex:
    base = _BASES[ctx.name]
    size, turn = _both(ctx, z)
    pairs = joined(ctx, ctx.unary("LOG", size.read(ctx)), turn.read(ctx))
    return made(pairs if base is None else ctx.binary("REALDIV", pairs, base))


def _powered(ctx: TorchBuilder, z: Complex, exponent: float) -> Complex:
    size, turn = (v.read(ctx) for v in _both(ctx, z))
    return polar(ctx, Variable(apply(ctx, "pow", [size, exponent], {})), Variable(ctx.binary("MUL", turn, exponent)))  # type: ignore[no-any-return]


@COMPLEX.handles("sqrt")
def sqrt(ctx: TorchBuilder, z: Complex) -> Complex:
    return _powered(ctx, z, 0.5)


@COMPLEX.handles("rsqrt")
def rsqrt(ctx: TorchBuilder, z: Complex) -> Complex:
    return _powered(ctx, z, -0.5)


@COMPLEX.handles("square")
def square(ctx: TorchBuilder, z: Complex) -> Complex:
    return mul(ctx, z, z)  # type: ignore[no-any-return]


@COMPLEX.handles("pow")
def power(ctx: TorchBuilder, base: Any, exponent: Any) -> Complex:
    """Small whole exponents are products; others need logarithms."""
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and 1 <= abs(exponent) <= 8:
        out = base
        for _ in range(int(abs(exponent)) - 1):
            out = mul(ctx, out, base)
        return reciprocal(ctx, out) if exponent < 0 else out  # type: ignore[no-any-return]
    if isinstance(exponent, (int, float)):
        return _powered(ctx, base, float(exponent))
    logarithm = log(ctx, of_complex(ctx, base, part_type(ctx, exponent)))
    return exp(ctx, mul(ctx, logarithm, exponent))  # type: ignore[no-any-return]


@COMPLEX.handles("sgn")
def sgn(ctx: TorchBuilder, z: Complex) -> Complex:
    """On the unit circle; 0 of 0."""
    pairs, size = z.numbers(ctx), magnitude(ctx, z).read(ctx)
    size = ctx.unsqueeze(size, ctx.rank_of(size))
    zero = ctx.binary("EQUAL", size, 0)
    divided = ctx.binary("REALDIV", pairs, ctx.op("Select", zero, ctx.const_like(1, size), size))
    return made(divided)


def _turned(name: str, even: tuple[str, str], odd: tuple[str, str], sign: float) -> None:
    """``f(a + bi) = even(a) even'(b) + sign odd(a) odd'(b) i``: the sums of angles."""

    def handler(ctx: TorchBuilder, z: Complex) -> Complex:
        a, b = parts(ctx, z.numbers(ctx))
        real, imag = (ctx.binary("MUL", ctx.unary(f, a), ctx.unary(g, b)) for f, g in (even, odd))
        return made(joined(ctx, real, ctx.binary("MUL", imag, sign)))

    COMPLEX.handles(name)(handler)


_turned("cos", ("COS", "COSH"), ("SIN", "SINH"), -1.0)
_turned("sin", ("SIN", "COSH"), ("COS", "SINH"), 1.0)
_turned("cosh", ("COSH", "COS"), ("SINH", "SIN"), 1.0)
_turned("sinh", ("SINH", "COS"), ("COSH", "SIN"), 1.0)


@COMPLEX.handles("isnan", "isinf", "isfinite")
def tested(ctx: TorchBuilder, z: Complex) -> Variable:
    """Of either part; finite where both are."""
    rank = z.rank(ctx)
    both = apply(ctx, name := ctx.name, [z.numbers(ctx)], {})
    return Variable(apply(ctx, "all" if name == "isfinite" else "any", [both, rank], {}))


@COMPLEX.handles("eq", "ne")
def compared(ctx: TorchBuilder, x: Any, y: Any) -> Variable:
    name, like = ctx.name, part_type(ctx, x, y)
    left, right = (of_complex(ctx, v, like).numbers(ctx) for v in (x, y))
    both = apply(ctx, name, [left, right], {})
    return Variable(apply(ctx, "all" if name == "eq" else "any", [both, -1], {}))


@COMPLEX.handles("norm", "linalg_vector_norm")
def norm(ctx: TorchBuilder, z: Complex, p: Any = 2, *rest: Any, **named: Any) -> Variable:
    return Variable(apply(ctx, ctx.name, [magnitude(ctx, z).read(ctx), p, *rest], named))


@COMPLEX.handles("tanh")
def tanh(ctx: TorchBuilder, z: Complex) -> Complex:
    """Of ``t = tanh a`` and ``s = tan b``: ``(t (1 + s^2) + i s / cosh(a)^2) / (1 + t^2 s^2)`` (Kahan 1987), in which
    nothing is infinite that the result is not."""
    a, b = parts(ctx, z.numbers(ctx))
    t, s = ctx.unary("TANH", a), ctx.unary("TAN", b)
    narrow, square = ctx.unary("SQUARE", ctx.unary("RECIPROCAL", ctx.unary("COSH", a))), ctx.unary("SQUARE", s)
    below = ctx.binary("ADD", ctx.binary("MUL", ctx.unary("SQUARE", t), square), 1)
    real = ctx.binary("MUL", t, ctx.binary("ADD", square, 1))
    return made(joined(ctx, *(ctx.binary("REALDIV", v, below) for v in (real, ctx.binary("MUL", s, narrow)))))


@COMPLEX.handles("tan")
def tan(ctx: TorchBuilder, z: Complex) -> Complex:
    return mul(ctx, tanh(ctx, mul(ctx, z, 1j)), -1j)  # type: ignore[no-any-return]


@COMPLEX.handles("sigmoid")
def sigmoid(ctx: TorchBuilder, z: Complex) -> Complex:
    return add(ctx, mul(ctx, tanh(ctx, mul(ctx, z, 0.5)), 0.5), 0.5)  # type: ignore[no-any-return]


@COMPLEX.handles("asin", "acos", "atan", "asinh", "acosh", "atanh")
def refused(ctx: TorchBuilder, z: Complex) -> Complex:
    raise ctx.unsupported(f"{ctx.name} of complex numbers", ADVICE)
