"""Logistic gates in scalar programs: ``z / (1 + exp(+-y))`` as one computation.

Sigmoid, SiLU and what exporters write for them are an exponential whose sum with 1 is divided by. The sum drowns what a
power below 2^-126 adds, and a sum that is infinite gives the right quotient, 0; so that neither subnormal powers nor
two-step scaling is needed, and one division does the work of a reciprocal and a product.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.math.functions import LOG2_E, clamp, format_of, horner, int_like
from MNN.backends.cpu.math.gelu import Gelu, gelu_at
from MNN.backends.cpu.math.high_products import HighProduct, high_products
from MNN.backends.cpu.math.softmax import Decay, decays
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr


@dataclass(frozen=True)
class Gate:
    """``numerator / (1 + exp(y))``, of instructions' numbers; the numerator is 1 where it is None. With ``negative`` it
    is ``exp(-y)``. ``inside`` are the instructions that it makes needless."""

    numerator: int | None
    y: int
    negative: bool
    inside: tuple[int, ...]

    @property
    def args(self) -> tuple[int, ...]:
        return (self.y,) if self.numerator is None else (self.y, self.numerator)

    def fits(self, b: Builder, lanes: int) -> bool:
        return True

    def emit(self, b: Builder, y: Value, numerator: Value | None = None) -> Value:
        return emit_gate(b, numerator, y, self.negative)


Part = Gate | Gelu | Decay | HighProduct


def fused_parts(body: Body) -> dict[int, Part]:
    """What is computed in another way than instruction by instruction, by the one that it is the result of."""
    uses = _uses(body)
    units = {i: gelu_at(body, i, uses) for i, instr in enumerate(body.code) if instr.dtype is DType.F32}
    found = {i: unit for i, unit in units.items() if unit is not None}
    return {**gates(body), **decays(body), **high_products(body), **found}


def _uses(body: Body) -> Counter[int]:
    uses = Counter(a for instr in body.code for a in instr.args)
    uses.update(body.outputs)
    return uses


def gates(body: Body) -> dict[int, Gate]:
    """The gates of a body by the instruction that they are the result of."""
    uses = _uses(body)
    found: dict[int, Gate] = {}
    for i, instr in enumerate(body.code):
        if instr.dtype is not DType.F32:
            continue
        if instr.op == "recip":
            gate = _gate(body, uses, None, instr.args[0])
        elif instr.op == "div":
            top = instr.args[0]
            gate = _gate(body, uses, None if _is_one(body.code[top]) else top, instr.args[1])
        elif instr.op == "mul":
            gate = _product(body, uses, found, instr)
        else:
            gate = None
        if gate is not None:
            found[i] = gate
    return found


def _is_one(instr: Instr) -> bool:
    return instr.op == "const" and instr.number() == 1.0


def _gate(body: Body, uses: Counter[int], numerator: int | None, below: int) -> Gate | None:
    """The gate whose denominator is instruction ``below``."""
    total = body.code[below]
    if total.op != "add" or uses[below] > 1:
        return None
    powers = [a for a in total.args if not _is_one(body.code[a])]
    if len(powers) != 1 or body.code[powers[0]].op != "exp" or uses[powers[0]] > 1:
        return None
    y = body.code[powers[0]].args[0]
    if body.code[y].op != "neg":
        return Gate(numerator, y, False, (below, powers[0]))
    hidden = (y,) if uses[y] == 1 else ()
    return Gate(numerator, body.code[y].args[0], True, (below, powers[0], *hidden))


def _product(body: Body, uses: Counter[int], found: dict[int, Gate], instr: Instr) -> Gate | None:
    """A product with a sigmoid that nothing else needs."""
    for gate, other in (instr.args, instr.args[::-1]):
        inner = found.get(gate)
        if inner is not None and inner.numerator is None and uses[gate] == 1 and other != gate:
            return Gate(other, inner.y, inner.negative, (gate, *inner.inside))
    return None


def emit_gate(b: Builder, numerator: Value | None, y: Value, negative: bool) -> Value:
    """``numerator / (1 + e^y)``, or with ``e^-y``, in f32: within 2 ulp, with C's values for infinities and NaN.

    ``e^y = 2^(n - 1) * 2 e^r`` with ``y = n ln2 + r``: both factors are normal numbers from -87 on, and their product
    overflows where it has to. The power's exponent comes out of the rounding with its bias added.
    """
    f = format_of(y.type)
    sign = -1.0 if negative else 1.0
    low, high = (-89.0, 87.0) if negative else (-87.0, 89.0)
    y = clamp(b, y, low, high)
    magic = f.magic + f.bias - 1
    t = b.fma(y, sign * LOG2_E, magic)
    power = b.bitcast(b.shl(b.bitcast(t, int_like(y.type)), f.mantissa), y.type)
    n = b.sub(t, magic)
    r = b.fma(n, -f.ln2_high, b.fneg(y) if negative else y)
    r = b.fma(n, -f.ln2_low, r)
    p = b.fma(b.mul(r, r), horner(b, r, f.table["exp"]), r)
    return b.fdiv(1.0 if numerator is None else numerator, b.fma(power, b.fma(p, 2.0, 2.0), 1.0))
