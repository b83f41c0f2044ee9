"""Instructions that sum several neighbouring products at once: what they multiply, and how B is packed for them.

Such an instruction takes, for every lane of the sums, a *group* of neighbouring values along the summed dimension from
both sides: two bf16 values (AVX512-BF16's ``vdpbf16ps``, AArch64's ``bfdot``) in the 32 bits of an f32 sum. A group of
A is read from where it lies, since channels are innermost, and spread over the vector; B is packed in groups,
``[K / group, NR, group]``. Groups never reach over the end of A's run: its last values are read alone and B has zeros
there.

Four 8-bit integers are summed in an i32, see :mod:`MNN.backends.cpu.products.dot8`.
"""

from __future__ import annotations

from MNN.backends.cpu.lang.module import BF16, I16, I32, Builder, Value
from MNN.backends.cpu.products.dot8 import DOT4, has_dot4, in_halves
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

DOT2 = 2


def group_of(target: Target, a: DType, acc: DType = DType.F32) -> int:
    """How many neighbouring products of ``a`` values one instruction of the target sums up; 1 where there is none."""
    if a is DType.BF16 and acc is DType.F32 and target.can(can.DOT2_BF16):
        return DOT2
    return DOT4 if a in (DType.I8, DType.U8) and has_dot4(target) else 1


def step_ratio(target: Target, group: int = DOT2) -> float:
    """Time of such an instruction relative to an FMA: processors with AMX leave products of bf16 to it, and of four
    bytes in halves there are two."""
    if group == DOT4 and in_halves(target):
        return 2.0
    return 4.0 if group == DOT2 and target.can(can.TILE_DOT_BF16) else 1.0


def load_group(b: Builder, pointer: Value, lanes: int) -> Value:
    """The pair of 16-bit values, or the four 8-bit ones, at ``pointer`` in every 32-bit lane."""
    return b.splat(b.load(I32, pointer, align=1), lanes)


def load_run(b: Builder, pointer: Value, lanes: int, group: int) -> Value:
    """``lanes`` neighbouring groups, of which :func:`dot` may take one for all lanes (AArch64)."""
    if group != DOT2:
        return b.load(I32.vec(lanes), pointer, align=1)
    pairs = BF16.vec(DOT2 * lanes)
    # LLVM would forget that these are bf16, and then not find the instruction that takes a lane.
    return b.intrinsic("arithmetic.fence", b.load(pairs, pointer, align=2))


def load_rest(b: Builder, pointer: Value, lanes: int) -> Value:
    """The last value of a run whose length is odd, and a zero, in every 32-bit lane."""
    return b.splat(b.convert("zext", b.load(I16, pointer), I32), lanes)


def interleave(b: Builder, parts: list[Value], group: int) -> Value:
    """Vectors of 16-bit (8-bit) values as groups of two (four), lane by lane; zeros in place of those missing."""
    wide = I32.vec(parts[0].type.lanes)
    out = b.convert("zext", parts[0], wide)
    for i, part in enumerate(parts[1:], 1):
        out = b.or_(out, b.shl(b.convert("zext", part, wide), i * 32 // group))
    return out


def dot(b: Builder, total: Value, left: Value, right: Value) -> Value:
    """``total`` and the products of the pairs of bf16 in two vectors of 32-bit lanes.

    Each product and sum is rounded (x86: to nearest even; AArch64: to odd, but for processors with FEAT_EBF16, which
    sum the two products exactly); subnormal numbers count as zero (Intel, "BFLOAT16 - Hardware Numerics Definition",
    2018; "Arm Architecture Reference Manual", BFDOT).
    """
    pairs = BF16.vec(2 * total.type.lanes)
    factors = [b.bitcast(v, pairs) for v in (right, left)]  # the second may come from memory, spread on the way
    return b.perform(can.DOT2_BF16, total.type, total, *factors)
