"""A stage run by the reference implementation, without kernels: the measure for everything compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.backends.base.backend import Bound
from MNN.backends.base.program import Buffer, Program
from MNN.compiler import usage
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.reference.primitives import evaluate
from MNN.runtime.limits import check_memory

_FREE = (p.Reshape, p.Permute, p.Expand)
"""Primitives that numpy does without copying, as a rule."""


class MeaningProgram(Bound):
    """Stands where a bound program does; there is no arena and nothing is planned."""

    def __init__(
        self, prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], memory: int = 1 << 62
    ) -> None:
        self._prims = usage.live(prims, outputs)
        self._inputs, self._outputs = list(inputs), list(outputs)
        self._last = {t: i for i, prim in enumerate(self._prims) for t in prim.inputs}
        self.program = Program([], [], [], 0, Buffer(0))
        self._check(memory)

    def _check(self, memory: int) -> None:
        """Raises :class:`~MNN.errors.RunError` when the tensors alive at one time take more than ``memory`` bytes."""
        size = {
            t: 0 if isinstance(q, _FREE) else elements(t.shape) * t.dtype.size for q in self._prims for t in q.outputs
        }
        wanted, total = set(self._outputs), 0
        for index, prim in enumerate(self._prims):
            total += sum(size.get(t, 0) for t in prim.outputs)
            check_memory(total, memory, prim.origin)
            total -= sum(size.get(t, 0) for t in set(prim.inputs) - wanted if self._last[t] == index)

    def run(self, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs for these inputs; ``threads`` does not matter."""
        del threads
        found: dict[Tensor, np.ndarray] = dict(zip(self._inputs, arrays, strict=True))
        wanted = set(self._outputs)
        for index, prim in enumerate(self._prims):
            values = [t.const if t.const is not None else found[t] for t in prim.inputs]
            results = evaluate(prim, values, [(t.dtype, t.shape) for t in prim.outputs])
            found.update(zip(prim.outputs, results, strict=True))
            for t in set(prim.inputs) - wanted:  # free what is not needed any more
                if self._last[t] == index:
                    found.pop(t, None)
        return [np.array(found[t]) for t in self._outputs]
