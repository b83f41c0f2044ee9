"""What a program writes and its next run reads: buffers, attributes of modules."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

KEY = "states"
"""Where a graph's notes have the names of outputs by those of the inputs that they become."""


class States:
    """The states of a graph. Each is read as an input, from the first node on: nothing may take it for a constant."""

    def __init__(self, ctx: TorchBuilder) -> None:
        self._ctx = ctx
        self._inputs: dict[str, Value] = {}

    def begin(self, name: str, start: np.ndarray) -> Value:
        """A state's value before a run; ``start`` is that before the first one.

        States begin as zeros, so one that does not has a mark beside it, which says that it was written.
        """
        ctx = self._ctx
        state = Value(ctx.unique(f"state.{name}"), DType.of(start), tuple(start.shape))
        ctx.graph.inputs.append(state)
        self._inputs[name] = state
        if not start.any():
            return state
        mark = Value(ctx.unique(f"state.{name}.written"), DType.BOOL, ())
        ctx.graph.inputs.append(mark)
        written = ctx.op("BinaryOp", mark, ctx.const(np.asarray(True)), opType="LOGICALOR")
        self._output(mark, written)
        found = ctx.op("Select", mark, state, ctx.const(np.array(start, order="C")))  # of no axes too
        found.dtype, found.shape = state.dtype, state.shape
        return found

    def end(self, name: str, after: Value) -> None:
        """What a state is after a run. Raises :class:`UnsupportedError` where it has become another kind of tensor."""
        state = self._inputs[name]
        if after.shape is not None and after.shape != state.shape and all(isinstance(n, int) for n in after.shape):
            raise self._ctx.unsupported(f"'{name}', which is {state} before a run and {after} after it,")
        self._output(state, after)

    def _output(self, before: Value, after: Value) -> None:
        made = self._ctx.op("Identity", self._ctx.cast(after, before.dtype or DType.F32))
        made.name = self._ctx.unique(f"{before.name}.next")
        made.dtype, made.shape = before.dtype, before.shape
        self._ctx.graph.outputs.append(made)
        pairs = self._ctx.graph.meta.setdefault(KEY, {})
        assert isinstance(pairs, dict)
        pairs[before.name] = made.name
