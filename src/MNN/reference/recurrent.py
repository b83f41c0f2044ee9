"""The reference implementation of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.reference import scalar as reference_scalar


def quantized(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``state[D, B, H]`` as integers (u8 less their zero points, i32) and scales ``[D, B, 1]``, each sequence by
    itself; as ONNX's DynamicQuantizeLinear, but for states of zeros only, whose scale is 1."""
    low = np.minimum(state.min(-1, keepdims=True), 0).astype(np.float32)
    high = np.maximum(state.max(-1, keepdims=True), 0).astype(np.float32)
    scale = (high - low) / np.float32(255)
    scale = np.where(scale == 0, np.float32(1), scale)
    zero = np.round(-low / scale)
    return np.clip(np.round(state / scale), -zero, 255 - zero).astype(np.int32), scale


def recurrence(
    prim: p.Recurrence, x: Sequence[np.ndarray], types: Sequence[tuple[DType, tuple[int, ...]]]
) -> list[np.ndarray]:
    """``y`` and the last states, step by step; see :class:`MNN.ir.prims.Recurrence`."""
    given, r = x[:2]
    states = [np.array(s) for s in x[2 : 2 + prim.states]]
    after = 2 + prim.states + prim.parameters
    parameters = [v[:, None, :] for v in x[2 + prim.states : after]]
    steps, gates = given.shape[0], prim.gates
    hidden = r.shape[2]
    weights = r.reshape(r.shape[0], gates, hidden, hidden).transpose(1, 0, 3, 2)  # gate, direction, from, to
    rounds = prim.quantized and not prim.whole
    scales = x[-1].reshape(-1, gates, 1, hidden).transpose(1, 0, 2, 3) if rounds else None
    tables = x[len(x) - prim.tables :]
    y = np.zeros(types[0][1], given.dtype)
    for k in range(steps):
        times = [steps - 1 - k if back else k for back in prim.reverse]
        now = np.stack([given[t, :, d] for d, t in enumerate(times)])
        parts = [now[..., g * hidden : (g + 1) * hidden] for g in range(gates)]
        direct = gates - (prim.first is not None)
        if prim.whole:
            factor = states[0] - np.int32(prim.zero)
            products = [factor @ weights[g].astype(np.int32) for g in range(direct)]
        elif scales is None:
            products = [states[0] @ weights[g] for g in range(direct)]
        else:
            whole, scale = quantized(states[0])
            sums = [(whole @ weights[g].astype(np.int32)).astype(np.float32) for g in range(direct)]
            products = [total * (scale * scales[g]) for g, total in enumerate(sums)]
        if prim.first is not None:
            factor = reference_scalar.evaluate(prim.first, [*parts, *products, *states, *parameters])[0]
            products.append(factor @ weights[direct])
        new = reference_scalar.evaluate(prim.body, [*parts, *products, *states, *parameters], tables)
        out = new[0]
        if prim.limited:
            inside = np.array(times)[:, None, None] < x[after][None, :, None]
            out = np.where(inside, out, 0)
            new = [np.where(inside, a, b) for a, b in zip(new, states, strict=True)]
        states = new
        for d, t in enumerate(times):
            y[t, d] = out[d]
    return [y, *states]
