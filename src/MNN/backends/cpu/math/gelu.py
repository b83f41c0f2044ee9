"""The Gaussian error linear unit in scalar programs: ``x / 2 * (1 + erf(x / sqrt(2)))`` as one computation.

It is ``max(x, 0) - |x| Q(|x|)`` with the normal distribution's tail Q, an even function: no sign has to be put back,
nothing scaled, and where x is negative no ``1 + erf`` loses its digits. Q is a polynomial whose coefficients are picked
from registers, as :func:`MNN.backends.cpu.math.functions.erf` does it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.lang.module import F32, Builder, Value
from MNN.backends.cpu.math import normal_tail as vecmath_tail
from MNN.backends.cpu.math.functions import clamp, fabs, format_of, int_like
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_TABLES = {
    8: vecmath_tail.TAIL_8,
    16: vecmath_tail.TAIL_16,
}
"""By lanes of the registers that it is picked from."""
_LAST = float(np.nextafter(np.float32(vecmath_tail.END), np.float32(0)))
"""The end itself would round up to a piece that there is not."""


@dataclass(frozen=True)
class Gelu:
    """The unit of instruction ``x``; ``inside`` are the instructions that it makes needless."""

    x: int
    inside: tuple[int, ...]

    @property
    def args(self) -> tuple[int, ...]:
        return (self.x,)

    def fits(self, b: Builder, lanes: int) -> bool:
        """Whether it is worth it where the registers are these."""
        return lanes in _TABLES and b.can(can.PICK_F32, 32 * lanes)

    def emit(self, b: Builder, x: Value) -> Value:
        """In f32. An error of 5.2e-8 where the unit is that small, within 2 ulp for positive x; -inf gives about 0."""
        table = _TABLES[x.type.lanes]
        width = vecmath_tail.END / (x.type.lanes - 0.5)
        magic = format_of(x.type).magic
        a = clamp(b, fabs(b, x), None, _LAST)
        t = b.fma(a, 1 / width, magic)
        d = b.fma(b.sub(t, magic), -width, a)
        piece = b.bitcast(t, int_like(x.type))
        picked = [b.perform(can.PICK_F32, x.type, b.const_vector(F32, row), piece) for row in table]
        q = picked[-1]
        for c in picked[-2::-1]:
            q = b.fma(q, d, c)
        positive = clamp(b, x, 0.0, None)
        return b.fma(b.fneg(a), q, positive)


def gelu_at(body: Body, i: int, uses: dict[int, int]) -> Gelu | None:
    """The unit that instruction ``i`` is the result of, as :mod:`MNN.ops.elementwise.unary` writes it."""
    code = body.code
    if code[i].op != "mul":
        return None
    for half, total in (code[i].args, code[i].args[::-1]):
        x = _times(body, half, 0.5)
        if x is None or code[total].op != "add":
            continue
        rest = [a for a in code[total].args if not _is(body, a, 1.0)]
        if len(rest) != 1 or code[rest[0]].op != "erf":
            continue
        scaled = code[rest[0]].args[0]
        inside = (half, total, rest[0], scaled)
        if _times(body, scaled, math.sqrt(0.5)) == x and all(uses[j] == 1 for j in inside):
            return Gelu(x, inside)
    return None


def _is(body: Body, i: int, number: float) -> bool:
    instr = body.code[i]
    return instr.op == "const" and instr.dtype is DType.F32 and math.isclose(instr.number(), number, rel_tol=1e-7)


def _times(body: Body, i: int, number: float) -> int | None:
    """What instruction ``i`` multiplies with ``number``, if that is what it does."""
    instr = body.code[i]
    if instr.op != "mul":
        return None
    for x, factor in (instr.args, instr.args[::-1]):
        if _is(body, factor, number):
            return x
    return None
