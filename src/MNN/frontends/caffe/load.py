"""From Caffe's files to a graph: read, take the layers of the test phase, convert each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from MNN.errors import FormatError
from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.inputs import Inputs, is_source
from MNN.frontends.caffe.message import Field, Message
from MNN.frontends.caffe.net import Layer, layers_of, state_of
from MNN.frontends.caffe.node import CaffeNode, MissingWeightsError
from MNN.frontends.caffe.operators.losses import READ_NOTHING
from MNN.frontends.caffe.registry import WEIGHTED, Handler, table
from MNN.frontends.caffe.sources import Files, open_files
from MNN.frontends.caffe.unsupported import DOMAIN, advice
from MNN.frontends.common.graph_builder import ModelState
from MNN.ir.graph import Graph, Value
from MNN.ops.custom import Registration, registered_operator


def load(
    source: str | os.PathLike[str] | bytes,
    inputs: Mapping[str, str] | None = None,
    prototxt: str | os.PathLike[str] | None = None,
) -> Graph:
    """The graph of a Caffe network: ``source`` is a caffemodel (a path or bytes) or a prototxt (a path).

    The description is ``prototxt``, or the prototxt beside a caffemodel (of its name, ``deploy.prototxt``, or the only
    one), or the one within the caffemodel; the weights of a prototxt lie beside it in the same way. Layers of the test
    phase are taken; blobs that a layer changes in place have their names after the last change. ``inputs``: shapes
    by name (``1x3x227x227``) of blobs that the file tells none of, or other ones.

    Raises :class:`~MNN.errors.FormatError` for malformed files and missing weights, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    return _Loader(open_files(source, prototxt), inputs or {}).graph()


class _Loader:
    def __init__(self, files: Files, given: Mapping[str, str]) -> None:
        self.files = files
        state = state_of(files.net)
        self.layers = [layer for layer in layers_of(files.net) if state.includes(layer)]
        if not self.layers:
            raise FormatError(f"{files.net.where} holds no layers of the test phase; is it a network's description?")
        self.weights: dict[str, list[Message]] = {}
        if files.weights is not None:
            stored = self.layers if files.weights is files.net else layers_of(files.weights)
            self.weights = {layer.name: layer.blobs for layer in stored if layer.blobs}
        self.info = ModelState()
        self.ctx = Context(self.info, Graph(name=files.net.text("name")))
        self.inputs = Inputs(files.net.where, given, self.layers, self.weights)
        self.blobs: dict[str, Value] = {}
        self.ends: dict[str, None] = {}
        """Blobs that no layer has read since they were made: the outputs, as Caffe has it."""
        self.lacking: list[str] = []

    def graph(self) -> Graph:
        graph = self.ctx.graph
        last = {top: number for number, layer in enumerate(self.layers) for top in layer.tops}
        self.info.taken.update(last)
        self.lacking = [f"{n.type} '{n.name}'" for n in self.layers if _needs(n) and not self.weights.get(n.name)]
        self._check_weights()  # at once, as the shapes of what follows are not known without them
        for number, layer in enumerate(self.layers):
            if is_source(layer):
                self._source(layer)
            else:
                final = {top for top in layer.tops if last[top] == number and not self._is_input(top)}
                self._layer(layer, final)
        self._check_weights()
        self.info.report.raise_if_any()
        graph.outputs = [self.blobs[name] for name in self.ends]
        if not graph.outputs:
            raise FormatError(f"{self.files.net.where}: the network makes no blob; has it layers of the test phase?")
        graph.meta = {"source": "CAFFE", "description": self.files.net.where.strip("'")}
        return graph

    def _is_input(self, blob: str) -> bool:
        return any(v.name == blob for v in self.ctx.graph.inputs)

    def _source(self, layer: Layer) -> None:
        """Blobs that come from outside: inputs of the graph where a layer reads them, constants where they are such."""
        for index, top in enumerate(layer.tops):
            value = self.inputs.value(layer, index)
            if value is None:
                continue
            if value.data is None:
                if self._is_input(top):
                    raise FormatError(f"{layer.type} '{layer.name}': the blob '{top}' is an input already")
                self.ctx.graph.inputs.append(value)
            self.ctx.scope[top] = self.blobs[top] = value

    def _layer(self, layer: Layer, final: set[str]) -> None:
        read = []
        if layer.type in READ_NOTHING:
            return
        if "" in layer.tops:
            raise FormatError(f"{layer.type} '{layer.name}' makes a blob without a name")
        for bottom in layer.bottoms:
            if bottom not in self.blobs:
                if self.inputs.is_label(bottom):
                    continue
                value = self.inputs.undeclared(layer, bottom)
                self.ctx.graph.inputs.append(value)
                self.ctx.scope[bottom] = self.blobs[bottom] = value
            read.append(self.blobs[bottom])
            self.ends.pop(bottom, None)
        names = [top if top in final else self.info.unique(f"{top}/{layer.name}") for top in layer.tops]
        node = CaffeNode(layer, read, self.weights.get(layer.name))
        base = layer.name if layer.name and layer.name not in self.info.taken else (names[0] if names else layer.type)
        self._convert(node, base, names)
        for top, name in zip(layer.tops, names, strict=True):
            self.blobs[top] = self.ctx.scope[name]
            self.ends[top] = None

    def _convert(self, node: CaffeNode, base: str, names: Sequence[str]) -> None:
        registration = _registration(node)
        handler: Handler | None = _registered if registration is not None else table.find(node.op)
        if handler is None:
            self.info.report.unknown_operator(node.name, node.op, "", advice(node.op))
            self.ctx.leave_open(names)
            return

        def call() -> list[Value]:
            made = handler(self.ctx, node)
            unread = node.unread() if registration is None else []
            if unread:
                raise node.unsupported(f"the parameter {', '.join(unread)}")
            return [made] if isinstance(made, Value) else list(made)

        error = self.ctx.convert(base, node.where, names, call)
        if isinstance(error, MissingWeightsError):
            self.lacking.append(node.where)
        elif error is not None:
            self.info.report.form(node.name, node.op, error)

    def _check_weights(self) -> None:
        if not self.lacking:
            return
        some = ", ".join(self.lacking[:5]) + (f" and {len(self.lacking) - 5} more" if len(self.lacking) > 5 else "")
        if self.files.weights is None:
            looked = f"; looked for {self.files.beside}" if self.files.beside else ""
            raise FormatError(
                f"{self.files.net.where} describes a network without its weights: there are none for {some}{looked}. "
                "Put the caffemodel beside it, or convert that with --prototxt"
            )
        raise FormatError(
            f"{self.files.weights.where} has no weights for {some}: do it and {self.files.net.where} belong together?"
        )


