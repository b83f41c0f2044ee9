"""Graphs as ONNX models: one pass over the nodes, by the table of ``operators/``."""

from __future__ import annotations

import os

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto, helper

from MNN.errors import UnsupportedError
from MNN.frontends.common.problems import Report
from MNN.frontends.onnx_export.exporter import CODES, Exporter, Shared, table
from MNN.frontends.onnx_export.types import fit_types
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.ops.inference.infer import annotate
from MNN.schema.files import replacing

LARGEST = (1 << 31) - (1 << 20)
"""Bytes that one file of protobuf may have."""
_ADVICE = "no standard ONNX operator does it; keep the .mnn file for this model"


def onnx_model(graph: Graph) -> ModelProto:
    """A standard ONNX model that computes what the graph does.

    Names of inputs, outputs and tensors are kept where they are unique. Raises
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything that ONNX has no form for.
    """
    annotate(graph)
    shared, report = Shared(), Report()
    shared.convert = lambda sub, outer: _graph(sub, shared, report)
    made = _graph(graph, shared, report)
    report.raise_if_any()
    _check_ranks(made)
    made.initializer.extend(shared.initializers)
    if sum(len(t.raw_data) for t in made.initializer) > LARGEST:
        raise UnsupportedError("the model's constants are more than 2 GB, which one ONNX file cannot hold")
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", shared.opset)], producer_name="MNN in Python"
    )
    fit_types(model, shared.opset, shared.unique)
    if any(map(_open, made.output)):
        _complete(model)
    model.ir_version = min(int(onnx.IR_VERSION), 10 if shared.opset <= 21 else 11)
    return model


def _check_ranks(made: GraphProto) -> None:
    """An ONNX file must say how many dimensions its inputs have; onnx's checker refuses it otherwise."""
    unknown = [
        v.name for v in made.input if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape")
    ]
    if unknown:
        named = ", ".join(f"'{name}'" for name in unknown[:8])
        raise UnsupportedError(
            f"nothing says how many dimensions the input {named} has, as an ONNX file must; convert the model's first "
            f"file with shapes, sizes or names of open ones: --input-shape {unknown[0]}=batch,3,224,224"
        )


def _open(output: ValueInfoProto) -> bool:
    """Whether its type or the number of its dimensions is not known."""
    return not output.HasField("type") or (
        output.type.HasField("tensor_type") and not output.type.tensor_type.HasField("shape")
    )


def _complete(model: ModelProto) -> None:
    """Types of outputs by onnx's own inference, where this engine's found none."""
    inferred = onnx.shape_inference.infer_shapes(model)
    for mine, found in zip(model.graph.output, inferred.graph.output, strict=True):
        if _open(mine):
            mine.CopyFrom(found)
        if not mine.HasField("type"):
            raise UnsupportedError(f"the element type of '{mine.name}' is not known")


def write_model_proto(model: ModelProto, target: str | os.PathLike[str]) -> None:
    """Writes an ONNX file, which takes its place when it is whole."""
    data = model.SerializeToString()
    with replacing(target) as file:
        file.write(data)


def _graph(graph: Graph, shared: Shared, report: Report) -> GraphProto:
    e = Exporter(shared)
    made = GraphProto(name=graph.name or "graph")
    constant = {}
    for value in (*graph.inputs, *graph.outputs):  # names that users know come first
        if not value.is_const:
            e.name(value)
        elif value not in graph.inputs:
            constant[value] = shared.unique(value.name or "output")
    made.input.extend(_info(e, v) for v in graph.inputs if not v.is_const)
    for node in graph.nodes:
        _node(e, node, report)
    produced = {out for node in graph.nodes for out in node.outputs}
    given = {v.name for v in made.input}
    for value in graph.outputs:
        name = e.name(value)
        if value not in produced or name in given:  # a constant, an input, or what is an output twice
            e.base = value.name or "output"
            name = e.op("Identity", name)
            if value in constant:
                name = constant.pop(value)
                e.nodes[-1].output[0] = name
        given.add(name)
        info = _info(e, value) if value.dtype is not None else ValueInfoProto()
        info.name = name
        made.output.append(info)
    made.node.extend(e.nodes)
    return made


def _node(e: Exporter, node: Node, report: Report) -> None:
    e.base = node.name or node.op
    handler = table.find(node.op)
    if handler is None:
        report.unknown_operator(node.name, node.op, "", _ADVICE)
        return
    start = len(e.nodes)
    try:
        found = handler(e, node)
    except UnsupportedError as error:
        del e.nodes[start:]
        report.form(node.name, node.op, error)
        return
    names = [found] if isinstance(found, str) else list(found)
    if traits(node).gives_sequence:
        e.shared.lists.update(id(v) for v in node.outputs)
    for value, name in zip(node.outputs, names, strict=False):
        if not _renamed(e, start, name, e.name(value)):
            copy = e.op("Identity", name)
            _renamed(e, len(e.nodes) - 1, copy, e.name(value))


def _renamed(e: Exporter, start: int, old: str, new: str) -> bool:
    """Gives what a node of this handler made its proper name."""
    fresh = e.nodes[start:]
    maker = next((n for n in fresh if old in n.output), None)
    if maker is None:
        return False
    for node in fresh:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    return True


def _info(e: Exporter, value: Value) -> ValueInfoProto:
    if value.dtype is None or value.dtype not in CODES:
        raise UnsupportedError(f"the element type of '{value.name}' is not known, or not one of ONNX")
    shape: list[object] | None = None
    if value.shape is not None:
        shape = [int(d) if isinstance(d, (int, np.integer)) else str(d) for d in value.shape]
    if id(value) in e.shared.lists:
        return helper.make_tensor_sequence_value_info(e.name(value), CODES[value.dtype], None)
    return helper.make_tensor_value_info(e.name(value), CODES[value.dtype], shape)
