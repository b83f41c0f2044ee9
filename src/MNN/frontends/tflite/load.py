"""From a .tflite file to a graph: read, verify, convert every operation."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.common.problems import REGISTER
from MNN.frontends.tensorflow.refused import advice as refused
from MNN.frontends.tflite import flex
from MNN.frontends.tflite.complex_tensors import applied, takes_complex
from MNN.frontends.tflite.context import Context, ModelInfo
from MNN.frontends.tflite.file import MAX_OPERATIONS, TOO_MANY, Operation, Signature, Subgraph, Tensor, TfliteFile, read
from MNN.frontends.tflite.node import TfliteNode, quantization_of
from MNN.frontends.tflite.registry import CUSTOM, TABLE, Entry
from MNN.frontends.tflite.unsupported import ADVICE
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.custom import registered_operator

CUSTOM_DOMAIN = "tflite"
"""Where users register operators of their own for custom ones of files (``MNN.ops.custom``)."""


def load(source: str | os.PathLike[str] | bytes, signature: str | None = None) -> Graph:
    """The graph of a TensorFlow Lite model given as a path or as the file's bytes.

    ``signature``: the key of the entry to take, of a model that has several; by default the first subgraph. Tensors
    keep the names, and inputs and outputs the shapes, that the file has (images are NHWC). ``Graph.meta`` holds
    ``source``, ``signatures`` (key to the names of inputs and outputs, of this entry), ``entries`` (all keys), and, for
    models that remember, ``states``.

    Raises :class:`~MNN.errors.FormatError` for malformed models, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    return _Loader(read(source)).model(signature)


