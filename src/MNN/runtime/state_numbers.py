"""Which inputs and outputs of a lowered stage are states."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.compiler.lower import Stage
from MNN.ir.graph import Value
from MNN.ir.prims import Tensor
from MNN.ops.core.nested import leaves


def state_numbers(
    states: Sequence[tuple[Value, Value]],
    inputs: Sequence[Value],
    given: Sequence[Tensor],
    results: Sequence[Tensor],
    stage: Stage,
    fetch: Sequence[Value],
) -> tuple[tuple[int, int], ...]:
    """Numbers of the states' inputs and outputs among those of a stage, where it is the whole graph, and what it takes
    and gives (``fetch``) are plain tensors."""
    if stage.blocked is not None or len(inputs) != len(given):
        return ()
    if any(list(leaves(t)) != [t] for t in (*given, *[stage.env[v] for v in fetch if v in stage.env])):
        return ()
    made = {id(t): i for i, t in enumerate(results)}
    pairs = [(inputs.index(v), made.get(id(stage.env.get(w)))) for v, w in states if v in inputs]
    return tuple([(i, o) for i, o in pairs if o is not None])


__all__ = ["state_numbers"]