def _needs(layer: Layer) -> bool:
    """Whether a layer cannot be without weights."""
    param = layer.message.message
    if layer.type in ("Scale", "Bias"):
        return len(layer.bottoms) == 1
    if layer.type == "Deconvolution":
        return param("convolution_param").message("weight_filler").text("type") != "bilinear"
    if layer.type == "BatchNorm":
        return param("batch_norm_param").flag("use_global_stats", True)
    return layer.type in WEIGHTED


def _registration(node: CaffeNode) -> Registration | None:
    """The user's own operator for a layer: of its type, or of the class that a Python layer names."""
    kind = node.layer.message.message("python_param").text("layer") if node.op == "Python" else node.op
    return registered_operator(kind, DOMAIN, 1) if kind else None


def _registered(ctx: Context, node: CaffeNode) -> Sequence[Value]:
    """A layer of a type that the user registered: its parameters are taken from its messages as they are declared, its
    weights come after its blobs."""
    registration = _registration(node)
    assert registration is not None
    given: dict[str, Field | list[Field]] = {}
    for messages in node.layer.message.fields.values():
        for message in messages:
            if isinstance(message, Message):
                given |= {key: v if len(v) > 1 else v[0] for key, v in message.fields.items()}
    attrs: dict[str, object] = {}
    for key, default in registration.attributes.items():
        if key in given:
            value = given[key]
            attrs[key] = [value] if isinstance(default, list) and not isinstance(value, list) else value
        elif default is ...:
            raise FormatError(f"{node.where}: parameter '{key}' is missing")
    weights = [ctx.const(node.weight(i)) for i in range(node.blobs)]
    return ctx.emit(registration.op, [*node.inputs, *weights], node.outputs, **attrs)


__all__ = ["load"]
