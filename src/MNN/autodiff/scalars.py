"""Derivatives of scalar programs, symbolically: a program to one that gives its gradient.

Conventions where a function has no derivative: ``abs`` has 0 at 0; ``max`` and ``min`` of two variables give each half
where both are equal, of a variable and a constant nothing (as torch's relu and relu6), of a constant and a variable, in
this order, the variable all (as its clamp); rounding has 0 everywhere.
A branch that ``select`` did not take gives exactly nothing, also where its derivative is infinite or NaN.
The logistic function ``1 / (1 + exp(-x))`` is one step on the way back: its parts have the derivatives 0 and infinity
where the exponential overflows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from MNN.ir.scalar import Body, BodyBuilder, Instr


class Derivation(BodyBuilder):
    """A builder that leaves out what multiplies by one and adds nothing."""

    def copy(self, instr: Instr) -> int:
        """An instruction as it is."""
        return self._add(instr)

    def instr(self, index: int) -> Instr:
        return self._code[index]

    def is_number(self, index: int, number: float) -> bool:
        found = self._code[index]
        return found.op == "const" and found.number() == number

    def like(self, number: float, index: int) -> int:
        """A constant of the type of another value."""
        return self.const(number, self.dtype(index))

    def mul(self, g: int, v: int) -> int:
        """``g * v``, where ``g`` is an adjoint: what a ``select`` makes zero stays zero, whatever ``v`` is."""
        if self.is_number(g, 1.0):
            return v
        if self.is_number(v, 1.0):
            return g
        return self.masked(g, lambda inner: self("mul", inner, v), lambda: v)

    def div(self, g: int, v: int) -> int:
        """``g / v``, likewise."""
        return self.masked(g, lambda inner: self("div", inner, v), None)

    def masked(self, g: int, fn: Callable[[int], int], one: Callable[[], int] | None) -> int:
        found = self._code[g]
        if found.op != "select":
            return fn(g)
        which, yes, no = found.args
        if self.is_number(yes, 0.0):
            inner = one() if one is not None and self.is_number(no, 1.0) else self.masked(no, fn, one)
            return self("select", which, self.like(0.0, inner), inner)
        if self.is_number(no, 0.0):
            inner = one() if one is not None and self.is_number(yes, 1.0) else self.masked(yes, fn, one)
            return self("select", which, inner, self.like(0.0, inner))
        return fn(g)

    def neg(self, g: int) -> int:
        return self.masked(g, lambda inner: self("neg", inner), None)


D = Derivation
_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)


def _one_minus(d: D, square: int) -> int:
    return d("sub", d.like(1.0, square), square)


def _one_plus(d: D, square: int) -> int:
    return d("add", d.like(1.0, square), square)


def _gauss(d: D, x: int) -> int:
    return d("mul", d.like(_TWO_OVER_ROOT_PI, x), d("exp", d("neg", d("mul", x, x))))


_UNARY: dict[str, Callable[[D, int, int, int], int]] = {
    "neg": lambda d, g, x, y: d.neg(g),
    "abs": lambda d, g, x, y: d.mul(g, d("sign", x)),
    "sqrt": lambda d, g, x, y: d.div(d.mul(g, d.like(0.5, y)), y),
    "rsqrt": lambda d, g, x, y: d.mul(g, d("mul", d.like(-0.5, y), d("mul", y, d("mul", y, y)))),
    "recip": lambda d, g, x, y: d.mul(g, d("neg", d("mul", y, y))),
    "exp": lambda d, g, x, y: d.mul(g, y),
    "exp2": lambda d, g, x, y: d.mul(g, d("mul", d.like(math.log(2.0), y), y)),
    "log": lambda d, g, x, y: d.div(g, x),
    "log1p": lambda d, g, x, y: d.div(g, _one_plus(d, x)),
    "expm1": lambda d, g, x, y: d.mul(g, _one_plus(d, y)),
    "sin": lambda d, g, x, y: d.mul(g, d("cos", x)),
    "cos": lambda d, g, x, y: d.mul(g, d("neg", d("sin", x))),
    "tan": lambda d, g, x, y: d.mul(g, _one_plus(d, d("mul", y, y))),
    "asin": lambda d, g, x, y: d.mul(g, d("rsqrt", _one_minus(d, d("mul", x, x)))),
    "acos": lambda d, g, x, y: d.mul(g, d("neg", d("rsqrt", _one_minus(d, d("mul", x, x))))),
    "atan": lambda d, g, x, y: d.div(g, _one_plus(d, d("mul", x, x))),
    "sinh": lambda d, g, x, y: d.mul(g, d("cosh", x)),
    "cosh": lambda d, g, x, y: d.mul(g, d("sinh", x)),
    "tanh": lambda d, g, x, y: d.mul(g, _one_minus(d, d("mul", y, y))),
    "asinh": lambda d, g, x, y: d.mul(g, d("rsqrt", _one_plus(d, d("mul", x, x)))),
    "acosh": lambda d, g, x, y: d.mul(g, d("rsqrt", d("sub", d("mul", x, x), d.like(1.0, x)))),
    "atanh": lambda d, g, x, y: d.div(g, _one_minus(d, d("mul", x, x))),
    "erf": lambda d, g, x, y: d.mul(g, _gauss(d, x)),
}
"""Adjoint of the operand from that of the result, the operand and the result; what is missing has none."""

_OF_RESULT = frozenset(("exp", "exp2", "sqrt", "rsqrt", "recip"))
"""Functions whose derivative is a product of what they give, so that it need not be computed again. (That of tanh is a
difference, of which little would be left where the result is stored in 16 bits.)"""

Pair = tuple["int | None", "int | None"]


def _product(d: D, g: int, x: int, y: int, out: int) -> Pair:
    return d.mul(g, y), d.mul(g, x)


def _quotient(d: D, g: int, x: int, y: int, out: int) -> Pair:
    share = d.div(g, y)
    return share, d.neg(d.mul(share, out))


def _remainder(rounding: str) -> Callable[[D, int, int, int, int], Pair]:
    def rule(d: D, g: int, x: int, y: int, out: int) -> Pair:
        return g, d.neg(d.mul(g, d(rounding, d("div", x, y))))

    return rule


def _power(d: D, g: int, x: int, y: int, out: int) -> Pair:
    """Of the base ``y * x ** (y - 1)``, 0 for an exponent of 0; of the exponent ``out * log(x)``, 0 for a base of 0."""
    zero = d.like(0.0, x)
    slope = d("mul", y, d("pow", x, d("sub", y, d.like(1.0, y))))
    base = d.mul(d("select", d("eq", y, zero), zero, g), slope)
    exponent = d.mul(d("select", d("eq", x, zero), zero, g), d("mul", out, d("log", x)))
    return base, exponent


def _angle(d: D, g: int, y: int, x: int, out: int) -> Pair:
    """Nothing where both are 0, or so small that their squares are."""
    square = d("add", d("mul", x, x), d("mul", y, y))
    zero = d.like(0.0, square)
    share = d.div(d("select", d("eq", square, zero), zero, g), square)
    return d.mul(share, x), d.neg(d.mul(share, y))


def _extreme(compare: str) -> Callable[[D, int, int, int, int], Pair]:
    def rule(d: D, g: int, x: int, y: int, out: int) -> Pair:
        zero = d.like(0.0, g)
        if d.instr(x).op == "const":
            below = d(compare, x, y)
            return d("select", below, g, zero), d("select", below, zero, g)
        if d.instr(y).op == "const":
            return d("select", d(compare, x, y), g, zero), d("select", d(compare, y, x), g, zero)
        half = d("select", d("eq", x, y), d.mul(g, d.like(0.5, g)), zero)
        return d("select", d(compare, x, y), g, half), d("select", d(compare, y, x), g, half)

    return rule


_BINARY: dict[str, Callable[[D, int, int, int, int], Pair]] = {
    "add": lambda d, g, x, y, out: (g, g),
    "sub": lambda d, g, x, y, out: (g, d.neg(g)),
    "mul": _product,
    "div": _quotient,
    "mod": _remainder("floor"),
    "rem": _remainder("trunc"),
    "pow": _power,
    "atan2": _angle,
    "max": _extreme("gt"),
    "min": _extreme("lt"),
}


def _active(body: Body, wrt: int) -> list[bool]:
    """Which results change smoothly with an operand."""
    found: list[bool] = []
    for instr in body.code:
        smooth = instr.dtype.is_float and any(found[a] for a in instr.args)
        if instr.op == "select":
            smooth = instr.dtype.is_float and any(found[a] for a in instr.args[1:])
        known = instr.op in _UNARY or instr.op in _BINARY or instr.op in ("select", "fma", "cast")
        found.append(instr.value == wrt if instr.op == "arg" else smooth and known)
    return found


def _logistic(body: Body, index: int) -> int | None:
    """The operand of a logistic function, if that is what an instruction completes."""

    def made_by(op: str, args: tuple[int, ...]) -> tuple[int, ...]:
        return next((body.code[a].args for a in args if body.code[a].op == op), ())

    terms = made_by("add", body.code[index].args) if body.code[index].op == "recip" else ()
    ones = [a for a in terms if body.code[a].op == "const" and body.code[a].number() == 1.0]
    exponent = made_by("neg", made_by("exp", terms)) if ones else ()
    return exponent[0] if exponent else None


@functools.lru_cache(maxsize=4096)
def gradient(body: Body, wrt: int, outputs: tuple[int, ...]) -> tuple[Body, tuple[int, ...]] | None:
    """The program that gives the adjoint of operand ``wrt`` from the operands of ``body``, behind them adjoints of the
    ``outputs`` (numbers of its results) in their order, and behind these all results; and which of these operands it
    takes. None where the results do not change with it."""
    active = _active(body, wrt)
    if not any(active[body.outputs[o]] for o in outputs):
        return None
    d = Derivation()
    here: list[int] = []
    for dtype in body.args:
        d.arg(dtype)
    seeds = [d.arg(body.code[body.outputs[o]].dtype) for o in outputs]
    results = {o: d.arg(body.code[o].dtype) for o in body.outputs}
    for instr in body.code:
        here.append(d.copy(Instr(instr.op, tuple(here[a] for a in instr.args), instr.dtype, instr.value)))
    adjoint: dict[int, int] = {}

    def give(index: int, g: int | None) -> None:
        if g is not None and active[index]:
            adjoint[index] = d("add", adjoint[index], g) if index in adjoint else g

    for o, seed in zip(outputs, seeds, strict=True):
        give(body.outputs[o], seed)
    for index in range(len(body.code) - 1, -1, -1):
        instr, g = body.code[index], adjoint.get(index)
        if g is None or instr.op in ("arg", "const"):
            continue
        x = [here[a] for a in instr.args]
        if (inner := _logistic(body, index)) is not None:
            give(inner, d.mul(g, d("mul", here[index], _one_minus(d, here[index]))))
        elif instr.op in _UNARY:
            known = results if instr.op in _OF_RESULT else {}
            give(instr.args[0], _UNARY[instr.op](d, g, x[0], known.get(index, here[index])))
        elif instr.op in _BINARY:
            for a, part in zip(instr.args, _BINARY[instr.op](d, g, x[0], x[1], here[index]), strict=True):
                give(a, part)
        elif instr.op == "select":
            give(instr.args[1], d("select", x[0], g, d.like(0.0, g)))
            give(instr.args[2], d("select", x[0], d.like(0.0, g), g))
        elif instr.op == "fma":
            give(instr.args[0], d.mul(g, x[1]))
            give(instr.args[1], d.mul(g, x[0]))
            give(instr.args[2], g)
        elif instr.op == "cast":
            give(instr.args[0], d.cast(g, body.code[instr.args[0]].dtype))
    argument = next(i for i, instr in enumerate(body.code) if instr.op == "arg" and instr.value == wrt)
    if argument not in adjoint:
        return None
    return pruned(d.build(adjoint[argument]))


def pruned(body: Body) -> tuple[Body, tuple[int, ...]]:
    """The same program without what its results do not depend on, and the operands that are left."""
    needed: set[int] = set()
    stack = list(body.outputs)
    while stack:
        index = stack.pop()
        if index not in needed:
            needed.add(index)
            stack += body.code[index].args
    used = sorted(_operand(body.code[i]) for i in needed if body.code[i].op == "arg")
    d = Derivation()
    here: dict[int, int] = {}
    for number in used:
        d.arg(body.args[number])
    for i, instr in enumerate(body.code):
        if i in needed:
            value: bytes | int = used.index(_operand(instr)) if instr.op == "arg" else instr.value
            here[i] = d.copy(Instr(instr.op, tuple(here[a] for a in instr.args), instr.dtype, value))
    return d.build(*[here[o] for o in body.outputs]), tuple(used)


def _operand(instr: Instr) -> int:
    assert isinstance(instr.value, int)
    return instr.value


__all__ = ["gradient", "pruned"]
