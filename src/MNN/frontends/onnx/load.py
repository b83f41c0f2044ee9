"""From an ONNX file to a graph: parse, verify, expand functions, convert every node.

onnx's own checker and shape inference are not used: they are native code that malformed models can crash.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TypeProto

from MNN.cache.scratch import apart
from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.common.problems import REGISTER
from MNN.frontends.onnx.context import Context, ModelInfo, defined
from MNN.frontends.onnx.functions import Expander, clear_opset_marks, node_opset, standard_function
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import check_operands
from MNN.frontends.onnx.registry import canonical_domain, find
from MNN.frontends.onnx.tensors import DTYPES, array_of, type_name
from MNN.frontends.onnx.types import describe, skeleton, type_proto, value_infos
from MNN.frontends.onnx.verify import initializer_names, subgraphs, verify_graph, verify_node, verify_text
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.schema.external import ExternalSource
from MNN.schema.files import open_regular

MAX_EXPANSIONS = 8
"""How often standard functions may expand into standard functions."""


def load(source: str | os.PathLike[str] | bytes | ModelProto) -> Graph:
    """The graph of an ONNX model given as a path, as the file's bytes or as a ``ModelProto`` (which is not changed).

    Tensors keep their ONNX names. ``Graph.meta`` holds ``source``, ``opsets``, ``producer``, ``metadata`` and, for
    inputs and outputs that are not plain tensors, ``kinds`` (name to "sequence", "map" or "optional").

    Raises :class:`~MNN.errors.FormatError` for malformed models, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    model, external = _read(source)
    verify_text(model)
    opsets = _opsets(model)
    if not model.HasField("graph"):
        raise FormatError("the file holds no graph; is it an ONNX model?")
    bare = skeleton(model)
    verify_graph(bare.graph, initializer_names(model.graph))
    info = ModelInfo(_names(model), opsets=opsets, external=external)
    arrays = _initializers(model.graph, info)
    expander = Expander(info.unique)
    proto = _prepare(bare, info, expander)
    return _Loader(info, arrays, expander).convert_model(model, proto)


def _read(source: str | os.PathLike[str] | bytes | ModelProto) -> tuple[ModelProto, ExternalSource | None]:
    if isinstance(source, ModelProto):
        return source, None
    external, name = None, "model"
    if isinstance(source, bytes):
        data = source
    else:
        path = Path(source)
        external, name = ExternalSource(path), str(path)
        try:
            with open_regular(path) as file:
                data = file.read()
        except OSError as error:
            raise MNNError(f"cannot read '{path}': {error.strerror or error}") from error
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError) as error:
        said = f"is not an ONNX model, or one of which a part ({len(data)} bytes) is missing or damaged"
        raise FormatError(f"'{name}' {said}: download or export it again ({error})") from error
    return model, external


def _opsets(model: ModelProto) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = canonical_domain(entry.domain)
        if entry.version < 1 or opsets.get(domain, entry.version) != entry.version:
            raise FormatError(f"opset {entry.version} of domain '{entry.domain}' is not possible or listed twice")
        opsets[domain] = int(entry.version)
    if not opsets:
        raise FormatError("the model names no opset; is it an ONNX model?")
    newest = int(onnx.defs.onnx_opset_version())
    if opsets.get("", 1) > newest:
        raise UnsupportedError(
            f"the model uses ONNX opset {opsets['']}, the installed onnx package knows up to {newest}: "
            "upgrade onnx, or export the model with an older opset"
        )
    return opsets


def _names(model: ModelProto) -> set[str]:
    """Every tensor and node name of the model."""
    names: set[str] = set()

    def visit(graph: GraphProto) -> None:
        names.update(v.name for v in (*graph.input, *graph.initializer))
        for node in graph.node:
            names.update((node.name, *node.input, *node.output))
            for attribute in node.attribute:
                for sub in subgraphs(attribute):
                    visit(sub)

    visit(model.graph)
    return names


def _initializers(graph: GraphProto, info: ModelInfo) -> dict[str, np.ndarray | None]:
    """Constants by name; those of unsupported types are reported and None."""
    arrays: dict[str, np.ndarray | None] = {}
    for tensor in graph.initializer:
        arrays[tensor.name] = None
        try:
            arrays[tensor.name] = apart(array_of(tensor, info.external, f"initializer '{tensor.name}'"))
        except UnsupportedError as error:
            info.unsupported_part(tensor.name, "initializer", error)
    for sparse in graph.sparse_initializer:
        arrays[sparse.values.name] = None
        reason = UnsupportedError(f"sparse initializer '{sparse.values.name}': store it as a dense tensor")
        info.unsupported_part(sparse.values.name, "initializer", reason)
    return arrays


def _prepare(model: ModelProto, info: ModelInfo, expander: Expander) -> GraphProto:
    """The graph with the model's own functions expanded, every node checked against its schema."""
    clear_opset_marks(model.graph)
    if model.functions:
        expander.expand_local(model)
        del model.functions[:]
    _verify_nodes(model.graph, info)
    return model.graph


