"""Computing on constants while planning, once for all plans.

A plan for another input size lowers the same graph again. What it computes from constants alone (a transposed weight, a
slice of a table) must come out as the very same array, or everything derived from it, such as packed weights, would
be made and held again per plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.ir.prims import Prim, Reshape, Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ir.shape import elements
from MNN.ops.core.sketches import Sketches
from MNN.reference.primitives import evaluate

SMALL = 4096
"""Bytes of operands below which a result is computed anew: cheaper than remembering it."""

FOLDED = 1 << 24
"""Constants of up to this many elements are computed while planning even when their operands are much smaller."""


def worth_folding(prim: Prim, types: Sequence[tuple[DType, tuple[int, ...]]]) -> bool:
    """A few small constants must not grow into gigabytes before anything runs."""
    largest = max((elements(t.shape) for t in prim.inputs), default=0)
    return all(elements(s) <= max(FOLDED, 4 * largest) for _, s in types)


class _Folded:
    """Results, together with the operands whose identity is their key."""

    def __init__(self, arrays: Sequence[np.ndarray], operands: Sequence[object]) -> None:
        self.arrays, self.operands = list(arrays), list(operands)


class FoldCache:
    """Results of primitives on constants; each lives as long as some plan uses it."""

    def __init__(self) -> None:
        self.sketches: dict[Graph, Sketches] = {}
        """Which nodes may be alike, of graphs that were lowered with this."""
        self._made: WeakValueDictionary[tuple[object, ...], _Folded] = WeakValueDictionary()

    def fold(self, prim: Prim, types: Sequence[tuple[DType, tuple[int, ...]]]) -> list[Tensor]:
        """The outputs of a primitive whose operands are all constant."""
        operands = [t.const for t in prim.inputs if t.const is not None]
        if isinstance(prim, Reshape) and operands[0].nbytes < SMALL:
            ((dtype, shape),) = types
            return [Tensor(dtype, shape, operands[0].reshape(shape), keep=(operands[0], prim.inputs[0].keep))]
        key = (type(prim), tuple(map(id, operands)), prim.attributes(), tuple(types))
        found = self._made.get(key)
        if found is None:
            results = evaluate(prim, operands, types)
            arrays = [np.asarray(a).reshape(shape) for a, (_, shape) in zip(results, types, strict=True)]
            found = _Folded(arrays, [(t.const, t.keep) for t in prim.inputs])
            if sum(a.nbytes for a in operands) >= SMALL:
                self._made[key] = found
        return [Tensor(d, s, const=a, keep=found) for a, (d, s) in zip(found.arrays, types, strict=True)]

    def expanded(self, data: QuantizedArray) -> Tensor:
        """The float numbers of compressed weights."""
        key = ("expanded", id(data))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = _Folded([data.dequantize()], [data])
        array = found.arrays[0]
        return Tensor(DType.of(array), tuple(array.shape), const=array, keep=found)
