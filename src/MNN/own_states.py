"""What operators keep from run to run by themselves, such as the cache of an official model's attention: made
inputs and outputs of the graph, as states are (:mod:`MNN.stateful`)."""

from __future__ import annotations

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.core.base import traits

KEY = "states"
"""Where a graph's notes say what was made: names of outputs by those of the inputs that they become."""


def expose(graph: Graph) -> None:
    """Gives the graph an input and an output for everything that one of its nodes keeps."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        for state in traits(node).own_states(node):
            name = f"{node.name or node.outputs[0].name}.{state.name}"
            sizes = [f"{node.name}.{size}" for size in state.sizes]
            before, after = Value(name, DType.F32, tuple(sizes)), Value(f"{name}.next", DType.F32)
            sizes[state.axis] += ".next"
            after.shape = tuple(sizes)
            node.inputs += [None] * (state.input + 1 - len(node.inputs))
            node.inputs[state.input] = before
            assert len(node.outputs) == state.output
            node.outputs.append(after)
            graph.inputs.append(before)
            graph.outputs.append(after)
            found[before.name] = after.name
    if found:
        graph.meta[KEY] = found


__all__ = ["KEY", "expose"]
