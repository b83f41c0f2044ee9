"""From a TensorFlow file or folder to a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.tensorflow.bodies import Body, Ref, functions, graph_body
from MNN.frontends.tensorflow.context import Context, ModelInfo
from MNN.frontends.tensorflow.handles import Handle
from MNN.frontends.tensorflow.messages import Proto, parse
from MNN.frontends.tensorflow.refused import advice
from MNN.frontends.tensorflow.types import known_dtype, plain_code, shape_of, type_name
from MNN.frontends.tensorflow.variables import Checkpoint, captured_names, restored_names
from MNN.frontends.tensorflow.walk import BodyScope, call
from MNN.ir.graph import Graph, Node, Value, captured
from MNN.schema.files import open_regular

NODES = 20_000
"""Nodes that may be converted beyond ten times those of the file."""
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
_NO_RESULTS = {
    "NoOp", "Assert", "Const", "Placeholder", "PlaceholderWithDefault", "VarHandleOp", "VariableV2", "Variable",
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename", "Print", "PrintV2", "NextIteration",
    "HashTableV2", "LookupTableImportV2", "InitializeTableV2", "InitializeTableFromTextFileV2", "IsVariableInitialized",
    "VarIsInitializedOp",
}  # fmt: skip
"""Operators that are no outputs of a model, although nothing uses what they make."""


@dataclass
class _Request:
    """What of a graph is a model: inputs and outputs by the names that users see, with what they are in the graph."""

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    signature: str = ""
    signatures: tuple[str, ...] = ()


def load(source: str | os.PathLike[str] | bytes, signature: str | None = None) -> Graph:
    """The graph of a TensorFlow model: a frozen GraphDef (a path, or the file's bytes), a SavedModel (its folder, or
    ``saved_model.pb`` in it), or a checkpoint with its graph (``model.ckpt.meta``).

    Of a SavedModel, ``signature`` chooses what to convert (by default ``serving_default``, or the only one); inputs and
    outputs have the names that it gives them. Of other graphs, inputs are the placeholders in use, outputs what
    no node uses.

    Raises :class:`~MNN.errors.FormatError` for malformed files, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    path = None if isinstance(source, bytes) else Path(source)
    if path is not None and path.is_dir():
        path = path / "saved_model.pb"
    if path is not None and path.name == "saved_model.pb":
        return _saved_model(path, signature)
    if path is not None and path.suffix == ".meta":
        meta = parse("MetaGraphDef", _read(path), f"'{path}'")
        if not path.with_suffix(".index").exists():
            raise MNNError(
                f"'{path}' is the graph of a checkpoint, whose numbers are in {path.stem}.index and .data-*: "
                "put them beside it"
            )
        return _meta_graph(meta, Checkpoint.beside(path, path.stem), signature)
    data, name = (source, "the data") if isinstance(source, bytes) else (_read(Path(source)), f"'{source}'")
    if signature is not None:
        raise MNNError(f"{name} has no signature '{signature}': it is a frozen graph, which has none at all")
    graph = parse("GraphDef", data, name)
    del data
    body = graph_body(graph)
    if not body.nodes:
        raise FormatError(f"{name} holds no graph; is it a frozen TensorFlow graph?")
    return _convert(graph, body, _ends(body), lambda node, shared: None)


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        raise MNNError(f"cannot read '{path}': {error.strerror or error}") from error


def _saved_model(path: Path, signature: str | None) -> Graph:
    model = parse("SavedModel", _read(path), f"'{path}'")
    metas = [m for m in model.meta_graphs if "serve" in m.meta_info_def.tags] or list(model.meta_graphs)
    if not metas:
        raise FormatError(f"'{path}' holds no graph; is it a SavedModel?")
    folder = path.parent / "variables"
    stored = Checkpoint.beside(folder / "variables.index", "variables") if folder.is_dir() else None
    return _meta_graph(metas[0], stored, signature)


def _meta_graph(meta: Proto, stored: Checkpoint | None, signature: str | None) -> Graph:
    body = graph_body(meta.graph_def)
    known = functions(meta.graph_def)
    request = _signature(meta, signature) or _ends(body)
    names = captured_names(body, meta.object_graph_def, stored)
    names |= restored_names(body, known, meta.saver_def.restore_op_name)

    def restored(node: str, shared: str) -> np.ndarray | None:
        if stored is None:
            return None
        return next((stored.array(key) for key in (names.get(node, ""), shared, node) if key in stored), None)

    return _convert(meta.graph_def, body, request, restored)


