"""Products of i32 numbers with factors of 31 bits, rounded: ``(x * y + 2^30) / 2^31`` as one computation.

Written instruction by instruction all numbers of a vector are widened to 64 bits and narrowed again, across the vector.
Where a processor multiplies the lower halves of 64-bit lanes, numbers at even and at odd places stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.module import I32, I64, Builder, Value
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr

_POINT = 31


@dataclass(frozen=True)
class HighProduct:
    """Of two instructions' results; ``inside`` are the instructions that it makes needless."""

    x: int
    y: int
    inside: tuple[int, ...]

    @property
    def args(self) -> tuple[int, ...]:
        return (self.x, self.y)

    def fits(self, b: Builder, lanes: int) -> bool:
        return lanes % 2 == 0 and b.can(can.PAIRS_I16)

    def emit(self, b: Builder, x: Value, y: Value) -> Value:
        lanes, half = x.type.lanes, x.type.lanes // 2
        odds = [b.shuffle(v, None, [i | 1 for i in range(lanes)]) for v in (x, y)]

        def rounded(factors: Sequence[Value]) -> Value:
            wide = [b.ashr(b.shl(b.bitcast(v, I64.vec(half)), 32), 32) for v in factors]
            return b.add(b.mul(*wide), 1 << (_POINT - 1))

        even, odd = rounded((x, y)), rounded(odds)
        parts = [b.bitcast(b.lshr(v, _POINT), I32.vec(lanes)) for v in (even, odd)]
        return b.shuffle(parts[0], parts[1], [i // 2 * 2 + lanes * (i % 2) for i in range(lanes)])


def high_products(body: Body) -> dict[int, HighProduct]:
    """Those of a body by the instruction that they are the result of."""
    found = {}
    for i, instr in enumerate(body.code):
        product = _product_at(body, i, instr)
        if product is not None:
            found[i] = product
    return found


def _product_at(body: Body, i: int, instr: Instr) -> HighProduct | None:
    chain = [i]
    for op, number in (("cast", None), ("shr", _POINT), ("add", 1 << (_POINT - 1))):
        if instr.op != op or (number is not None and not _is(body.code[instr.args[1]], number)):
            return None
        chain.append(instr.args[0])
        instr = body.code[chain[-1]]
    factors = [body.code[a] for a in instr.args]
    if instr.op != "mul" or instr.dtype is not DType.I64 or body.code[i].dtype is not DType.I32:
        return None
    if any(f.op != "cast" or body.code[f.args[0]].dtype is not DType.I32 for f in factors):
        return None
    x, y = (f.args[0] for f in factors)
    return HighProduct(x, y, (*chain[1:], *instr.args))


def _is(instr: Instr, number: int) -> bool:
    return instr.op == "const" and instr.number() == number


__all__ = ["HighProduct", "high_products"]