class _Loader:
    """Converts the subgraphs of one model."""

    def __init__(self, file: TfliteFile) -> None:
        self.file = file
        self.info = ModelInfo(file=file, inline=self.inline)
        self.left = MAX_OPERATIONS

    def model(self, signature: str | None) -> Graph:
        chosen = self._signature(signature)
        number = 0 if chosen is None else chosen.subgraph
        subgraph = self.file.subgraphs[number]
        graph = Graph(name=subgraph.name)
        ctx = Context(self.info, graph)
        given: list[Value | None] = []
        for index in subgraph.inputs:
            tensor = subgraph.tensors[index]
            value = Value(self.info.unique(tensor.name), tensor.dtype, _shape(tensor))
            if tensor.dtype is None:
                error = UnsupportedError(f"input '{tensor.name}' is of type {tensor.type}")
                self.info.report.form(tensor.name, "input", error)
            ctx.scope[value.name] = value
            graph.inputs.append(value)
            given.append(value)
        graph.outputs = self._converted(ctx, subgraph, given, "")
        if any(flex.is_handle(v) for v in graph.outputs):
            raise FormatError(f"'{subgraph.name}': an output is a list of tensors; is the model damaged?")
        self.info.report.raise_if_any()
        graph.meta = {"source": "TFLITE", "producer": self.file.description}
        names = {s.key: self._names(s, graph) for s in self.file.signatures if s.subgraph == number}
        if names:
            graph.meta["signatures"] = names
            graph.meta |= {
                "signature": signature or next(iter(names)),
                "entries": [s.key for s in self.file.signatures],
            }
        self.info.memory.finish(graph)
        return graph

    def _signature(self, key: str | None) -> Signature | None:
        if key is None:
            return None
        found = next((s for s in self.file.signatures if s.key == key), None)
        if found is None:
            known = ", ".join(s.key for s in self.file.signatures) or "none"
            raise MNNError(f"the model has no signature '{key}'; it has {known}")
        return found

    def _names(self, signature: Signature, graph: Graph) -> dict[str, dict[str, str]]:
        subgraph = self.file.subgraphs[signature.subgraph]
        places = (
            dict(zip(subgraph.inputs, graph.inputs, strict=True)),
            dict(zip(subgraph.outputs, graph.outputs, strict=True)),
        )
        sides = zip((signature.inputs, signature.outputs), places, strict=True)
        ins, outs = ({name: at[i].name for name, i in named.items() if i in at} for named, at in sides)
        return {"inputs": ins, "outputs": outs}

    def inline(self, ctx: Context, number: int, inputs: Sequence[Value | None]) -> list[Value]:
        """A subgraph converted into the graph of ``ctx``."""
        subgraph = self.file.subgraphs[number]
        if len(inputs) != len(subgraph.inputs):
            raise FormatError(f"subgraph '{subgraph.name}' takes {len(subgraph.inputs)} inputs, not {len(inputs)}")
        return self._converted(ctx, subgraph, inputs, f"{subgraph.name}/")

    def _converted(self, ctx: Context, subgraph: Subgraph, inputs: Sequence[Value | None], prefix: str) -> list[Value]:
        """All operations of a subgraph; the values of its outputs. ``prefix`` sets its names apart from others."""
        values: list[Value | None] = [None] * len(subgraph.tensors)
        for index, value in zip(subgraph.inputs, inputs, strict=True):
            values[index] = value
        self.left -= len(subgraph.operations)
        if self.left < 0:
            raise FormatError(TOO_MANY)
        for operation in subgraph.operations:
            self._operation(ctx, subgraph, operation, values, prefix)
        outputs = []
        for index in subgraph.outputs:
            found = self._value(ctx, subgraph.tensors[index], values, prefix)
            if found is None:
                raise FormatError(f"'{subgraph.name}': nothing makes output '{subgraph.tensors[index].name}'")
            outputs.append(found)
        return outputs

    def _value(self, ctx: Context, tensor: Tensor, values: list[Value | None], prefix: str) -> Value | None:
        """The value of a tensor: made before, or a constant, a variable, or nothing at all."""
        known = values[tensor.index]
        if known is not None:
            return known
        if tensor.variable:
            shape = tuple(d if isinstance(d, int) else 1 for d in tensor.sizes)
            name, q = f"{prefix}{tensor.name}", quantization_of(tensor)
            if tensor.type == "INT8" and q is not None and q.zero.any():  # what stands for zero
                self.info.memory.variable(name).initial = np.full(shape, q.zero.reshape(-1)[0], np.int8)
            return self.info.memory.read(name, tensor.dtype, shape)
        data = tensor.data
        if data is None and 0 in tensor.sizes and tensor.dtype is not None:
            data = np.zeros(tensor.sizes, tensor.dtype.numpy)
        if data is None:
            return None
        name = self.info.unique(f"{prefix}{tensor.name}")
        values[tensor.index] = made = Value(name, DType.of(data), tuple(data.shape), data)
        return made

    def _operation(
        self, ctx: Context, subgraph: Subgraph, operation: Operation, values: list[Value | None], prefix: str
    ) -> None:
        tensors = subgraph.tensors
        results = [tensors[i] for i in operation.outputs if i >= 0]
        names = []
        for tensor in results:
            if values[tensor.index] is not None or tensor.data is not None:
                raise FormatError(f"'{subgraph.name}': tensor '{tensor.name}' is made twice; is the model damaged?")
            names.append(self.info.unique(f"{prefix}{tensor.name}"))
            ctx.declare(names[-1], tensor.dtype, None)
        base = names[0] if names else self.info.unique(f"{prefix}{operation.op}")
        given = [None if i < 0 else self._value(ctx, tensors[i], values, prefix) for i in operation.inputs]
        described = [None if i < 0 else tensors[i] for i in operation.inputs]
        kept = [f"{prefix}{t.name}" if t is not None and t.variable else None for t in described]
        between = [tensors[i] for i in operation.intermediates if i >= 0]
        node = TfliteNode(operation, base, given, names, described, results, kept, between)
        for index, value in zip(operation.inputs, given, strict=True):
            if index >= 0 and value is None:
                raise FormatError(f"{node.where}: nothing makes its input '{tensors[index].name}'")
        entry = TABLE.find(f"{CUSTOM}{operation.op}" if operation.custom else operation.op)
        if operation.custom and entry is None:
            entry = flex.entry(operation.op)
        if not flex.takes_handles(node) and any(flex.is_handle(v) for v in given):
            raise FormatError(f"{node.where}: it is given a list of tensors; is the model damaged?")
        if operation.custom and registered_operator(operation.op, CUSTOM_DOMAIN, 1) is not None:
            entry = Entry(_registered, stored=True)
        if entry is None:
            self._unknown(ctx, node)
        else:
            self._handled(ctx, node, entry)
        for tensor, name in zip(results, names, strict=True):
            values[tensor.index] = ctx.scope[name]

    def _handled(self, ctx: Context, node: TfliteNode, entry: Entry) -> None:
        def call() -> list[Value]:
            handler = entry.handler
            made = applied(ctx, node, handler) if takes_complex(node) else handler(ctx, node)
            found = [made] if isinstance(made, Value) else list(made)
            if entry.stored:
                return found
            described = zip(found, node.tensors_out, range(len(found)), strict=False)
            return [ctx.stored(v, node.result_quantization(i), t.dtype) for v, t, i in described]

        error = ctx.convert(node.name, node.where, node.outputs, call)
        if error is not None:
            self.info.report.form(node.name, node.op, error)

    def _unknown(self, ctx: Context, node: TfliteNode) -> None:
        custom = node.operation.custom
        advice = f"{REGISTER} (domain '{CUSTOM_DOMAIN}')" if custom else ADVICE.get(node.op, "")
        if custom and node.op.startswith(flex.PREFIX):
            advice = refused(node.op.removeprefix(flex.PREFIX)) or advice
        self.info.report.unknown_operator(node.name, node.op, "custom" if custom else "", advice)
        ctx.leave_open(node.outputs)


def _shape(tensor: Tensor) -> tuple[int | str, ...]:
    """An input's sizes; open ones are named after it."""
    return tuple(f"{tensor.name}.{i}" if d < 0 else d for i, d in enumerate(tensor.sizes))


def _registered(ctx: Context, node: TfliteNode) -> Sequence[Value]:
    """A node of an operator that the user registered: its options are taken as they are declared."""
    registration = registered_operator(node.op, CUSTOM_DOMAIN, 1)
    assert registration is not None
    given = node.custom() if node.operation.custom_options else {}
    attrs: dict[str, object] = {}
    for key, default in registration.attributes.items():
        if key in given:
            attrs[key] = given[key]
        elif default is ...:
            raise FormatError(f"{node.where}: option '{key}' is missing")
    return ctx.emit(registration.op, node.inputs, len(node.outputs), **attrs)


__all__ = ["load"]