def _signature(meta: Proto, wanted: str | None) -> _Request | None:
    signatures = {
        name: s for name, s in meta.signature_def.items() if s.outputs and not name.startswith("__saved_model_")
    }
    if not signatures:
        if wanted is not None:
            raise MNNError(f"the model has no signature '{wanted}': it has none at all")
        return None
    default = "serving_default" if "serving_default" in signatures else min(signatures)
    name = default if wanted is None else wanted
    if name not in signatures:
        raise MNNError(f"the model has no signature '{name}'; it has {', '.join(sorted(signatures))}")
    chosen = signatures[name]
    inputs = {key: info.name for key, info in sorted(chosen.inputs.items())}
    outputs = {key: info.name for key, info in sorted(chosen.outputs.items())}
    return _Request(inputs, outputs, name, tuple(sorted(signatures)))


def _ends(body: Body) -> _Request:
    """The placeholders that some node uses (lowered loops leave others behind), and what no node uses."""
    used = {ref.node for node in body.nodes.values() for ref in body.refs(node)}
    used |= {name for node in body.nodes.values() for name in body.controls(node)}
    inputs = {name: name for name, node in body.nodes.items() if node.op in PLACEHOLDERS and name in used}
    ends = [name for name, node in body.nodes.items() if name not in used and node.op not in _NO_RESULTS]
    if not ends:
        raise FormatError("the graph has no output: every node is used by another; is the file damaged?")
    return _Request(inputs, {name: name for name in ends})


def _convert(proto: Proto, body: Body, request: _Request, restored: Callable[[str, str], np.ndarray | None]) -> Graph:
    """Which variables change is seen on the way: then the model is converted once more, with these as states."""
    changing: frozenset[str] = frozenset()
    known = functions(proto)
    while True:
        total = len(body.nodes) + sum(len(f.nodes) for f in known.values())
        info = ModelInfo(functions=known, call=call, restored=restored, budget=NODES + 10 * total, changing=changing)
        graph = _converted(info, body, request)
        if info.changed <= changing:
            return graph
        changing |= info.changed


def _converted(info: ModelInfo, body: Body, request: _Request) -> Graph:
    graph = Graph()
    ctx = Context(info, graph)
    scope = BodyScope(ctx, body)
    info.taken.update((*request.inputs, *request.outputs, *info.changing))
    made = {name: _input(info, body, name, body.known(text, name)) for name, text in request.inputs.items()}
    refs = [body.known(text, name) for name, text in request.outputs.items()]
    values = scope.values(refs)
    info.report.raise_if_any()
    used = {v for node in graph.nodes for v in _reads(node)}.union(values)
    graph.inputs = [v for v in made.values() if request.signature or v in used]
    named = list(zip(request.outputs, values, strict=True))
    if not request.signature:  # lists that nothing reads are no results
        named = [pair for pair in named if not isinstance(pair[1], Handle)] or named
    graph.outputs = [_output(ctx, name, v) for name, v in named]
    graph.meta = {"source": "TensorFlow"}
    if request.signature:
        graph.meta |= {"signature": request.signature, "signatures": list(request.signatures)}
    info.memory.finish(graph)
    return graph


def _reads(node: Node) -> Sequence[Value]:
    return [v for v in (*node.inputs, *captured(node)) if v is not None]


def _input(info: ModelInfo, body: Body, name: str, ref: Ref) -> Value:
    """An input of the model in place of a node's output."""
    node = body.nodes[ref.node]
    code = node.attr["dtype"].type if "dtype" in node.attr else 0
    shape = shape_of(node.attr["shape"].shape, name) if "shape" in node.attr else None
    if shape is not None and not shape and "_output_shapes" in node.attr:
        listed = node.attr["_output_shapes"].list.shape
        shape = shape_of(listed[0], name) if listed else shape
    value = Value(name, known_dtype(code), shape)
    if value.dtype is None:
        what = UnsupportedError(f"input '{name}': the element type {type_name(plain_code(code))} is not supported")
        info.report.form(name, "input", what)
    info.placeholders[ref.text] = value
    return value


def _output(ctx: Context, name: str, value: Value) -> Value:
    """A value under the name that users see."""
    if isinstance(value, Handle):
        raise UnsupportedError(f"output '{name}' is {value.what}; {advice('') or 'choose an output that is a tensor'}")
    out = Value(name, value.dtype, value.shape)
    ctx.graph.nodes.append(Node("Identity", name, [value], [out]))
    return out
