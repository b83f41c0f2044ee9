"""The numpy meaning of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ops import meaning_scalar


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
    y = np.zeros(types[0][1], given.dtype)
    for k in range(steps):
        times = [steps - 1 - k if back else k for back in prim.reverse]
        now = np.stack([given[t, :, d] for d, t in enumerate(times)])
        parts = [now[..., g * hidden : (g + 1) * hidden] for g in range(gates)]
        direct = gates - (prim.first is not None)
        products = [states[0] @ weights[g] for g in range(direct)]
        if prim.first is not None:
            factor = meaning_scalar.evaluate(prim.first, [*parts, *products, *states, *parameters])[0]
            products.append(factor @ weights[direct])
        new = meaning_scalar.evaluate(prim.body, [*parts, *products, *states, *parameters])
        out = new[0]
        if prim.limited:
            inside = np.array(times)[:, None, None] < x[after][None, :, None]
            out = np.where(inside, out, 0)
            new = [np.where(inside, a, b) for a, b in zip(new, states, strict=True)]
        states = new
        for d, t in enumerate(times):
            y[t, d] = out[d]
    return [y, *states]
