"""Trigonometric functions and their inverses on vectors of f32 or f64.

Arguments are reduced by Cody and Waite's method (f32 in three FMAs, otherwise in f64 with fdlibm-style 33-bit parts of
pi/2); lanes beyond its range go one by one through Payne and Hanek's ("Radian reduction for trigonometric functions",
1983), which holds for every finite number.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.lang.module import F64, I1, I64, I128, PTR, Builder, Value
from MNN.backends.cpu.math.coefficients import TWO_OVER_PI
from MNN.backends.cpu.math.functions import copysign, fabs, format_of, horner, int_like

_F32_PIO2 = (1.57079637050628662, -4.37113900018624283e-8, -1.71512451613e-15)
_F32_LIMIT = 48000.0
_F64_PIO2 = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624871116645580e-21, 8.47842766036889956997e-32)
_F64_LIMIT = 1.6e6
_PIO2 = 1.5707963267948966
_PIO2_LOW = {32: -4.37113900018624283e-8, 64: 6.123233995736766e-17}
"""What pi/2 rounded to the format leaves over."""


def _payne_hanek(b: Builder) -> str:
    """Defines (once) ``@mnn.pio2(double x, ptr quadrant) -> double r`` for finite |x| >= 2^10."""
    name = "mnn.pio2"
    m = b.module
    if m.defines(name):
        return name
    words = ", ".join(f"i64 {w - (w >> 63 << 64)}" for w in TWO_OVER_PI)
    m.add(f"@mnn.twopi = internal constant [{len(TWO_OVER_PI)} x i64] [{words}]")
    f = m.function(name, [(F64, "x"), (PTR, "q")], F64)
    x, out = f.params
    bits = f.bitcast(x, I64)
    mantissa = f.or_(f.and_(bits, (1 << 52) - 1), 1 << 52)
    # |x| = mantissa 2^e. Bits of 2/pi that contribute multiples of 4 drop out: the product with the 192 bits from bit
    # e - 2 on, modulo 2^192, is x 2/pi modulo 4 in units of 2^-190. The table begins with 64 zeros for small e.
    first = f.sub(f.and_(f.lshr(bits, 52), 2047), 1075 + 2 - 64)
    word, shift = f.lshr(first, 6), f.and_(first, 63)
    table = Value(f, "@mnn.twopi", PTR)
    w = [f.load(I64, f.gep(table, I64, f.add(word, k)), check=False) for k in range(4)]
    window = [f.call(I64, "llvm.fshl.i64", w[k], w[k + 1], shift) for k in range(3)]
    wide, high, middle, low = [f.convert("zext", v, I128) for v in (mantissa, *window)]
    product = f.add(f.shl(f.mul(wide, high), 64), f.add(f.mul(wide, middle), f.lshr(f.mul(wide, low), 64)))
    quadrant = f.lshr(f.add(product, 1 << 125), 126)
    rest = f.sub(product, f.shl(quadrant, 126))
    negative = f.icmp("slt", rest, 0)
    size = f.select(negative, f.sub(0, rest), rest)
    zeros = f.call(I128, "llvm.ctlz.i128", size, f.const(I1, 0))
    top = f.convert("trunc", f.lshr(f.shl(size, zeros), 65), I64)  # 63 bits, so that the signed conversion serves
    scale = f.bitcast(f.shl(f.sub(1023 - 61, f.convert("trunc", zeros, I64)), 52), F64)
    r = f.mul(f.mul(f.convert("sitofp", top, F64), scale), _PIO2)
    below = f.icmp("slt", bits, 0)
    turns = f.convert("trunc", quadrant, I64)
    f.store(f.select(below, f.sub(0, turns), turns), out, check=False)
    f.ret(f.select(f.xor(negative, below), f.fneg(r), r))
    return name


def _reduce_f64(b: Builder, x: Value) -> tuple[Value, Value]:
    """(r, quadrant as i64) for f64 x below the limit."""
    f = format_of(x.type)
    t = b.fma(x, 2 / 3.141592653589793, f.magic)
    n = b.sub(t, f.magic)
    r = x
    for part in _F64_PIO2:
        r = b.sub(r, b.mul(n, part)) if not b.module.has_fma else b.fma(n, -part, r)
    return r, b.bitcast(t, int_like(x.type))


def _reduce_f32(b: Builder, x: Value) -> tuple[Value, Value]:
    f = format_of(x.type)
    if not b.module.has_fma:
        r, q = _reduce_f64(b, b.convert("fpext", x, F64.vec(x.type.lanes)))
        return b.convert("fptrunc", r, x.type), b.convert("trunc", q, int_like(x.type))
    t = b.fma(x, 2 / 3.141592653589793, f.magic)
    n = b.sub(t, f.magic)
    r = x
    for part in _F32_PIO2:
        r = b.fma(n, -part, r)
    r = b.select(b.fcmp("oeq", n, 0.0), x, r)  # keeps -0
    return r, b.bitcast(t, int_like(x.type))


def _any(b: Builder, mask: Value) -> Value:
    if mask.type.lanes == 1:
        return mask
    return b.call(I1, f"llvm.vector.reduce.or.{mask.type.suffix}", mask)


def _reduce(b: Builder, x: Value) -> tuple[Value, Value]:
    """(r, q): x = r + q pi/2 with |r| <= pi/4 and q known modulo 4; NaN for infinities."""
    t = x.type
    it = int_like(t)
    r, q = _reduce_f32(b, x) if t.bits == 32 else _reduce_f64(b, x)
    limit = _F32_LIMIT if t.bits == 32 and b.module.has_fma else _F64_LIMIT
    far = b.fcmp("ogt", fabs(b, x), limit)

    def slow() -> list[Value]:
        name = _payne_hanek(b)
        xs, rs, qs, quadrant = b.alloca(t), b.alloca(t), b.alloca(it), b.alloca(I64)
        for value, place in ((x, xs), (r, rs), (q, qs)):
            b.store(value, place, check=False)
        with b.loop(0, t.lanes) as lane:
            one = b.load(t.element, b.gep(xs, t.element, lane.index), check=False)

            def replace() -> None:
                wide = b.convert("fpext", one, F64)
                rl = b.call(F64, name, wide, quadrant)
                rl = b.select(b.fcmp("oeq", fabs(b, wide), float("inf")), float("nan"), rl)
                ql = b.load(I64, quadrant, check=False)
                b.store(b.convert("fptrunc", rl, t.element), b.gep(rs, t.element, lane.index), check=False)
                b.store(b.convert("trunc", ql, it.element), b.gep(qs, it.element, lane.index), check=False)

            b.if_(b.fcmp("ogt", fabs(b, one), limit), replace)
        return [b.load(t, rs, check=False), b.load(it, qs, check=False)]

    r, q = b.if_else(_any(b, far), slow, lambda: [r, q])
    return r, q


def _sin_cos(b: Builder, r: Value) -> tuple[Value, Value]:
    f = format_of(r.type)
    z = b.mul(r, r)
    s = copysign(b, b.fma(b.mul(r, z), horner(b, z, f.table["sin"]), r), r)  # keeps -0
    c = b.fma(b.mul(z, z), horner(b, z, f.table["cos"]), b.fma(z, -0.5, 1.0))
    return s, c


def _quarter(b: Builder, x: Value, offset: int) -> Value:
    """sin(x + offset pi/2)."""
    r, q = _reduce(b, x)
    s, c = _sin_cos(b, r)
    q = b.add(q, offset) if offset else q
    y = b.select(b.icmp("ne", b.and_(q, 1), 0), c, s)
    it = q.type
    sign = b.shl(b.and_(q, 2), it.bits - 2)
    return b.bitcast(b.xor(b.bitcast(y, it), sign), x.type)


def sin(b: Builder, x: Value) -> Value:
    return _quarter(b, x, 0)


def cos(b: Builder, x: Value) -> Value:
    return _quarter(b, x, 1)


def tan(b: Builder, x: Value) -> Value:
    r, q = _reduce(b, x)
    s, c = _sin_cos(b, r)
    odd = b.icmp("ne", b.and_(q, 1), 0)
    return b.fdiv(b.select(odd, b.fneg(c), s), b.select(odd, s, c))


def _half_pi_minus(b: Builder, p: Value) -> Value:
    """pi/2 - p with the part of pi/2 that its rounding lost."""
    return b.add(b.sub(_PIO2, p), _PIO2_LOW[p.type.bits])


def _asin_core(b: Builder, a: Value) -> tuple[Value, Value]:
    """(p, far) with asin(a) = p, or pi/2 - 2 p where far."""
    f = format_of(a.type)
    far = b.fcmp("ogt", a, 0.5)
    z = b.select(far, b.mul(b.sub(1.0, a), 0.5), b.mul(a, a))
    s = b.select(far, b.intrinsic("sqrt", z), a)
    return b.fma(b.mul(s, z), horner(b, z, f.table["asin"]), s), far


def asin(b: Builder, x: Value) -> Value:
    p, far = _asin_core(b, fabs(b, x))
    return copysign(b, b.select(far, _half_pi_minus(b, b.add(p, p)), p), x)


def acos(b: Builder, x: Value) -> Value:
    p, far = _asin_core(b, fabs(b, x))
    twice = b.add(p, p)
    below = b.fcmp("olt", x, 0.0)
    low = 2 * _PIO2_LOW[x.type.bits]
    outer = b.select(below, b.add(b.sub(2 * _PIO2, twice), low), twice)
    return b.select(far, outer, _half_pi_minus(b, copysign(b, p, x)))


def _atan_unit(b: Builder, t: Value) -> Value:
    """atan(t) for 0 <= t <= 1."""
    f = format_of(t.type)
    far = b.fcmp("ogt", t, 0.41421356)  # tan(pi/8): atan(t) = pi/4 + atan((t - 1) / (t + 1))
    t = b.select(far, b.fdiv(b.sub(t, 1.0), b.add(t, 1.0)), t)
    z = b.mul(t, t)
    p = b.fma(b.mul(t, z), horner(b, z, f.table["atan"]), t)
    return b.select(far, b.add(b.add(p, _PIO2_LOW[t.type.bits] / 2), _PIO2 / 2), p)


def atan(b: Builder, x: Value) -> Value:
    a = fabs(b, x)
    far = b.fcmp("ogt", a, 1.0)
    p = _atan_unit(b, b.select(far, b.fdiv(1.0, a), a))
    return copysign(b, b.select(far, _half_pi_minus(b, p), p), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in (-pi, pi]."""
    t = x.type
    it = int_like(t)
    ay, ax = fabs(b, y), fabs(b, x)
    steep = b.fcmp("ogt", ay, ax)
    high, low = b.select(steep, ay, ax), b.select(steep, ax, ay)
    ratio = b.fdiv(low, high)
    ratio = b.select(b.fcmp("oeq", low, 0.0), 0.0, ratio)  # also 0/0
    ratio = b.select(b.fcmp("oeq", low, float("inf")), 1.0, ratio)  # inf/inf
    p = _atan_unit(b, ratio)
    p = b.select(steep, _half_pi_minus(b, p), p)
    left = b.icmp("slt", b.bitcast(x, it), 0)
    p = b.select(left, b.add(b.sub(2 * _PIO2, p), 2 * _PIO2_LOW[t.bits]), p)
    return b.select(b.fcmp("uno", x, y), b.add(x, y), copysign(b, p, y))


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan,
}  # fmt: skip
