"""Layers that remember a text in a state of a fixed size: short convolutions, and attention whose keys and values are
summed up (Mamba-2, the gated delta rule)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Value
from MNN.llm.models.layers import Layers

CONVOLUTION, MATRIX = "conv", "matrix"
"""Kinds of states, as their names begin."""


def convolved(net: Layers, x: Value, name: str, layer: int, parts: Sequence[str] = ()) -> Value:
    """``x [batch, sequence, columns]``, each column convolved with its row of ``name.weight`` over what comes before,
    and ``name.bias`` where there is one; the rows may also lie in ``parts``, several weights one above the other.
    Raises :class:`FormatError` for weights that do not fit."""
    if parts and f"{name}.weight" not in net.weights:
        weight = _above([net.weight(f"{part}.weight") for part in parts], parts)
    else:
        weight = net.weight(f"{name}.weight")
    shape, columns = list(weight.shape), len(weight) if weight.ndim else 0
    if weight.size < 2 * max(columns, 1):
        raise FormatError(f"'{name}.weight' has the shape {shape}; expected are columns of two taps or more")
    weight = np.ascontiguousarray(weight.reshape(columns, -1).T)
    pool, segments = net.slots(CONVOLUTION, layer, (len(weight) - 1, columns))
    after, out = net.emit("CausalConvolution", [pool, net.unpadded(x), net.const(weight), segments], 2)
    net.put(pool, after)
    if f"{name}.bias" in net.weights:
        out = net.add(out, net.vector(f"{name}.bias"))
    return out


def _above(parts: Sequence[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """One above the other. Raises :class:`FormatError` where they have other rows."""
    if len({part.shape[1:] for part in parts}) > 1:
        told = ", ".join(f"{name} {list(part.shape)}" for name, part in zip(names, parts, strict=True))
        raise FormatError(f"convolutions of the shapes {told} cannot lie side by side; expected are as many taps")
    whole: np.ndarray = np.concatenate(parts)
    return whole


def summed_up(
    net: Layers, q: Value, k: Value, v: Value, decay: Value, layer: int, sizes: tuple[int, int, int],
    beta: Value | None = None,
) -> Value:  # fmt: skip
    """Linear attention of ``q`` and ``k [batch, sequence, groups, size]`` over ``v [batch, sequence, heads,
    value_size]``, which fades by ``decay [batch, sequence, heads]``, or ``[batch, sequence, heads, size]``; with
    ``beta`` of the first shape by the delta rule (:class:`MNN.ir.prims.LinearAttention`). ``sizes``: heads, ``size``
    and ``value_size``."""
    pool, segments = net.slots(MATRIX, layer, sizes)
    v = net.unpadded(v, 3)
    given = [pool, q, k, v, decay, *([] if beta is None else [beta]), segments]
    after, out = net.emit("LinearAttention", given, 2, delta=beta is not None)
    net.put(pool, after)
    return out


__all__ = ["CONVOLUTION", "MATRIX", "convolved", "summed_up"]
