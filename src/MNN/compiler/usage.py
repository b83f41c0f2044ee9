"""Who uses what in a list of primitives, and dropping what nobody uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor

VIEWS = (p.Reshape, p.Permute, p.Slice, p.Expand)
"""Primitives that only look at their operand in another way (when strides allow)."""


def live(prims: Sequence[Prim], outputs: Iterable[Tensor]) -> list[Prim]:
    """The primitives that the outputs depend on, in order."""
    needed = {id(t) for t in outputs}
    kept: list[Prim] = []
    for prim in reversed(prims):
        if any(id(t) in needed for t in prim.outputs):
            kept.append(prim)
            needed.update(id(t) for t in prim.inputs)
    return kept[::-1]


def consumers(prims: Sequence[Prim]) -> dict[Tensor, list[Prim]]:
    """Primitives that use each tensor, in order, once each."""
    uses: dict[Tensor, list[Prim]] = {}
    for prim in prims:
        for tensor in dict.fromkeys(prim.inputs):
            uses.setdefault(tensor, []).append(prim)
    return uses
