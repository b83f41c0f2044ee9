"""Attention in numpy, float64, as the oracle of the operators whose specification is ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np


def heads_apart(x: np.ndarray, heads: int) -> np.ndarray:
    """``[B, S, heads * D]`` to ``[B, heads, S, D]``, in float64; what has four dimensions is that already."""
    if x.ndim == 4:
        return x.astype(np.float64)
    return x.astype(np.float64).reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def heads_together(x: np.ndarray) -> np.ndarray:
    """The inverse of :func:`heads_apart`."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float = 0.0,
    softcap: float = 0.0,
    bias: Any = None,
    seen: Any = None,
    sink: Any = None,
) -> np.ndarray:
    """``q[B, H, S, D]`` over ``k[B, G, T, D]`` and ``v[B, G, T, E]``: ``[B, H, S, E]``. ``bias`` is added to scores,
    keys that are not ``seen`` (bool) are left out; ``sink`` is the score of one more key, of value zero; all
    broadcast to the scores."""
    k, v = (np.repeat(t, q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * (scale or q.shape[3] ** -0.5)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    lowest = np.full((1, 1, 1, 1), -np.inf) if sink is None else np.asarray(sink, np.float64)
    top = np.maximum(scores.max(-1, keepdims=True), lowest)
    top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True) + np.exp(lowest - top)
    found: np.ndarray = np.einsum("bhst,bhtd->bhsd", powers / np.where(total > 0, total, 1), v)
    return found


def turned(x: np.ndarray, places: np.ndarray, cosines: np.ndarray, sines: np.ndarray, interleaved: bool) -> np.ndarray:
    """The first numbers of heads ``x[B, N, S, D]`` in pairs, turned by the angles of ``places[B, S]``."""
    half = cosines.shape[1]
    left = x[..., : 2 * half : 2] if interleaved else x[..., :half]
    right = x[..., 1 : 2 * half : 2] if interleaved else x[..., half : 2 * half]
    cos, sin = (t.astype(np.float64)[places][:, None] for t in (cosines, sines))
    out = x.copy()
    pair = left * cos - right * sin, right * cos + left * sin
    if interleaved:
        out[..., : 2 * half : 2], out[..., 1 : 2 * half : 2] = pair
    else:
        out[..., :half], out[..., half : 2 * half] = pair
    return out
