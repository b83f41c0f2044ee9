"""Exponentials, logarithms, hyperbolic functions and erf on vectors of f32 or f64, built from own polynomials.

Every function takes a builder and a float value of any number of lanes and gives one of the same type. Largest errors
measured against float64 (f32) and long double (f64) are listed in ``tests/backends/cpu/math/test_vecmath.py``; f32
stays within 2 ulp, results in the subnormal range included. NaN gives NaN; infinities and signed zeros follow C's Annex
F.

Methods: Cody and Waite's range reduction (Software Manual for the Elementary Functions, 1980) followed by minimax
polynomials; expm1-based tanh and sinh (Kahan); erf as ``1 - exp(-a P(a))`` beyond 1, or by table (P. Tang,
"Table-Driven Implementation of the Exponential Function", 1989, has the idea) where a register can be the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import F32, Builder, Type, Value, int_type
from MNN.backends.cpu.math import erf_polynomials as vecmath_pieces
from MNN.backends.cpu.math.coefficients import F32 as TABLE32
from MNN.backends.cpu.math.coefficients import F64 as TABLE64
from MNN.backends.cpu.math.coefficients import Table
from MNN.backends.cpu.targets.instructions import capability as can


@dataclass(frozen=True)
class Format:
    """Constants of one floating point format."""

    table: Table
    mantissa: int
    bias: int
    magic: float
    """1.5 * 2^mantissa: adding it rounds to an integer, which then stands in the low bits."""
    ln2_high: float
    """log(2) with enough trailing zeros that a product with any exponent is exact."""
    ln2_low: float
    exp_low: float
    """Below this exp gives 0 after rounding."""
    exp_high: float
    """Above this exp overflows."""
    min_normal: float
    root_half_bits: int
    """The bits of sqrt(1/2)."""
    erf_one: float
    """From here on erf rounds to 1 (and the polynomial ends)."""
    tanh_one: float


_F32 = Format(
    TABLE32, 23, 127, 12582912.0, 0.693359375, -2.12194440e-4, -104.0, 89.0, 2.0**-126, 0x3F3504F3, 3.95, 10.0
)
_F64 = Format(
    TABLE64, 52, 1023, 6755399441055744.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10, -746.0, 710.0,
    2.0**-1022, 0x3FE6A09E667F3BCD, 6.0, 20.0,
)  # fmt: skip
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


def format_of(type_: Type) -> Format:
    """The constants for an f32 or f64 type."""
    return _F32 if type_.element is F32 else _F64


def int_like(type_: Type) -> Type:
    """The integer type with as many bits and lanes."""
    return int_type(type_.bits, type_.lanes)


def horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, constant first."""
    if len(coefficients) >= 9:  # even and odd halves: half the latency for long ones
        x2 = b.mul(x, x)
        return b.fma(horner(b, x2, coefficients[1::2]), x, horner(b, x2, coefficients[0::2]))
    acc = b.const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        acc = b.fma(acc, x, c)
    return acc


def clamp(b: Builder, x: Value, low: float | None, high: float | None) -> Value:
    """x limited to the range; NaN stays NaN (the order of operands makes one min/max instruction of each)."""
    if low is not None:
        x = b.select(b.fcmp("ogt", b.const(x.type, low), x), low, x)
    if high is not None:
        x = b.select(b.fcmp("olt", b.const(x.type, high), x), high, x)
    return x


def fabs(b: Builder, x: Value) -> Value:
    return b.intrinsic("fabs", x)


def copysign(b: Builder, x: Value, sign: Value) -> Value:
    return b.intrinsic("copysign", x, sign)


def _power_of_two(b: Builder, n: Value, to: Type) -> Value:
    """2^n as a float from an integer n in the normal range."""
    f = format_of(to)
    return b.bitcast(b.shl(b.add(n, f.bias), f.mantissa), to)


