"""The reference implementation of layers that go on from a state in a slot of a pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType

Types = Sequence[tuple[DType, tuple[int, ...]]]
Array = np.ndarray


def _begun(pool: Array, slot: int) -> Array:
    """What a segment goes on from."""
    return np.array(pool[slot]) if 0 <= slot < len(pool) else np.zeros(pool.shape[1:], pool.dtype)


def causal_convolution(prim: p.CausalConvolution, x: Sequence[Array], types: Types) -> list[Array]:
    """See :class:`MNN.ir.prims.CausalConvolution`."""
    pool, rows, w, segments = np.array(x[0]), x[1], x[2], x[3]
    y, taps = np.zeros_like(rows), len(w)
    for first, count, source, to in segments.tolist():
        if count < 1:
            continue
        own = np.concatenate([_begun(pool, source), rows[first : first + count]])
        y[first : first + count] = sum(w[j] * own[j : j + count] for j in range(taps))
        if 0 <= to < len(pool):
            pool[to] = own[len(own) - taps + 1 :]
    return [pool, y]


def linear_attention(prim: p.LinearAttention, x: Sequence[Array], types: Types) -> list[Array]:
    """See :class:`MNN.ir.prims.LinearAttention`; token by token."""
    pool, q, k, v, decay = np.array(x[0]), *x[1:5]
    each = v.shape[1] // q.shape[1]
    q, k, y = np.repeat(q, each, 1), np.repeat(k, each, 1), np.zeros_like(v)
    decay = decay.reshape(*decay.shape[:2], -1, 1)
    for first, count, source, to in x[-1].tolist():
        if count < 1:
            continue
        state = _begun(pool, source)
        for t in range(first, first + count):
            state = state * decay[t]
            u = v[t] if not prim.delta else x[5][t][:, None] * (v[t] - np.einsum("hde,hd->he", state, k[t]))
            state = state + k[t][:, :, None] * u[:, None]
            y[t] = np.einsum("hde,hd->he", state, q[t])
        if 0 <= to < len(pool):
            pool[to] = state
    return [pool, y]


__all__ = ["causal_convolution", "linear_attention"]
