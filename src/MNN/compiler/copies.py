"""Copies of primitives over tensors of their own, so that what is done to them is done to nobody else's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from MNN.ir.prims import Prim, Tensor

_Copied = TypeVar("_Copied", Prim, Tensor)


def own_copy(prims: Sequence[Prim], outputs: Sequence[Tensor]) -> tuple[list[Prim], list[Tensor]]:
    """The same program over tensors of its own; inputs and constants are shared."""
    own: dict[Tensor, Tensor] = {}
    copied: list[Prim] = []
    for prim in prims:
        results = [_twin(t) for t in prim.outputs]
        own.update(zip(prim.outputs, results, strict=True))
        new = _twin(prim)
        new.inputs, new.outputs = [own.get(t, t) for t in prim.inputs], results
        for t in results:
            t.producer = new
        copied.append(new)
    return copied, [own.get(t, t) for t in outputs]


def _twin(thing: _Copied) -> _Copied:
    """Like ``copy.copy``, which takes four to five times as long."""
    new: _Copied = object.__new__(type(thing))
    new.__dict__.update(thing.__dict__)
    return new


def isolated(
    prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[list[Prim], list[Tensor], list[Tensor]]:
    """A part of a program alone: its primitives, inputs (that nothing seems to have computed) and outputs."""
    own_inputs = [Tensor(t.dtype, t.shape, name=t.name) for t in inputs]
    names = dict(zip(inputs, own_inputs, strict=True))
    copied, results = own_copy(prims, outputs)
    for prim in copied:
        prim.inputs = [names.get(t, t) for t in prim.inputs]
    return copied, own_inputs, results


__all__ = ["isolated", "own_copy"]
