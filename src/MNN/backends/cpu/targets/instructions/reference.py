"""What instructions compute, in numpy: one function a capability, on whole vectors of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def dot_integers(total: Array, a: Array, b: Array) -> Array:
    """``total`` (i32) and the products of neighbouring groups, as many as one of its lanes has; wraps around."""
    sums = (a.astype(np.int64) * b.astype(np.int64)).reshape(total.size, -1).sum(1)
    return np.asarray((total + sums).astype(np.int32))


def dot_bf16(total: Array, a: Array, b: Array) -> Array:
    """``total`` (f32) and the products of neighbouring pairs of bf16, odd ones first, each sum rounded."""
    products = a.astype(np.float32) * b.astype(np.float32)
    return np.asarray((total + products[1::2]) + products[::2])


def pairs(a: Array, b: Array) -> Array:
    """Sums of two neighbouring products of i16, in i32."""
    return np.asarray((a.astype(np.int32) * b.astype(np.int32)).reshape(-1, 2).sum(1, dtype=np.int32))


def pairs_of_bytes(a: Array, b: Array) -> Array:
    """Sums of two neighbouring products of u8 by i8, in i16, saturated."""
    sums = (a.astype(np.int32) * b.astype(np.int32)).reshape(-1, 2).sum(1)
    return np.asarray(np.clip(sums, -(1 << 15), (1 << 15) - 1).astype(np.int16))


def with_signs(a: Array, b: Array) -> Array:
    """``a`` (i8) negated where ``b`` is negative, zero where that is zero; -128 stays."""
    return (a * np.sign(b)).astype(np.int8)


def packed(a: Array, b: Array) -> Array:
    """i32 to i16, saturated: groups of four of ``a`` and of ``b`` in turns."""
    return _narrowed(a, b, np.int16)


def packed_unsigned(a: Array, b: Array) -> Array:
    """i16 to u8, saturated: groups of eight of ``a`` and of ``b`` in turns, given as bytes."""
    return _narrowed(a, b, np.uint8).view(np.int8)


def packed_signed(a: Array, b: Array) -> Array:
    """i16 to i8, saturated: groups of eight of ``a`` and of ``b`` in turns."""
    return _narrowed(a, b, np.int8)


def _narrowed(a: Array, b: Array, to: type[np.integer[Any]]) -> Array:
    count, info = 16 // a.itemsize, np.iinfo(to)
    both = np.stack([a.reshape(-1, count), b.reshape(-1, count)], 1).reshape(-1)
    return np.asarray(np.clip(both, info.min, info.max).astype(to))


def picked(table: Array, index: Array) -> Array:
    """``table[index]``; only the low bits of an index count."""
    return np.asarray(table[index & (table.size - 1)])


def picked_of_two(first: Array, index: Array, second: Array) -> Array:
    """Entries of two tables in a row; only the low bits of an index count."""
    both = np.concatenate([first, second])
    return np.asarray(both[index.view(np.uint8) & (both.size - 1)])


def picked_within(table: Array, index: Array) -> Array:
    """Entries of parts of 16 bytes, by the low bits of indices into the same part; zeros where these are negative."""
    found = np.take_along_axis(table.reshape(-1, 16), index.reshape(-1, 16).astype(np.intp) & 15, -1).reshape(-1)
    return np.where(index < 0, 0, found).astype(table.dtype)


def scaled(x: Array, n: Array) -> Array:
    """``x * 2^floor(n)``."""
    return np.ldexp(x, np.floor(n).astype(np.int64))


def reciprocal(x: Array) -> Array:
    """``1 / x``, of which an instruction may miss 2^-14."""
    return np.asarray(1 / x)


def limited(x: Array, largest: Array) -> Array:
    """What is smaller in size of ``x`` and ``largest``, with the sign of ``x``."""
    return np.copysign(np.minimum(np.abs(x), np.abs(largest)), x)


def to_bf16(x: Array) -> Array:
    """f32 to bf16, to the nearest, ties to even."""
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16)


def two_to_bf16(high: Array, low: Array) -> Array:
    """Two vectors of f32 in one of bf16, ``low`` first."""
    return to_bf16(np.concatenate([low, high]))


def tile_product(c: Array, a: Array, b: Array) -> Array:
    """``c[m, n] += a[m, 2k] b[k, 2n] + a[m, 2k + 1] b[k, 2n + 1]``: 16-bit floats, f32 sums."""
    left = a.astype(np.float32).reshape(a.shape[0], -1, 2)
    right = b.astype(np.float32).reshape(left.shape[1], -1, 2)
    return np.asarray(c + np.einsum("mkp,knp->mn", left, right))


def tile_of_bytes(c: Array, a: Array, b: Array) -> Array:
    """``c[m, n] += sum over p < 4 of a[m, 4k + p] b[k, 4n + p]``: bytes, i32 sums."""
    left = a.astype(np.int32).reshape(a.shape[0], -1, 4)
    right = b.astype(np.int32).reshape(left.shape[1], -1, 4)
    return np.asarray(c + np.einsum("mkp,knp->mn", left, right))


def rows(memory: Array, stride: int) -> Array:
    """16 rows of 64 bytes, ``stride`` bytes apart."""
    return np.stack([memory[i * stride : i * stride + 64] for i in range(16)])


def halves(x: Array) -> Array:
    """f16 to f32."""
    return x.astype(np.float32)


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` of f16, rounded once."""
    return (x.astype(np.float64) * y + z).astype(x.dtype)


def gathered(memory: Array, index: Array) -> Array:
    """Elements of 32 or 64 bits from anywhere in memory."""
    return np.asarray(memory[index])


def masked(memory: Array, mask: Array) -> Array:
    """Elements where the mask has a one, zeros elsewhere; nothing else of memory is touched."""
    return np.where(mask, memory, 0)


def moved(x: Array, index: Array) -> Array:
    """Bytes in any order that is known beforehand, within 16 of them or all."""
    return np.asarray(x[index])


def greater(x: Array, y: Array) -> Array:
    """``x`` where it is greater, else ``y``, which NaN on either side gives."""
    return np.where(x > y, x, y)


def saturated(x: Array) -> Array:
    """f32 truncated to i32, saturated; NaN gives 0."""
    limits = np.iinfo(np.int32)
    whole = np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max)
    return np.trunc(whole).astype(np.int32)
