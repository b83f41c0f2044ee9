"""From PyTorch to an answer: modules of a running torch, and TorchScript files whose inputs need to be described."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from MNN.errors import MNNError
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.given import from_examples
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.stateful import StatefulModel


def from_torch(
    module: Any,
    example_inputs: Mapping[str, Any] | Sequence[Any] | Any = (),
    dynamic_shapes: Any = None,
    *,
    threads: int = 1,
    precision: str = "normal",
    save: str | os.PathLike[str] | None = None,
) -> Session | StatefulModel:
    """A model ready to run, of a ``torch.nn.Module``, a ``torch.export.ExportedProgram``, a TorchScript module, or the
    path (or bytes) of a TorchScript file.

    ``example_inputs``: what the module is called with, in order, or a mapping of keyword arguments; for TorchScript
    shapes (tuples, with names for open sizes) do as well, and plain values are fixed. ``dynamic_shapes``: as
    ``torch.export.export`` takes it; sizes keep the names of its ``Dim``s. ``save``: writes the model to this .mnn file
    as well. A module that writes buffers becomes a :class:`~MNN.stateful.StatefulModel`.

    >>> model = MNN.from_torch(net, (torch.zeros(1, 3, 224, 224),))     # doctest: +SKIP
    >>> model.run({"x": image})                                         # doctest: +SKIP

    Raises :class:`MNNError` for modules that cannot be exported (with torch's reason), and whatever loading its file
    raises.
    """
    graph = _graph(module, example_inputs, dynamic_shapes)
    optimize(graph)
    if save is not None:
        _write(graph, Path(save))
    session = Session(graph, Config(threads=threads, precision=precision))
    return StatefulModel(session) if session.own_states else session


def _graph(module: Any, examples: Any, dynamic: Any) -> Graph:
    if isinstance(module, (str, os.PathLike, bytes)):
        return script.load(module, from_examples(examples))
    torch = sys.modules.get("torch")
    if torch is None:
        raise MNNError(
            f"from_torch takes a module of torch, or the path of a TorchScript file, not {type(module).__name__}"
        )
    given = examples if isinstance(examples, (Mapping, list, tuple)) else (examples,)
    file = io.BytesIO()
    if isinstance(module, torch.jit.ScriptModule):
        torch.jit.save(module, file)
        return script.load(file.getvalue(), from_examples(given))
    names: dict[str, str] = {}
    program = module
    if not isinstance(module, torch.export.ExportedProgram):
        args, kwargs = ((), dict(given)) if isinstance(given, Mapping) else (tuple(given), None)
        try:
            with torch.no_grad():
                program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic)
        except Exception as error:
            raise MNNError(f"torch.export cannot export {type(module).__name__}: {error}") from error
        names = _names(torch, program, dynamic)
    torch.export.save(program, file)
    return exported.load(file.getvalue(), names)


def _names(torch: Any, program: Any, dynamic: Any) -> dict[str, str]:
    """Names of dims by those of the program's symbols."""
    listed = list(dynamic.values()) if isinstance(dynamic, Mapping) else list(dynamic or ())
    inputs = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    users = inputs[len(inputs) - len(listed) :] if listed else []
    found: dict[str, str] = {}
    for value, dims in zip(users, listed, strict=False):
        pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        for axis, dim in pairs:
            name = getattr(dim, "__name__", "")
            if name and hasattr(value, "shape") and isinstance(axis, int) and axis < len(value.shape):
                found[str(value.shape[axis])] = str(name)
    return found


def _write(graph: Graph, path: Path) -> None:
    from MNN.frontends.mnn.write import net_of
    from MNN.schema.offload import write_model

    write_model(net_of(graph), path, None)


__all__ = ["from_torch"]
