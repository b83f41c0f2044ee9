"""How much a primitive has to do, whatever computes it: operations and bytes, for estimates of cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements


class Work(NamedTuple):
    """``operations``: a multiply-add is two. ``nbytes``: of all operands and results, each once."""

    operations: int
    nbytes: int


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of some tensors."""
    return sum(elements(t.shape) * t.dtype.size for t in dict.fromkeys(tensors))


def products(prim: Prim) -> int:
    """Multiply-adds of a product, 0 of other primitives."""
    if isinstance(prim, p.Conv):
        return elements(prim.outputs[0].shape) * elements(prim.inputs[1].shape[1:])
    if isinstance(prim, (p.MatMul, p.CompressedMatMul, p.RoutedMatMul)):
        return elements(prim.outputs[0].shape) * prim.inputs[0].shape[-1]
    if isinstance(prim, p.Recurrence):
        steps, batch = prim.inputs[0].shape[:2]
        return steps * batch * elements(prim.inputs[1].shape)
    return 0


def work(prim: Prim) -> Work:
    """That of a primitive. Views count as nothing: they have no memory of their own."""
    if isinstance(prim, (p.Reshape, p.Permute, p.Slice, p.Expand)):
        return Work(0, 0)
    count = 2 * products(prim)
    if isinstance(prim, p.Map):
        count = elements(prim.outputs[0].shape) * len(prim.body.code)
    elif isinstance(prim, p.Window):
        count = elements(prim.outputs[0].shape) * elements(prim.kernel)
    elif not count:
        count = max((elements(t.shape) for t in (*prim.inputs, *prim.outputs)), default=0)
    return Work(count, nbytes((*prim.inputs, *prim.outputs)))


__all__ = ["Work", "nbytes", "products", "work"]
