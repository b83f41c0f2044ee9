"""Powers and floating point remainders on vectors of f32 or f64.

f32 powers are computed in f64. f64 powers take the logarithm to about 70 bits as an unevaluated sum of two numbers
(Dekker, "A floating-point technique for extending the available precision", 1971). Special cases follow C's Annex F.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.module import F64, I1, Builder, Value
from MNN.backends.cpu.math.functions import copysign, exp, fabs, format_of, horner, int_like, log, log_reduced

INF, NAN = float("inf"), float("nan")


def _two_product(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x*y as an exact sum."""
    p = b.mul(x, y)
    if b.module.has_fma:
        return p, b.fma(x, y, b.fneg(p))

    def split(v: Value) -> tuple[Value, Value]:
        c = b.mul(v, 134217729.0)
        high = b.sub(c, b.sub(c, v))
        return high, b.sub(v, high)

    (xh, xl), (yh, yl) = split(x), split(y)
    error = b.add(b.sub(b.mul(xh, yh), p), b.add(b.mul(xh, yl), b.mul(xl, yh)))
    return p, b.add(error, b.mul(xl, yl))


def _log_extended(b: Builder, x: Value) -> tuple[Value, Value]:
    """log(x) as a sum of two f64, for positive finite x."""
    f = format_of(x.type)
    m, e = log_reduced(b, x)
    # log m = 2 s + s^3 P(s^2), s = (m - 1) / (m + 1)
    below, above = b.sub(m, 1.0), b.add(m, 1.0)
    above_low = b.sub(m, b.sub(above, 1.0))
    s = b.fdiv(below, above)
    p, error = _two_product(b, s, above)
    rest = b.sub(b.sub(b.sub(below, p), error), b.mul(s, above_low))
    s_low = b.fdiv(rest, above)
    z = b.mul(s, s)
    low = b.fma(b.mul(s, z), horner(b, z, f.table["atanh"]), b.fma(e, f.ln2_low, b.add(s_low, s_low)))
    base, twice = b.mul(e, f.ln2_high), b.add(s, s)
    high = b.add(base, twice)
    low = b.add(low, b.sub(twice, b.sub(high, base)))
    total = b.add(high, low)
    return total, b.sub(low, b.sub(total, high))


def _pow_positive(b: Builder, x: Value, y: Value) -> Value:
    """x^y for x >= 0, by exp(y log x), before special cases."""
    ordinary = b.and_(b.fcmp("ogt", x, 0.0), b.fcmp("olt", x, INF))
    high, low = _log_extended(b, b.select(ordinary, x, 1.0))
    p, error = _two_product(b, y, high)
    sane = b.fcmp("olt", fabs(b, p), 1000.0)
    tail = b.select(sane, b.fma(y, low, error), 0.0)
    e = exp(b, p)
    result = b.select(b.fcmp("olt", e, INF), b.fma(e, tail, e), e)
    limit = b.select(b.fcmp("oeq", x, 0.0), -INF, b.const(x.type, INF))
    special = b.select(b.fcmp("ogt", b.mul(limit, y), 0.0), b.const(x.type, INF), 0.0)
    return b.select(ordinary, result, special)


def power(b: Builder, x: Value, y: Value) -> Value:
    """x^y. A negative x needs an integral y, else the result is NaN; anything to the power 0 is 1."""
    t = x.type
    a = fabs(b, x)
    if t.bits == 32:
        wide = F64.vec(t.lanes)
        exponent = b.mul(b.convert("fpext", y, wide), log(b, b.convert("fpext", a, wide)))
        r = b.convert("fptrunc", exp(b, exponent), t)
    else:
        r = _pow_positive(b, a, y)
    # |x| = 1 makes 0 * inf of infinite y
    r = b.select(b.fcmp("oeq", a, 1.0), 1.0, r)
    integral = b.fcmp("oeq", b.intrinsic("trunc", y), y)
    half = b.mul(y, 0.5)
    odd = b.and_(integral, b.fcmp("one", b.intrinsic("trunc", half), half))
    negative = b.icmp("slt", b.bitcast(x, int_like(t)), 0)
    r = b.select(b.and_(negative, odd), b.fneg(r), r)
    finite_negative = b.and_(b.fcmp("olt", x, 0.0), b.fcmp("olt", a, INF))
    r = b.select(b.and_(finite_negative, b.not_(integral)), NAN, r)
    r = b.select(b.fcmp("uno", x, y), NAN, r)
    return b.select(b.or_(b.fcmp("oeq", x, 1.0), b.fcmp("oeq", y, 0.0)), 1.0, r)


def _exponent(b: Builder, v: Value) -> Value:
    """The biased exponent of positive v, below zero for subnormals."""
    tiny = b.fcmp("olt", v, 2.0**-1022)
    field = b.lshr(b.bitcast(b.select(tiny, b.mul(v, 2.0**54), v), int_like(v.type)), 52)
    return b.sub(field, b.select(tiny, b.const(field.type, 54), 0))


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """C's fmod: exact, with the sign of x. NaN for infinite x or zero y."""
    t = F64.vec(x.type.lanes)
    wide_x, wide_y = b.convert("fpext", x, t), b.convert("fpext", y, t)
    a, d = fabs(b, wide_x), fabs(b, wide_y)
    valid = b.and_(b.fcmp("olt", a, INF), b.fcmp("ogt", d, 0.0))
    a = b.select(valid, a, 0.0)
    d = b.select(valid, d, 1.0)

    def step(r: Value) -> tuple[Value, list[Value]]:
        # Subtract the largest d 2^k that fits: every difference is exact.
        again = b.fcmp("oge", r, d)
        k = b.sub(_exponent(b, r), _exponent(b, d))
        k = b.select(again, k, 0)
        multiple = d
        quarter = b.lshr(k, 2)  # in four steps, because 2^k alone may overflow
        for part in (quarter, quarter, quarter, b.sub(k, b.mul(quarter, 3))):
            multiple = b.mul(multiple, b.bitcast(b.shl(b.add(part, 1023), 52), t))
        multiple = b.select(b.fcmp("ogt", multiple, r), b.mul(multiple, 0.5), multiple)
        r = b.select(again, b.sub(r, multiple), r)
        more = b.fcmp("oge", r, d)
        return (more if t.lanes == 1 else b.call(I1, f"llvm.vector.reduce.or.{more.type.suffix}", more)), [r]

    (r,) = b.do_while([a], step)
    r = b.select(b.and_(b.fcmp("oeq", d, INF), valid), a, r)
    r = copysign(b, r, wide_x)
    bad = b.or_(b.not_(valid), b.fcmp("uno", wide_x, wide_y))
    r = b.select(bad, NAN, r)
    return b.convert("fptrunc", r, x.type)
