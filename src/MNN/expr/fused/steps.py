"""Primitives of an operator, prepared to be run on numbers again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.errors import MISFITS, RunError
from MNN.expr.fused.loops import loop_over
from MNN.expr.fused.reductions import Reduction
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor

Array = np.ndarray
Step = Callable[[list[Array]], "Sequence[Array]"]

_SILENT = (p.Reshape, p.Permute, p.Slice, p.Expand, p.Pad, p.Concat, p.Map, p.Reduce, p.ArgReduce, p.Gather, p.TopK)
"""Primitives of which numpy has nothing to tell, or whose steps see to that themselves."""


class Steps:
    """What computes ``results`` from ``inputs``: numbers of operands, and the tensors that stand for them."""

    def __init__(self, prims: Sequence[Prim], inputs: Sequence[tuple[int, Tensor]], results: Sequence[Tensor]) -> None:
        self.prims = prims
        places: dict[Tensor, int] = {}
        self._numbers: list[Array | None] = []

        def place(tensor: Tensor) -> int:
            if tensor not in places:
                places[tensor] = len(places)
                self._numbers.append(tensor.const)
            return places[tensor]

        self._inputs = [(number, place(tensor)) for number, tensor in inputs]
        self._steps = [
            (prim, _prepared(prim), [place(t) for t in prim.inputs], [(place(t), t.dtype.numpy) for t in prim.outputs])
            for prim in prims
        ]
        self._results = [place(t) for t in results]
        self._silent = all(isinstance(prim, _SILENT) for prim in prims)

    def run(self, arrays: Sequence[Array | None]) -> list[Array]:
        """The results for operands of the sizes that these steps are for."""
        if self._silent:
            return self._run(arrays)
        with np.errstate(all="ignore"):
            return self._run(arrays)

    def _run(self, arrays: Sequence[Array | None]) -> list[Array]:
        numbers: list[Any] = self._numbers.copy()
        for number, place in self._inputs:
            numbers[place] = arrays[number]
        for prim, step, operands, outputs in self._steps:
            try:
                made = step([numbers[place] for place in operands])
            except MISFITS as error:  # not enough memory, or a host function met numbers it was not made for
                sizes = " and ".join(f"{t.dtype.value}{list(t.shape)}" for t in prim.outputs)
                what = f"{type(error).__name__}: {error}; check its inputs"
                raise RunError(f"{prim.origin}: its result {sizes} cannot be computed ({what})") from error
            for (place, kind), array in zip(outputs, made, strict=True):
                numbers[place] = array if array.dtype is kind else np.asarray(array).astype(kind, copy=False)
        return [numbers[place] for place in self._results]


def _prepared(prim: Prim) -> Step:
    """A primitive as a function of arrays."""
    if isinstance(prim, p.Map):
        return _map(prim)
    if isinstance(prim, p.Reduce):
        return Reduction(prim).run
    from MNN.reference.primitives import MEANING  # not needed where Vars are only given to a model

    types = [(t.dtype, t.shape) for t in prim.outputs]
    meaning = MEANING[type(prim)]
    return lambda x: meaning(prim, x, types)


def _map(prim: p.Map) -> Step:
    shape = prim.outputs[0].shape
    loop = loop_over(prim.body)
    return lambda x: loop.run(shape, x)


__all__ = ["Steps"]