def _round(b: Builder, x: Value, scale: float) -> tuple[Value, Value]:
    """The integer nearest to x * scale, as a float and as an integer; it must stay below 2^(mantissa - 2)."""
    f = format_of(x.type)
    t = b.fma(x, scale, f.magic)
    bits = b.bitcast(t, int_like(x.type))
    magic_bits = b.bitcast(b.const(x.type, f.magic), int_like(x.type))
    return b.sub(t, f.magic), b.sub(bits, magic_bits)


def scalef(b: Builder, p: Value, n: Value) -> Value | None:
    """p * 2^n for a float n by one instruction, which also rounds into subnormals; None where there is none."""
    t = p.type
    does = can.SCALE_F32 if t.bits == 32 else can.SCALE_F64
    return b.perform(does, t, p, n) if b.can(does, t.lanes * t.bits) else None


def _scale(b: Builder, p: Value, n: Value, ni: Value, offset: int, ranged: bool) -> Value:
    """p * 2^(n + offset); ``ranged`` promises a normal power."""
    if ranged:
        return b.mul(p, _power_of_two(b, b.add(ni, offset) if offset else ni, p.type))
    quick = scalef(b, p, b.add(n, float(offset)) if offset else n)
    if quick is not None:
        return quick
    # Two steps reach subnormal results and the power 2^128 with a single rounding.
    ni = b.add(ni, offset) if offset else ni
    half = b.ashr(ni, 1)
    return b.mul(b.mul(p, _power_of_two(b, half, p.type)), _power_of_two(b, b.sub(ni, half), p.type))


