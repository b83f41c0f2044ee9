"""Scalar programs without detours: what is quantised and restored at once stays in floating point."""

from __future__ import annotations

import math

from MNN.ir.dtype import DType
from MNN.ir.intervals import Interval, intervals
from MNN.ir.scalar import Body, BodyBuilder, Instr

_EXACT = float(1 << 24)
"""Integers up to here are f32 numbers."""
_BYTES = (DType.I8, DType.U8)


class _Copy(BodyBuilder):
    def add(self, instr: Instr) -> int:
        """An instruction as it is."""
        return self._add(instr)


def simplified(body: Body) -> Body:
    """An equal program: no narrowing that changes nothing, no number added and taken off again, no bound that rounding
    cannot reach, and no way through an integer type for a rounded f32 that fits. (A NaN stays one there, where the
    integer would be any number.)"""
    if not any(i.op == "round" for i in body.code):
        return body
    bounds, b = intervals(body.code), _Copy()
    bytes_ = any(i.dtype in _BYTES for i in body.code)  # kernels know how these are bounded, and do it while packing
    needed, rounded = _needed(body), _only_rounded(body)
    here: list[int] = []
    for i, instr in enumerate(body.code):
        if instr.op == "arg":
            here.append(b.arg(instr.dtype))
        elif i not in needed:
            here.append(-1)
        else:
            found = None if bytes_ else _unbounded(body, bounds, instr, i in rounded)
            found = _shorter(body, bounds, instr) if found is None else found
            number = _converted(body, instr)
            if number is not None:
                here.append(b.const(number, instr.dtype))
                continue
            kept = Instr(instr.op, tuple(here[a] for a in instr.args), instr.dtype, instr.value)
            here.append(b.add(kept) if found is None else b.cast(here[found], instr.dtype))
    made = b.build(*(here[o] for o in body.outputs))
    return made if made.code == body.code else simplified(made)


def _converted(body: Body, instr: Instr) -> float | None:
    """The number that a cast makes of a constant integer, where that is the same number."""
    source = body.code[instr.args[0]] if instr.op == "cast" else instr
    if source.op != "const" or not source.dtype.is_int or source is instr:
        return None
    number = source.number()
    least, most = _range(instr.dtype) if instr.dtype.is_int else (-_EXACT, _EXACT)
    fits = (instr.dtype.is_int or instr.dtype is DType.F32) and least <= number <= most
    return number if fits else None


def _unbounded(body: Body, bounds: list[Interval], instr: Instr, rounded: bool) -> int | None:
    """The operand that a bound leaves as it is, or, where it is ``rounded`` at once, the same when rounded."""
    if instr.op not in ("min", "max") or not instr.dtype.is_float:
        return None
    for x, limit in (instr.args, instr.args[::-1]):
        if body.code[limit].op != "const":
            continue
        number, (low, high) = float(body.code[limit].number()), bounds[x]
        beyond = high if instr.op == "min" else low
        if rounded and number.is_integer() and math.isfinite(beyond):
            beyond = round(beyond)
        if beyond <= number if instr.op == "min" else beyond >= number:
            return x
    return None


def _only_rounded(body: Body) -> set[int]:
    """Results that nothing uses but instructions that round them, maybe behind a bound that is a whole number."""
    users: dict[int, list[int]] = {}
    for i, instr in enumerate(body.code):
        for a in instr.args:
            users.setdefault(a, []).append(i)
    found: set[int] = set()
    for i in reversed(range(len(body.code))):
        mine = [] if i in body.outputs else users.get(i, [])
        bounded = len(mine) == 1 and mine[0] in found and _whole_bound(body, mine[0])
        if bounded or (mine and all(body.code[u].op == "round" for u in mine)):
            found.add(i)
    return found


def _whole_bound(body: Body, at: int) -> bool:
    """Whether an instruction bounds by a whole number, with which rounding may change places."""
    instr = body.code[at]
    limits = [body.code[a].number() for a in instr.args if body.code[a].op == "const"]
    return instr.op in ("min", "max") and bool(limits) and float(limits[0]).is_integer()


def _shorter(body: Body, bounds: list[Interval], instr: Instr) -> int | None:
    """An earlier result that an instruction is a cast of (or equal to)."""
    code = body.code
    if instr.op == "sub" and instr.dtype.is_int:
        x, y = (code[a] for a in instr.args)
        if y.op == "const" and y.number() == 0:
            return instr.args[0]
        if x.op == "add" and y.op == "const" and code[x.args[1]] == y:
            return x.args[0]
    if instr.op != "cast":
        return None
    inner = code[instr.args[0]]
    if inner.op != "cast" or not inner.dtype.is_int:
        return None
    source = code[inner.args[0]]
    low, high = bounds[inner.args[0]]
    if source.dtype.is_int and instr.dtype.is_int and inner.dtype.size < source.dtype.size:
        least, most = _range(inner.dtype)
        return inner.args[0] if least <= low and high <= most else None
    rounded = source.op == "round" and source.dtype is DType.F32 and instr.dtype is DType.F32
    least, most = _range(inner.dtype)
    fits = max(least, -_EXACT) <= low and high <= min(most, _EXACT)
    return inner.args[0] if rounded and fits else None


def _range(dtype: DType) -> tuple[float, float]:
    bits = 8 * dtype.size - dtype.is_signed
    return (-float(1 << bits) if dtype.is_signed else 0.0), float((1 << bits) - 1)


def _needed(body: Body) -> set[int]:
    found: set[int] = set()
    stack = list(body.outputs)
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack += body.code[i].args
    return found


__all__ = ["simplified"]