def _verify_nodes(graph: GraphProto, info: ModelInfo) -> None:
    for node in graph.node:
        opset = node_opset(node, info.opsets)
        if canonical_domain(node.domain) == "" and not opset:
            raise FormatError(f"node '{node.name}' ({node.op_type}): the model names no opset of the ONNX domain")
        verify_node(node, opset)
        for attribute in node.attribute:
            for sub in subgraphs(attribute):
                _verify_nodes(sub, info)


class _Loader:
    """Converts graphs of one model."""

    def __init__(self, info: ModelInfo, arrays: dict[str, np.ndarray | None], expander: Expander) -> None:
        self.info = info
        self.arrays = arrays
        self._expander = expander
        self._depth = 0
        self._declared: dict[Value, TypeProto] = {}
        info.convert_graph = self.convert_graph

    def convert_model(self, model: ModelProto, proto: GraphProto) -> Graph:
        graph = self.convert_graph(proto, None)
        self.info.report.raise_if_any()
        kinds = {v.name: str(v.type.WhichOneof("value")) for v in (*proto.input, *proto.output)}
        graph.meta = {
            "source": "ONNX",
            "opsets": dict(self.info.opsets),
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "metadata": {entry.key: entry.value for entry in model.metadata_props},
            "kinds": {name: kind.removesuffix("_type") for name, kind in kinds.items() if kind in _KINDS},
        }
        return graph

    def convert_graph(self, proto: GraphProto, parent: Context | None) -> Graph:
        graph = Graph(name=proto.name)
        ctx = Context(self.info, graph, parent)
        for value in value_infos(proto):
            ctx.declare(value.name, *describe(value.name, value.type))
        self._constants(ctx, proto, parent)
        for value in proto.input:
            if value.name in ctx.scope:  # an initializer gives its default; defaults are constants here
                continue
            made = Value(value.name, *ctx.declared(value.name))
            code = value.type.tensor_type.elem_type
            if value.type.WhichOneof("value") == "tensor_type" and code and code not in DTYPES:
                error = UnsupportedError(f"input '{value.name}' has the element type {type_name(code)}")
                self.info.unsupported_part(value.name, "input", error)
            ctx.scope[value.name] = made
            graph.inputs.append(made)
            if value.type.WhichOneof("value") not in (None, "tensor_type"):
                self._declared[made] = value.type
        for node in proto.node:
            self._convert_node(ctx, node)
        for value in proto.output:
            found = ctx.lookup(value.name)
            if found is None:
                raise FormatError(f"graph '{proto.name}': nothing makes output '{value.name}'")
            graph.outputs.append(found)
        return graph

    def _constants(self, ctx: Context, proto: GraphProto, parent: Context | None) -> None:
        arrays = self.arrays if parent is None else _initializers(proto, self.info)
        for name, array in arrays.items():
            if array is None:
                ctx.scope[name] = Value(name)
            else:
                ctx.scope[name] = Value(name, DType.of(array), tuple(array.shape), array)

    def _convert_node(self, ctx: Context, proto: NodeProto) -> None:
        opset = node_opset(proto, self.info.opsets)
        base = _base(proto)
        inputs = [ctx.lookup(name) if name else None for name in proto.input]
        node = OnnxNode(proto, base, opset, inputs, self.info.external)
        for name, value in zip(proto.input, inputs, strict=True):
            if name and value is None:
                raise FormatError(f"{node.where}: nothing makes its input '{name}'")
        entry = find(proto.op_type, proto.domain, opset)
        if ctx.parent is None and canonical_domain(proto.domain) == "":  # branches may hold what is never taken
            check_operands(node, proto.op_type, inputs)
        if entry is None:
            self._convert_body(ctx, proto, opset, inputs)
            return
        ctx.opset = opset
        handler = entry.handler

        def call() -> Value | Sequence[Value]:
            made = handler(ctx, node)
            unread = node.unread()
            if unread:
                raise node.unsupported(f"attribute '{unread[0]}'", "remove it or export the model another way")
            return made

        error = ctx.convert(base, node.where, node.outputs, call)
        if error is not None:
            self.info.report.form(base, proto.op_type, error, defined(proto.domain, opset))

    def _convert_body(self, ctx: Context, proto: NodeProto, opset: int, inputs: list[Value | None]) -> None:
        """An operator without a handler: the nodes of the function that defines it, or a line in the report."""
        types = [TypeProto() if v is None else self._type(ctx, v) for v in inputs]
        function = standard_function(proto, opset, types) if self._depth < MAX_EXPANSIONS else None
        if function is None:
            advice = f"{REGISTER} (domain '{proto.domain}')" if proto.domain else ""
            self.info.report.unknown_operator(_base(proto), proto.op_type, defined(proto.domain, opset), advice)
            ctx.leave_open(proto.output)
            return
        self._depth += 1
        for node in self._expander.body(proto, function, opset):
            self._convert_node(ctx, node)
        self._depth -= 1

    def _type(self, ctx: Context, value: Value) -> TypeProto | None:
        return self._declared.get(value) or type_proto(value, value in self.info.lists)


_KINDS = ("sequence_type", "optional_type", "map_type")


def _base(node: NodeProto) -> str:
    return node.name or next((o for o in node.output if o), "") or node.op_type


__all__ = ["load"]
