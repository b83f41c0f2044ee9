"""Buffers that a program writes: tensors that its next run finds as this one left them."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

KEY = "states"
"""Where a graph's notes have the names of outputs by those of the inputs that they become."""


def keep(ctx: TorchBuilder, name: str, before: Value, after: Value, start: np.ndarray) -> None:
    """Makes a buffer a state. ``before`` is the constant that the graph reads it as so far, ``start`` what it holds
    before the first run. States begin as zeros, so one that does not has a mark beside it, which says that it
    was written."""
    graph = ctx.graph
    state = Value(ctx.unique(f"state.{name}"), DType.of(start), tuple(start.shape))
    graph.inputs.append(state)
    pairs = graph.meta.setdefault(KEY, {})
    assert isinstance(pairs, dict)
    read = state
    if start.any():
        mark = Value(ctx.unique(f"state.{name}.written"), DType.BOOL, ())
        graph.inputs.append(mark)
        begin = Value(ctx.unique(f"{name}.start"), DType.of(start), tuple(start.shape), start)
        made = len(graph.nodes)
        read = ctx.op("Select", mark, state, begin)
        marked = ctx.op("BinaryOp", mark, ctx.const(np.asarray(True)), opType="LOGICALOR")
        marked.name = ctx.unique(f"state.{name}.written.next")
        graph.nodes[0:0] = graph.nodes[made:]
        del graph.nodes[-2:]
        graph.outputs.append(marked)
        pairs[mark.name] = marked.name
    graph.replace(before, read)
    last = ctx.op("Identity", after)
    last.name = ctx.unique(f"state.{name}.next")
    last.dtype, last.shape = state.dtype, state.shape
    graph.outputs.append(last)
    pairs[state.name] = last.name


__all__ = ["KEY", "keep"]
