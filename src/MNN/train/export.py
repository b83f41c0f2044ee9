"""A trained model as a file for inference."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.expr.create import placeholder
from MNN.expr.models import graph_of
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.graph import Graph
from MNN.nn.extracted import Extracted
from MNN.nn.module import Module, in_mode
from MNN.nn.settings import shown
from MNN.passes.manager import optimize


def export(
    model: Module, path: str | os.PathLike[str], *inputs: Sequence[int] | Var, names: Sequence[str] = ()
) -> None:
    """Writes a model as a .mnn file: in inference mode, batch normalisations folded into the convolutions and products
    before them, activations too. ``inputs``: a shape for each that holds floats, a placeholder for one of another kind
    (``MNN.expr.placeholder([1, 16], dtype=MNN.expr.int)``). ``names``: of the inputs, then of the outputs; by default
    ``input`` and ``output``, with a number where there are several."""
    if not inputs:
        raise MNNError("export() takes a shape for every input of the model, such as [1, 3, 224, 224]")
    write_mnn(inference_graph(model, inputs, names), path)


def inference_graph(model: Module, inputs: Sequence[Sequence[int] | Var], names: Sequence[str] = ()) -> Graph:
    """What :func:`export` writes."""
    if not isinstance(model, Module):
        raise MNNError(f"a model to export is a Module, found {type(model).__name__}")
    for v in inputs:
        if not isinstance(v, (Var, Sequence, np.ndarray)) or isinstance(v, str):
            raise MNNError(f"an input is given by its shape, such as [1, 3, 224, 224], found {v!r}")
    taken = [v if isinstance(v, Var) else placeholder(list(v), NCHW) for v in inputs]
    if (other := next((v for v in taken if v.op_type != "Input"), None)) is not None:
        raise MNNError(f"an input is given by its shape or as a placeholder, found a Var of {other.op_type}")
    with in_mode(model, False):
        whole = len(taken) > 1 or isinstance(model, Extracted)  # which gives a single Var its first answer alone
        found = model.forward(taken if whole else taken[0])
    given = list(found) if isinstance(found, (list, tuple)) else [found]
    if not all(isinstance(v, Var) for v in given):
        raise MNNError("the model's forward() gives no Vars")
    graph = graph_of(given)
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise MNNError(f"names are a list of texts, found {shown(names)}")
    wanted = list(names) or [*_numbered("input", len(taken)), *_numbered("output", len(given))]
    if len(wanted) != len(taken) + len(given):
        raise MNNError(f"{len(wanted)} names for {len(taken)} inputs and {len(given)} outputs")
    if len(set(wanted)) != len(wanted):
        raise MNNError(f"inputs and outputs have names of their own, found {', '.join(wanted)}")
    optimize(graph)
    for value, name in zip([*graph.inputs, *graph.outputs], wanted, strict=True):
        value.name = name
    return graph


def _numbered(stem: str, count: int) -> list[str]:
    return [stem] if count == 1 else [f"{stem}{i}" for i in range(count)]


__all__ = ["export", "inference_graph"]
