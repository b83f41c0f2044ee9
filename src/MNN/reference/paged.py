"""The reference implementation of attention over a cache in pages."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType

KEY_CODE, KEY_NORM = 32700, 65000
"""The largest code of a key in 16 bits, and the largest Euclidean norm of those of a head: no sum of products with
codes of a query overflows an i32 whose own norm is limited to 2^31 / KEY_NORM (Cauchy and Schwarz)."""
VALUE_NORM = 65500
"""The same of the codes that one column of values has in all tokens of a page."""
NOTHING = 1e-30
"""Numbers that are all smaller are zeros in codes of 16 bits."""
Types = Sequence[tuple[DType, tuple[int, ...]]]
Array = np.ndarray


def largest_value(page: int) -> int:
    """The largest code of a value in 16 bits, in pages of so many tokens."""
    return min(int(VALUE_NORM / sqrt(page)), 32767)


def cache_write(prim: p.CacheWrite, x: Sequence[Array], types: Types) -> list[Array]:
    """The pools with the new tokens put in; see :class:`MNN.ir.prims.CacheWrite`."""
    *given, k, v, places = x
    pools = [np.array(pool) for pool in given]
    length = pools[0].shape[3]
    scales = iter(pools[2:])
    for pool, bits, rows, turned in ((pools[0], prim.key_bits, k, True), (pools[1], prim.value_bits, v, False)):
        scale = next(scales) if bits else None
        plain = apart(pool) if bits else pool
        for t, place in enumerate(places.tolist()):
            if not 0 <= place < len(pool) * length:
                continue
            page, at = divmod(place, length)
            codes, parts = coded(rows[t], pool.dtype, bits, pool.shape[2 if turned else 3], 0 if turned else length)
            into = plain[page, :, :, at] if turned else plain[page, :, at, :]
            into[:, : codes.shape[1]] = codes
            if scale is not None:
                scale[page, :, :, at] = parts
        if bits:
            pool[:] = paired(plain)
    return pools


def paired(pool: Array) -> Array:
    """A pool ``[P, G, R, C]`` with each two rows side by side, element by element, in its own shape."""
    pages, groups, rows, columns = pool.shape
    return np.asarray(pool.reshape(pages, groups, rows // 2, 2, columns).swapaxes(3, 4).reshape(pool.shape))


def apart(pool: Array) -> Array:
    """The pool of which :func:`paired` made this one."""
    pages, groups, rows, columns = pool.shape
    return np.asarray(pool.reshape(pages, groups, rows // 2, columns, 2).swapaxes(3, 4).reshape(pool.shape))


def coded(rows: Array, dtype: np.dtype, bits: int, held: int, page: int) -> tuple[Array, Array]:
    """Rows ``[G, D]`` as a pool with ``held`` elements for each has them, and their scales ``[G, 1]`` or ``[G, 2]``.
    ``page``: tokens of a page of values; 0 for keys."""
    if not bits:
        most = 65504 if dtype == np.float16 else np.inf
        return np.clip(rows, -most, most).astype(dtype), np.zeros((len(rows), 0))
    if bits == 16:
        largest = np.abs(rows).max(1, keepdims=True)
        some = np.where(largest < NOTHING, np.float32(np.inf), largest)
        factor = np.float32(largest_value(page) if page else KEY_CODE) / some
        if not page:
            norm = np.sqrt(((rows / some) ** 2).sum(1, keepdims=True))
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.where(largest < NOTHING, 0, np.fmin(factor, np.float32(KEY_NORM) / (norm * some)))
        scale = np.divide(np.float32(1), factor, out=np.zeros_like(factor), where=factor != 0)
        return np.rint(rows * factor).astype(np.int16), scale
    low, high = rows.min(1), rows.max(1)
    top = np.float32((1 << bits) - 1)
    span = high - low
    inverse = np.divide(top, span, out=np.zeros_like(span), where=span > 0)
    codes = ((rows - low[:, None]) * inverse[:, None] + np.float32(0.5)).astype(np.int32).astype(np.uint8)
    if bits == 4:
        upper = codes[:, held:] << 4
        codes = codes[:, :held]
        codes[:, : upper.shape[1]] |= upper
    return codes, np.stack([span / top, low], 1)


def decoded(pool: Array, scale: Array | None, bits: int, turned: bool) -> Array:
    """The numbers of a pool, f32 ``[P, G, L, D']``."""
    plain = apart(pool) if bits else pool
    rows = plain.swapaxes(2, 3) if turned else plain
    if scale is None:
        return rows.astype(np.float32)
    if bits == 4:
        rows = np.concatenate([rows & 15, rows >> 4], 3)
    found: Array = scale[:, :, 0, :, None] * rows.astype(np.float32)
    return found if bits == 16 else scale[:, :, 1, :, None] + found


def paged_attention(prim: p.PagedAttention, x: Sequence[Array], types: Types) -> list[Array]:
    """See :class:`MNN.ir.prims.PagedAttention`; tokens of no tile get zeros."""
    q, keys, values, *scales, table, tiles = x
    found = np.zeros(types[0][1], np.float32)
    some = iter(scales)
    k = decoded(keys, next(some) if prim.key_bits else None, prim.key_bits, True)[..., : q.shape[2]]
    v = decoded(values, next(some) if prim.value_bits else None, prim.value_bits, False)
    (_, groups, length, _), heads = k.shape, q.shape[1]
    for first, count, begin, position in tiles.tolist():
        for i in range(count):
            past = position + i + 1
            pages = table[begin : begin + -(-past // length)]
            start = max(past - prim.window, 0) if prim.window else 0
            for h in range(heads):
                g = h * groups // heads
                own = k[pages, g].reshape(-1, k.shape[3])[start:past]
                scores = own @ q[first + i, h] * np.float32(prim.scale)
                if prim.softcap:
                    scores = prim.softcap * np.tanh(scores / prim.softcap)
                if prim.slopes:
                    scores = scores + np.float32(prim.slopes[h]) * np.arange(start - past + 1, 1, dtype=np.float32)
                sink = np.float32(prim.sinks[h]) if prim.sinks else np.float32(-np.inf)
                top = max(scores.max(), sink)
                powers = np.exp(scores - top)
                mixed = (powers / (powers.sum() + np.exp(sink - top))) @ v[pages, g].reshape(-1, v.shape[3])[start:past]
                found[first + i, h] = mixed[: prim.size]
    return [found]


__all__ = [
    "KEY_CODE", "KEY_NORM", "NOTHING", "VALUE_NORM", "apart", "cache_write", "coded", "decoded", "largest_value",
    "paged_attention", "paired",
]  # fmt: skip
