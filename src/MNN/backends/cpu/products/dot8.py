"""Products of 8-bit integers, four to an i32: what each processor has for them, always with the exact result.

- Where the processor sums four products at once, its instruction multiplies unsigned values of A by signed ones of B,
  or signed ones by signed, or there are both. Where A's type is the other one its values are *moved* by 128 (the top
  bit flips), and the sums start from B's column sums times -128 or 128 to make up for it.
- Where it sums pairs of products of unsigned by signed bytes in 16 bits, values of A moved by -128 lend their signs to
  those of B: 128 * 127 * 2 fits (:func:`dot_by_signs`; B must not hold -128, which has no opposite).
- Where it sums pairs of 16-bit products, the bytes at even and at odd places are widened to 16 bits. (Instructions for
  pairs of bytes would saturate.) Where B is constant and A has more than a few rows both are widened beforehand, and
  pairs of 16-bit values are multiplied (:func:`uses_int16_dot`): twice the rate of f32.

B is always signed. Panels of B in groups of four begin with ``nr`` i32 numbers: what the sums start from.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Builder, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

DOT4 = 4
_FLIP = 0x80808080


def has_dot4(target: Target) -> bool:
    """Whether the target sums four products of 8-bit integers faster than one at a time."""
    return _dots(target) or target.can(can.PAIRS_I16)


def _dots(target: Target) -> bool:
    """Whether there is an instruction for four bytes, of whatever signs."""
    return target.can(can.DOT4_UNSIGNED) or target.can(can.DOT4_SIGNED)


def in_halves(target: Target) -> bool:
    """Whether both sides are taken apart into 16-bit values first."""
    return target.can(can.PAIRS_I16) and not _dots(target)


def can_lend_signs(target: Target) -> bool:
    """Whether :func:`dot_by_signs` is the fastest way."""
    return in_halves(target) and target.can(can.PAIRS_BYTES) and target.can(can.SIGN_BYTES)


FEW_ROWS = 4
"""Rows of A up to which the bytes that B takes weigh more than taking them apart."""


def uses_int16_dot(target: Target, rows: int) -> bool:
    """Whether bytes of A and constant ones of B are better widened to 16 bits once, and multiplied in pairs."""
    return in_halves(target) and rows > FEW_ROWS


def moved(target: Target, a: DType) -> int:
    """What is added to the values of A (0, 128 or -128) so that the instruction takes them."""
    if not _dots(target) or a not in (DType.I8, DType.U8):
        return 0
    if a is DType.I8:
        return 0 if target.can(can.DOT4_SIGNED) else 128
    return 0 if target.can(can.DOT4_UNSIGNED) else -128


def pack_dot4(matrix: npt.NDArray[np.int8], nr: int, run: int, shift: int) -> npt.NDArray[np.int8]:
    """B ``[..., K, N]`` in panels ``[..., ceil(N / nr), nr * 4 + K' * nr]``, where K' is K with every run of ``run``
    values filled up to a multiple of four with zeros: first the i32 starts of the sums, for values of A moved by
    ``shift`` (see :func:`moved`), then ``[K' / 4, nr, 4]``.
    """
    *lead, k, n = matrix.shape
    panels, steps = -(-n // nr), -(-run // DOT4)
    wide = np.zeros((*lead, k // run, steps * DOT4, panels * nr), np.int8)
    wide[..., :run, :n] = matrix.reshape(*lead, k // run, run, n)
    rows = k // run * steps
    dot4 = wide.reshape(*lead, rows, DOT4, panels, nr)
    axes = len(lead)
    order = (*range(axes), axes + 2, axes, axes + 3, axes + 1)
    body = dot4.transpose(order).reshape(*lead, panels, rows * nr * DOT4)
    starts = np.zeros((*lead, panels * nr), np.int32)
    starts[..., :n] = -shift * matrix.sum(-2, dtype=np.int32)
    head = starts.reshape(*lead, panels, nr).view(np.int8)
    return np.concatenate([head, body], axis=-1)


def pack_int16(matrix: npt.NDArray[np.int16], nr: int, run: int) -> npt.NDArray[np.int16]:
    """B ``[..., K, N]`` in panels of pairs ``[..., ceil(N / nr), K' / 2, nr, 2]``, where K' is K with every run of
    ``run`` values filled up to an even number with a zero."""
    *lead, k, n = matrix.shape
    panels, steps = -(-n // nr), -(-run // 2)
    wide = np.zeros((*lead, k // run, steps * 2, panels * nr), np.int16)
    wide[..., :run, :n] = matrix.reshape(*lead, k // run, run, n)
    pairs = wide.reshape(*lead, k // run * steps, 2, panels, nr)
    axes = len(lead)
    packed: npt.NDArray[np.int16] = pairs.transpose(*range(axes), axes + 2, axes, axes + 3, axes + 1)
    return packed


def dot_int16(b: Builder, target: Target, total: Value, left: Value, right: Value) -> Value:
    """``total`` and the products of the pairs of 16-bit integers in two vectors of 32-bit lanes (x86). Sums that do not
    fit wrap around."""
    pairs = I16.vec(2 * total.type.lanes)
    if target.can(can.DOT2_I16, 32 * total.type.lanes):
        return b.perform(can.DOT2_I16, total.type, total, b.bitcast(right, pairs), b.bitcast(left, pairs))
    return b.add(total, multiply_pairs(b, b.bitcast(left, pairs), b.bitcast(right, pairs)))


def load_rest(b: Builder, pointer: Value, left: Value, lanes: int) -> Value:
    """The ``left`` (1 to 3, i64) last values of a run in every lane; what stands for the others is any number."""
    out = b.convert("zext", b.load(I8, pointer), I32)
    for i in (1, 2):
        at = b.intrinsic("smin", left - 1, b.const(I64, i))
        out = b.or_(out, b.shl(b.convert("zext", b.load(I8, b.gep(pointer, I8, at)), I32), 8 * i))
    return b.splat(out, lanes)


def _halves(b: Builder, x: Value, signed: bool) -> list[Value]:
    """The bytes at even and at odd places as 16-bit values."""
    pairs = b.bitcast(x, I16.vec(2 * x.type.lanes))
    if not signed:
        return [b.and_(pairs, 0xFF), b.lshr(pairs, 8)]
    return [b.ashr(b.shl(pairs, 8), 8), b.ashr(pairs, 8)]


def prepare_a(b: Builder, target: Target, a: DType, dot4: Value) -> list[Value]:
    """Groups of A as :func:`dot` takes them."""
    if in_halves(target):
        return _halves(b, dot4, a is DType.I8)
    return [b.xor(dot4, _FLIP) if moved(target, a) else dot4]


def prepare_b(b: Builder, target: Target, dot4: Value) -> list[Value]:
    """Groups of B as :func:`dot` takes them."""
    return _halves(b, dot4, True) if in_halves(target) else [dot4]


def multiply_pairs(b: Builder, x: Value, y: Value) -> Value:
    """Sums of neighbouring products of 16-bit integers, in i32 (x86)."""
    return b.perform(can.PAIRS_I16, I32.vec(x.type.lanes // 2), x, y)


def multiply_add(b: Builder, target: Target, total: Value, x: Value, y: Value) -> Value:
    """``total + x * y`` of i32 numbers that fit in 16 bits, faster than products of 32 bits (x86)."""
    pairs = I16.vec(2 * total.type.lanes)
    left, right = b.bitcast(x, pairs), b.bitcast(b.and_(y, 0xFFFF), pairs)  # one of the products of a pair is zero
    if target.can(can.DOT2_I16, 32 * total.type.lanes):
        return b.perform(can.DOT2_I16, total.type, total, left, right)
    return b.add(total, multiply_pairs(b, left, right))


def dot(b: Builder, target: Target, a: DType, total: Value, left: list[Value], right: list[Value]) -> Value:
    """``total`` and the products of the groups of four."""
    if in_halves(target):
        for x, y in zip(left, right, strict=True):
            total = b.add(total, multiply_pairs(b, x, y))
        return total
    lanes = total.type.lanes
    x, y = (b.bitcast(v[0], I8.vec(4 * lanes)) for v in (left, right))
    signed = (a is DType.I8) != bool(moved(target, a))
    return b.perform(can.DOT4_SIGNED if signed else can.DOT4_UNSIGNED, total.type, total, x, y)


def dot_by_signs(b: Builder, total: Value, left: list[Value], right: Value) -> Value:
    """``total`` and the products of the groups of four bytes, those of ``left``, and how large they are, being moved by
    -128; none on the right is -128."""
    x, size = left
    weights = b.perform(can.SIGN_BYTES, x.type, b.bitcast(right, x.type), x)
    pairs = b.perform(can.PAIRS_BYTES, I16.vec(2 * total.type.lanes), size, weights)
    return b.add(total, multiply_pairs(b, pairs, b.const(pairs.type, 1)))
