"""What operators keep from run to run by themselves, such as the cache of an official model's attention: made
inputs and outputs of the graph, as states are (:mod:`MNN.stateful`)."""

from __future__ import annotations

from MNN.errors import FormatError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.core.base import traits

KEY = "states"
"""Where a graph's notes say what was made: names of outputs by those of the inputs that they become."""


def expose(graph: Graph) -> None:
    """Gives the graph an input and an output for everything that one of its nodes keeps."""
    found = _noted(graph)
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


def _noted(graph: Graph) -> dict[str, str]:
    """The states that a file says it has. Raises :class:`FormatError` for what are no inputs and outputs."""
    noted = graph.meta.get(KEY, {})
    inputs, outputs = ({v.name for v in part} for part in (graph.inputs, graph.outputs))
    if not isinstance(noted, dict) or not all(isinstance(w, str) for w in noted.values()):
        raise FormatError(f"the file's note of its states is no table of names: {noted!r:.60}")
    for before, after in noted.items():
        if before not in inputs or after not in outputs:
            raise FormatError(f"the file's note of its states has '{before}' and '{after}', no input and output")
    return dict(noted)


__all__ = ["KEY", "expose"]
