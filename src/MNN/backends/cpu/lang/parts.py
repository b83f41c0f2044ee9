"""An fp32 number as a sum of bf16 numbers, for products of full or nearly full precision on a bf16 matrix unit.

``a = a1 + a2 (+ a3)``, where every part but the last takes 8 bits of what is left. Two parts hold 16 to 17 bits, three
all 24. Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations" (2019), has the idea. With ``parts`` = 1 the number is rounded to the nearest.

No partial products may meet as inf - inf where fp32 has no NaN. So the left side's parts are truncated: they have the
sign of ``a``. The right side's are rounded, which leaves half as much to the later parts, where these are then at most
1, so that their products are finite; numbers from 256 on are truncated too.

What is not finite is held by the last part alone, whose products are with the other side's first part only: a clamp
keeps the parts before it at the largest bf16 (so that nothing is multiplied by zero that was not zero), and the
difference that is left is then the infinity or NaN itself.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.module import I32, Builder, Value
from MNN.backends.cpu.targets.instructions import capability as can

_LARGEST = float.fromhex("0x1.fep127")
"""The largest bf16."""
MEND = 1.0 + 0.0029
"""With two parts the product a2 * b2 is left out. It is 0 to 2^-7 of a1 * b2, and 0.0029 in the mean over mantissas of
the usual (logarithmic) distribution: b2 is enlarged by as much, which leaves less, with a mean of zero."""
_ROUNDED_BELOW = 0x43800000
"""The bits of 256."""


def parts_of(b: Builder, x: Value, parts: int, right: bool = False) -> list[Value]:
    """The parts of a vector of f32 (of the right side?), as f32 of which the last is yet to be rounded to bf16."""
    found = []
    for _ in range(parts - 1):
        t = x.type
        bits = b.bitcast(limited(b, x, _LARGEST), I32.vec(t.lanes))
        if right:
            small = b.icmp("ult", b.and_(bits, 0x7FFFFFFF), _ROUNDED_BELOW)
            bits = b.select(small, b.add(bits, 0x8000), bits)
        bits = b.and_(bits, -0x10000)
        found.append(b.bitcast(bits, t))
        x = b.sub(x, found[-1])
    if right and parts == 2:
        x = b.mul(x, MEND)
    return [*found, x]


def limited(b: Builder, x: Value, largest: float) -> Value:
    """``x``, or the ``largest`` number with its sign where it is larger (or NaN, of any sign)."""
    t = x.type
    if b.can(can.LIMIT_SIZE, t.lanes * t.bits):
        return b.perform(can.LIMIT_SIZE, t, x, b.const(t, largest))
    below = b.select(b.fcmp("olt", x, largest), x, largest)
    return b.select(b.fcmp("ogt", below, -largest), below, -largest)
