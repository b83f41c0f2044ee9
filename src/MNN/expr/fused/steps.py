"""Primitives of an operator, prepared to be run on numbers again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from MNN.errors import MISFITS, RunError
from MNN.expr.fused.deferred import Deferred, Operand
from MNN.expr.fused.loops import loop_over
from MNN.expr.fused.reductions import Reduction
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body

Array = np.ndarray
Step = Callable[[Sequence[Any]], "Sequence[Array]"]

_SILENT = (p.Reshape, p.Permute, p.Slice, p.Expand, p.Pad, p.Concat, p.Map, p.Reduce, p.ArgReduce, p.Gather, p.TopK)
"""Primitives of which numpy has nothing to tell, or whose steps see to that themselves."""


class Steps:
    """What computes ``results`` from ``inputs``: numbers of operands, and the tensors that stand for them."""

    def __init__(self, prims: Sequence[Prim], inputs: Sequence[tuple[int, Tensor]], results: Sequence[Tensor]) -> None:
        self.prims = prims
        users = Counter(t for prim in prims for t in prim.inputs) + Counter(results)
        places: dict[Tensor, int] = {}
        self._numbers: list[Array | None] = []

        def place(tensor: Tensor) -> int:
            if tensor not in places:
                places[tensor] = len(places)
                self._numbers.append(tensor.const)
            return places[tensor]

        self._steps: list[tuple[Prim, Step, list[int], list[tuple[int, np.dtype]]]] = []
        folded = set()
        for prim, then in zip_longest(prims, prims[1:]):
            outputs = prim.outputs
            if isinstance(prim, p.Reduce):
                if users[prim.inputs[0]] == 1:
                    folded.add(prim.inputs[0])
                if isinstance(then, p.Reshape) and then.inputs == outputs and users[outputs[0]] == 1:
                    outputs = then.outputs  # which it makes at once
                step: Step = Reduction(prim, outputs[0].shape).run
            elif isinstance(prim, p.Reshape) and prim.outputs[0] in places:
                continue
            else:
                step = _prepared(prim)
            operands = [place(t) for t in prim.inputs]
            self._steps.append((prim, step, operands, [(place(t), t.dtype.numpy) for t in outputs]))
        self._inputs = [(number, place(tensor), tensor not in folded) for number, tensor in inputs]
        self._results = [place(t) for t in results]
        self._silent = all(isinstance(prim, _SILENT) for prim in prims)
        self._only = self._steps[0][1] if self._is_one_reduction() else None

    def _is_one_reduction(self) -> bool:
        """Whether there is nothing to be done but a reduction of the first operand."""
        if len(self._steps) != 1 or not isinstance(self._steps[0][0], p.Reduce) or len(self._inputs) != 1:
            return False
        return self._inputs[0][0] == 0 and self._results == [place for place, _ in self._steps[0][3]]

    def run(self, operands: Sequence[Operand | None]) -> list[Array]:
        """The results for operands of the sizes that these steps are for."""
        if self._only is not None:
            return list(self._only(operands))
        if self._silent:
            return self._run(operands)
        with np.errstate(all="ignore"):
            return self._run(operands)

    def _run(self, operands: Sequence[Operand | None]) -> list[Array]:
        numbers: list[Any] = self._numbers.copy()
        for number, place, wanted in self._inputs:
            operand = operands[number]
            numbers[place] = operand.numbers() if wanted and isinstance(operand, Deferred) else operand
        for prim, step, places, outputs in self._steps:
            try:
                made = step([numbers[place] for place in places])
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
    from MNN.reference.primitives import MEANING  # not needed where Vars are only given to a model

    types = [(t.dtype, t.shape) for t in prim.outputs]
    meaning = MEANING[type(prim)]
    return lambda x: meaning(prim, x, types)


def _map(prim: p.Map) -> Step:
    shape, body = prim.outputs[0].shape, prim.body
    if _recasts(body):
        to = body.result_dtypes[0].numpy
        return lambda x: [np.broadcast_to(x[0], shape).astype(to)]
    loop = loop_over(body)
    return lambda x: loop.run(shape, x)


def _recasts(body: Body) -> bool:
    """Whether a body does nothing but store integers as integers of another type."""
    kinds = [instr.dtype for instr in body.code]
    return [instr.op for instr in body.code] == ["arg", "cast"] and all(kind.is_int for kind in kinds)


__all__ = ["Steps"]
