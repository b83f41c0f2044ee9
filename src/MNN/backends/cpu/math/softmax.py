"""The exponentials of a softmax in row programs: ``exp(x - max(x))`` of which only the sum, and shares in it, count.

Their arguments are 0 at most and their sum is 1 at least. So no power overflows, and one below 2^-126 may become 0:
that takes two thirds of the instructions of an exponential for any argument. And the greatest element may be any number
where one is NaN, since the sum is NaN then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.math.functions import LOG2_E, clamp, format_of, horner, int_like
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_LOWEST = -88.0
"""From here on the power's exponent is that of 0."""


@dataclass(frozen=True)
class Decay:
    """``exp(y)`` of instruction ``y``."""

    y: int
    inside: tuple[int, ...] = ()

    @property
    def args(self) -> tuple[int, ...]:
        return (self.y,)

    def fits(self, b: Builder, lanes: int) -> bool:
        return True

    def emit(self, b: Builder, y: Value) -> Value:
        """In f32, within 2 ulp for 2^-126 and more, else within 2^-126; 0 for -inf."""
        f = format_of(y.type)
        y = clamp(b, y, _LOWEST, None)
        magic = f.magic + f.bias
        t = b.fma(y, LOG2_E, magic)
        power = b.bitcast(b.shl(b.bitcast(t, int_like(y.type)), f.mantissa), y.type)
        n = b.sub(t, magic)
        r = b.fma(n, -f.ln2_high, y)
        r = b.fma(n, -f.ln2_low, r)
        return b.fma(power, b.fma(b.mul(r, r), horner(b, r, f.table["exp"]), r), power)


def decays(body: Body) -> dict[int, Decay]:
    """Such exponentials of a body, by instruction."""
    return {
        i: Decay(instr.args[0])
        for i, instr in enumerate(body.code)
        if instr.op == "exp" and instr.dtype is DType.F32 and _greatest(body, instr.args[0]) is not None
        if _only_shared(body, i)
    }


def maxima_of_numbers(body: Body) -> set[int]:
    """Maxima that need not be NaN where an element is: nothing but such exponentials depends on them."""
    uses = Counter(a for instr in body.code for a in instr.args)
    uses.update(body.outputs)
    found = set()
    for decay in decays(body).values():
        greatest = _greatest(body, decay.y)
        if greatest is not None and uses[greatest] == uses[decay.y] == 1:
            found.add(greatest)
    return found


def _greatest(body: Body, y: int) -> int | None:
    """The maximum that instruction ``y`` is the distance from, None where it is no such distance."""
    if body.code[y].op != "sub":
        return None
    x, greatest = body.code[y].args
    instr = body.code[greatest]
    return greatest if instr.op == "reduce.max" and instr.args == (x,) else None


def _only_shared(body: Body, i: int) -> bool:
    """Whether instruction ``i`` is summed up, and else only divided by that sum."""
    users = [(j, instr) for j, instr in enumerate(body.code) if i in instr.args]
    sums = {j for j, instr in users if instr.op == "reduce.sum"}
    others = [instr for j, instr in users if j not in sums]
    divided = all(o.op == "div" and o.args[0] == i and o.args[1] in sums for o in others)
    return bool(sums) and divided and i not in body.outputs