def _exp_reduced(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """(e^r - 1, n, n as integer) with x = n ln2 + r."""
    f = format_of(x.type)
    n, ni = _round(b, x, LOG2_E)
    r = b.fma(n, -f.ln2_high, x)
    r = b.fma(n, -f.ln2_low, r)
    return b.fma(b.mul(r, r), horner(b, r, f.table["exp"]), r), n, ni


def exp(b: Builder, x: Value, offset: int = 0, ranged: bool = False) -> Value:
    """e^x * 2^offset. ``ranged``: the caller knows that x and the result are in the normal range."""
    f = format_of(x.type)
    if not ranged:
        x = clamp(b, x, f.exp_low, f.exp_high - offset)
    p, n, ni = _exp_reduced(b, x)
    return _scale(b, b.add(p, 1.0), n, ni, offset, ranged)


def exp2(b: Builder, x: Value) -> Value:
    """2^x."""
    f = format_of(x.type)
    x = clamp(b, x, float(-f.bias - f.mantissa - 2), float(f.bias + 2))
    n, ni = _round(b, x, 1.0)
    r = b.sub(x, n)
    return _scale(b, b.fma(r, horner(b, r, f.table["exp2"]), 1.0), n, ni, 0, False)


def exp2_ranged(b: Builder, x: Value) -> Value:
    """2^x for x within 1 of the exponents of normal numbers: the whole part is added to the exponent as it is."""
    f, it = format_of(x.type), int_like(x.type)
    t = b.add(x, f.magic)
    r = b.sub(x, b.sub(t, f.magic))
    p = b.fma(r, horner(b, r, f.table["exp2"]), 1.0)
    return b.bitcast(b.add(b.bitcast(p, it), b.shl(b.bitcast(t, it), f.mantissa)), x.type)


def expm1(b: Builder, x: Value) -> Value:
    """e^x - 1 without cancellation near 0."""
    f = format_of(x.type)
    small = fabs(b, x)
    y = clamp(b, x, -float(f.mantissa + 3), f.exp_high)
    p, _, ni = _exp_reduced(b, y)
    s = _power_of_two(b, b.sub(ni, 1), x.type)  # half the power, so that 2^128 does not overflow
    y = b.fma(s, p, b.sub(s, 0.5))
    return b.select(b.fcmp("olt", small, f.min_normal), x, b.add(y, y))  # keeps -0 and subnormals


def log_reduced(b: Builder, x: Value, subnormal: bool = True) -> tuple[Value, Value]:
    """(m, e) with x = m 2^e and m in [sqrt(1/2), sqrt(2)), for x > 0; e is a float."""
    f = format_of(x.type)
    it = int_like(x.type)
    lift = f.mantissa + 1
    if subnormal:
        tiny = b.fcmp("olt", x, f.min_normal)
        x = b.select(tiny, b.mul(x, 2.0**lift), x)
    bits = b.bitcast(x, it)
    e = b.ashr(b.sub(bits, f.root_half_bits), f.mantissa)
    m = b.bitcast(b.sub(bits, b.shl(e, f.mantissa)), x.type)
    ef = b.convert("sitofp", e, x.type)
    return m, (b.sub(ef, b.select(tiny, b.const(x.type, float(lift)), 0.0)) if subnormal else ef)


def _log_of(b: Builder, g: Value, e: Value) -> Value:
    """log(1 + g) + e log(2)."""
    f = format_of(g.type)
    g2 = b.mul(g, g)
    y = b.mul(b.mul(g, g2), horner(b, g, f.table["log"]))
    y = b.fma(e, f.ln2_low, y)
    y = b.fma(g2, -0.5, y)
    return b.fma(e, f.ln2_high, b.add(g, y))


def _log_special(b: Builder, x: Value, result: Value) -> Value:
    """Puts in log's values for 0, negative, infinite and NaN x."""
    inf = float("inf")
    result = b.select(b.fcmp("olt", x, inf), result, x)
    result = b.select(b.fcmp("oeq", x, 0.0), -inf, result)
    return b.select(b.fcmp("olt", x, 0.0), float("nan"), result)


def log(b: Builder, x: Value) -> Value:
    """The natural logarithm."""
    m, e = log_reduced(b, x)
    return _log_special(b, x, _log_of(b, b.sub(m, 1.0), e))


def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x) without cancellation near 0."""
    f = format_of(x.type)
    u = b.add(x, 1.0)
    back = b.sub(u, 1.0)
    lost = b.add(b.sub(1.0, b.sub(u, back)), b.sub(x, back))  # 1 + x == u + lost (Knuth's two-sum)
    bits = b.bitcast(u, int_like(x.type))
    e = b.ashr(b.sub(bits, f.root_half_bits), f.mantissa)
    m = b.bitcast(b.sub(bits, b.shl(e, f.mantissa)), x.type)
    e_low = b.select(b.icmp("slt", e, f.bias), e, f.bias)  # beyond, nothing was lost
    lost = b.mul(lost, b.bitcast(b.shl(b.sub(f.bias, e_low), f.mantissa), x.type))
    y = _log_of(b, b.add(b.sub(m, 1.0), lost), b.convert("sitofp", e, x.type))
    y = _log_special(b, u, y)
    return b.select(b.fcmp("olt", fabs(b, x), f.min_normal), x, b.select(b.fcmp("oeq", x, float("inf")), x, y))


def tanh(b: Builder, x: Value) -> Value:
    """tanh(x) = -t / (2 + t) with t = expm1(-2 |x|); from 0.55 on 1 - 2 (t + 1) / (2 + t), which rounds less."""
    f = format_of(x.type)
    a = clamp(b, fabs(b, x), None, f.tanh_one)
    p, _, ni = _exp_reduced(b, b.mul(a, -2.0))
    s = _power_of_two(b, ni, x.type)
    t = b.fma(s, p, b.sub(s, 1.0))
    large = b.fcmp("ogt", a, 0.55)
    twice = b.add(s, s)
    q = b.fdiv(b.select(large, b.fma(twice, p, twice), b.fneg(t)), b.add(t, 2.0))
    return copysign(b, b.select(large, b.sub(1.0, q), q), x)


def sinh(b: Builder, x: Value) -> Value:
    f = format_of(x.type)
    a = fabs(b, x)
    z = b.mul(a, a)
    small = b.fma(b.mul(a, z), horner(b, z, f.table["sinh"]), a)
    e = exp(b, a, offset=-1)
    return copysign(b, b.select(b.fcmp("olt", a, 1.0), small, b.sub(e, b.fdiv(0.25, e))), x)


def cosh(b: Builder, x: Value) -> Value:
    e = exp(b, fabs(b, x), offset=-1)
    return b.add(e, b.fdiv(0.25, e))


def _log1p_large(b: Builder, a: Value, small: Value, limit: float) -> Value:
    """log1p(small) for a < limit, else log(2 a)."""
    big = b.fcmp("oge", a, limit)
    y = log1p(b, b.select(big, a, small))
    return b.add(y, b.select(big, b.const(a.type, LN_2), 0.0))


def asinh(b: Builder, x: Value) -> Value:
    """sign(x) log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|."""
    a = fabs(b, x)
    z = b.mul(a, a)
    small = b.add(a, b.fdiv(z, b.add(b.intrinsic("sqrt", b.add(z, 1.0)), 1.0)))
    return copysign(b, _log1p_large(b, a, small, 2.0**60), x)


def acosh(b: Builder, x: Value) -> Value:
    """log1p(t + sqrt(t (2 + t))), t = x - 1; NaN below 1."""
    t = b.sub(x, 1.0)
    small = b.add(t, b.intrinsic("sqrt", b.mul(t, b.add(t, 2.0))))
    return b.select(b.fcmp("olt", x, 1.0), float("nan"), _log1p_large(b, x, small, 2.0**60))


def atanh(b: Builder, x: Value) -> Value:
    """sign(x) log1p(2 a / (1 - a)) / 2, a = |x|."""
    a = fabs(b, x)
    y = log1p(b, b.fdiv(b.add(a, a), b.sub(1.0, a)))
    return copysign(b, b.mul(y, 0.5), x)


def erf(b: Builder, x: Value) -> Value:
    f = format_of(x.type)
    a = clamp(b, fabs(b, x), None, f.erf_one)
    if x.type is F32.vec(16) and b.can(can.PICK_F32, 512):
        t = b.add(b.fma(a, 4.0, -0.5), _F32.magic)  # rounded down: the distance is from a piece's left end
        return copysign(b, _erf_polynomials(b, a, t, 0.25, vecmath_pieces.ERF), x)
    if x.type is F32.vec(8) and b.can(can.PICK_F32, 256):
        t = b.fma(a, 1 / vecmath_pieces.WIDTH, _F32.magic)
        return copysign(b, _erf_polynomials(b, a, t, vecmath_pieces.WIDTH, vecmath_pieces.ERF_WIDE), x)
    z = b.mul(a, a)
    small = b.fma(a, horner(b, z, f.table["erf"]), a)
    large = b.sub(1.0, exp(b, b.mul(b.fneg(a), horner(b, a, f.table["erf_tail"])), ranged=True))
    return copysign(b, b.select(b.fcmp("olt", a, 1.0), small, large), x)


def _erf_polynomials(b: Builder, a: Value, t: Value, width: float, table: Sequence[tuple[float, ...]]) -> Value:
    """erf of 0 <= a with coefficients picked from registers: half the instructions of the general way, and a third of
    their latency. ``t`` is the number of the piece added to ``magic``, in whose low bits it stands."""
    piece = b.bitcast(t, int_like(a.type))
    number = b.sub(t, _F32.magic)
    d = b.fma(number, -width, a)
    picked = [b.perform(can.PICK_F32, a.type, b.const_vector(F32, row), piece) for row in table]
    acc = picked[-1]
    for c in picked[-2:0:-1]:
        acc = b.fma(acc, d, c)
    start = b.select(b.fcmp("oeq", number, 0.0), d, picked[0])
    return clamp(b, b.fma(acc, d, start), None, 1.0)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log1p": log1p, "tanh": tanh, "sinh": sinh, "cosh": cosh,
    "asinh": asinh, "acosh": acosh, "atanh": atanh, "erf": erf,
}  # fmt: skip
