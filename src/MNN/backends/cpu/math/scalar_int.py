"""Integer and boolean instructions of scalar programs. Division never traps: zero divisors give 0, the rest wraps."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.lang.module import I1, Builder, Value

_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_PLAIN = ("add", "sub", "mul")


def apply_bool(b: Builder, op: str, x: Sequence[Value]) -> Value:
    """An operation on i1 values."""
    if op in ("and", "mul", "min"):
        return b.and_(x[0], x[1])
    if op in ("or", "add", "max"):
        return b.or_(x[0], x[1])
    if op in ("xor", "sub", "ne"):
        return b.xor(x[0], x[1])
    if op == "not":
        return b.not_(x[0])
    if op == "eq":
        return b.not_(b.xor(x[0], x[1]))
    if op in _COMPARE:
        return b.icmp(f"u{_COMPARE[op]}", x[0], x[1])
    if op in ("isnan", "isinf"):
        return b.const(x[0].type, 0)
    raise TypeError(f"no code for operation '{op}' on bool")


def apply_int(b: Builder, op: str, x: Sequence[Value], signed: bool) -> Value:
    """An operation on integers of one width."""
    first = x[0]
    if op in _PLAIN:
        return {"add": b.add, "sub": b.sub, "mul": b.mul}[op](x[0], x[1])
    if op in ("and", "or", "xor"):
        return {"and": b.and_, "or": b.or_, "xor": b.xor}[op](x[0], x[1])
    if op in ("min", "max"):
        return b.intrinsic(("s" if signed else "u") + op, x[0], x[1])
    if op in ("eq", "ne"):
        return b.icmp(op, x[0], x[1])
    if op in _COMPARE:
        return b.icmp(("s" if signed else "u") + _COMPARE[op], x[0], x[1])
    if op == "fma":
        return b.add(b.mul(x[0], x[1]), x[2])
    if op == "neg":
        return b.sub(0, first)
    if op == "not":
        return b.not_(first)
    if op == "abs":
        t = first.type
        return b.call(t, f"llvm.abs.{t.suffix}", first, b.const(I1, 0)) if signed else first
    if op == "sign":
        positive = b.select(b.icmp("sgt" if signed else "ne", first, 0), b.const(first.type, 1), 0)
        return b.select(b.icmp("slt", first, 0), -1, positive) if signed else positive
    if op in ("floor", "ceil", "round", "trunc"):
        return first
    if op in ("isnan", "isinf"):
        return b.const(I1.vec(first.type.lanes), 0)
    if op in ("div", "rem", "floordiv", "mod"):
        return _division(b, op, x[0], x[1], signed)
    if op in ("shl", "shr"):
        return _shift(b, op, x[0], x[1], signed)
    if op == "pow":
        return _power(b, x[0], x[1], signed)
    raise TypeError(f"no code for operation '{op}' on integers")


def _division(b: Builder, op: str, x: Value, y: Value, signed: bool) -> Value:
    simple = y.number is not None and y.number not in (0, -1)
    if not signed:
        if op in ("rem", "mod"):
            return b.urem(x, y) if simple else _unless_zero(b, y, b.urem(x, _nonzero(b, y)))
        return b.udiv(x, y) if simple else _unless_zero(b, y, b.udiv(x, _nonzero(b, y)))
    if simple:
        safe, q = y, b.sdiv(x, y)
    else:
        minus = b.icmp("eq", y, -1)  # the smallest number divided by -1 would trap
        safe = b.select(minus, 1, _nonzero(b, y))
        q = b.sdiv(x, safe)
    r = b.sub(x, b.mul(q, safe))
    if op in ("floordiv", "mod"):
        uneven = b.and_(b.icmp("ne", r, 0), b.icmp("slt", b.xor(r, y), 0))
        q = b.select(uneven, b.sub(q, 1), q)
        r = b.select(uneven, b.add(r, y), r)
    if op in ("rem", "mod"):
        return r if simple else _unless_zero(b, y, r)
    return q if simple else _unless_zero(b, y, b.select(minus, b.sub(0, x), q))


def _nonzero(b: Builder, y: Value) -> Value:
    return b.select(b.icmp("eq", y, 0), 1, y)


def _unless_zero(b: Builder, y: Value, result: Value) -> Value:
    return b.select(b.icmp("eq", y, 0), 0, result)


def _shift(b: Builder, op: str, x: Value, y: Value, signed: bool) -> Value:
    inside = b.icmp("ult", y, x.type.bits)
    amount = b.select(inside, y, 0)
    if op == "shl":
        moved = b.shl(x, amount)
    else:
        moved = b.ashr(x, amount) if signed else b.lshr(x, amount)
    return b.select(inside, moved, 0)


def _power(b: Builder, x: Value, y: Value, signed: bool) -> Value:
    """By squaring; negative exponents give the truncated reciprocal."""
    negative = b.icmp("slt", y, 0) if signed else b.const(I1.vec(x.type.lanes), 0)
    exponent = b.select(negative, 0, y)

    def step(result: Value, base: Value, left: Value) -> tuple[Value, list[Value]]:
        odd = b.icmp("ne", b.and_(left, 1), 0)
        result = b.select(odd, b.mul(result, base), result)
        left = b.lshr(left, 1)
        more = b.icmp("ne", left, 0)
        if more.type.lanes > 1:
            more = b.call(I1, f"llvm.vector.reduce.or.{more.type.suffix}", more)
        return more, [result, b.mul(base, base), left]

    result = b.do_while([b.const(x.type, 1), x, exponent], step)[0]
    if not signed:
        return result
    sign = b.select(b.icmp("ne", b.and_(y, 1), 0), b.const(x.type, -1), 1)
    unit = b.select(b.icmp("eq", x, -1), sign, 0)
    return b.select(negative, b.select(b.icmp("eq", x, 1), 1, unit), result)
