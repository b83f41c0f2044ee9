"""The zeta function of two numbers, and derivatives of digamma."""

from __future__ import annotations

import math

from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_TERMS = 12
"""Terms that are summed before Euler and Maclaurin's formula takes over."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


@aten("special_zeta")
def zeta(ctx: TorchBuilder, x: Operand, q: Operand) -> Value:
    """The sum of ``(q + k)^-x`` over all ``k`` from 0 (Hurwitz). Infinite for ``x = 1`` and at poles of ``q``; NaN for
    ``x`` below 1, and for ``q`` below 0 unless ``x`` is whole."""
    kind = ctx.type_of(ctx.as_float(ctx.together(x, q)[0]))
    s, base = (ctx.cast(v, DType.F64) for v in ctx.together(x, q))
    found = _summed(ctx, s, base)
    whole = ctx.binary("EQUAL", base, ctx.unary("FLOOR", base))
    below = ctx.binary("LESS_EQUAL", base, 0.0)
    told = apply(ctx, "logical_and", [below, ctx.binary("NOTEQUAL", s, ctx.unary("FLOOR", s))], {})
    for condition, value in (
        (told, math.nan),
        (apply(ctx, "logical_and", [below, whole], {}), math.inf),
        (ctx.binary("EQUAL", s, 1.0), math.inf),
        (ctx.binary("LESS", s, 1.0), math.nan),
    ):
        found = apply(ctx, "where", [condition, value, found], {})
    return ctx.cast(found, kind)


def _summed(ctx: TorchBuilder, s: Value, base: Value) -> Value:
    """Terms until ``base`` is above 12 or so, an integral for the rest, and corrections. Bases below 0 come up by more
    terms, but no more than 12: torch's own function sums as many as it takes."""
    less = ctx.unary("NEG", s)

    def term(at: Value) -> Value:
        return ctx.binary("POW", at, less)

    total = term(base)
    for k in range(1, _TERMS):
        total = ctx.binary("ADD", total, term(ctx.binary("ADD", base, float(k))))
    far = ctx.binary("ADD", base, float(_TERMS))
    power = term(far)
    integral = ctx.binary("REALDIV", ctx.binary("MUL", power, far), ctx.binary("SUB", s, 1.0))
    total = ctx.binary("ADD", total, ctx.binary("ADD", integral, ctx.binary("MUL", power, 0.5)))
    rising, inverse = ctx.binary("REALDIV", s, far), ctx.unary("SQUARE", ctx.unary("RECIPROCAL", far))
    for j, b in enumerate(_BERNOULLI, 1):
        share = ctx.binary("MUL", ctx.binary("MUL", rising, power), b / math.factorial(2 * j))
        total = ctx.binary("ADD", total, share)
        both = ctx.binary("MUL", ctx.binary("ADD", s, 2.0 * j - 1), ctx.binary("ADD", s, 2.0 * j))
        rising = ctx.binary("MUL", ctx.binary("MUL", rising, both), inverse)
    return total


@aten("polygamma", "special_polygamma")
def polygamma(ctx: TorchBuilder, a: Operand, b: Operand) -> Value:
    """The ``n``-th derivative of digamma: ``(-1)^(n+1) n! zeta(n + 1, x)``; below 1/2 the first one by reflection."""
    n, x = (a, b) if isinstance(b, Value) else (b, a)
    order = ctx.known(n, "the order of a derivative")
    assert isinstance(x, Value)
    if order == 0:
        return apply(ctx, "digamma", [x], {})  # type: ignore[no-any-return]
    if not 0 < order < 171:
        raise ctx.unsupported(f"the derivative {order} of digamma", "from 0 to 170 are")
    kind = ctx.type_of(ctx.as_float(x))
    wide = ctx.cast(x, DType.F64)
    if order > 1:
        found = ctx.binary("MUL", zeta(ctx, ctx.const_like(order + 1.0, wide), wide), math.factorial(order) * 1.0)
        return ctx.cast(ctx.unary("NEG", found) if order % 2 == 0 else found, kind)
    low = ctx.binary("LESS", wide, 0.5)
    raised = apply(ctx, "where", [low, ctx.binary("SUB", 1.0, wide), wide], {})
    found = _summed(ctx, ctx.const_like(2.0, raised), raised)
    rest = ctx.binary("SUB", wide, ctx.unary("FLOOR", wide))
    sine = ctx.unary("SIN", ctx.binary("MUL", rest, math.pi))
    turned = ctx.binary("SUB", ctx.unary("SQUARE", ctx.binary("REALDIV", math.pi, sine)), found)
    return ctx.cast(apply(ctx, "where", [low, turned, found], {}), kind)
