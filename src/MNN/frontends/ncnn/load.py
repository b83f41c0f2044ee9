"""From a .param and its .bin file to a graph: read, verify, convert every layer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.common.problems import REGISTER
from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.file import Layer, parse
from MNN.frontends.ncnn.inputs import described, shape_of_input
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.registry import TABLE
from MNN.frontends.ncnn.unsupported import ADVICE
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.custom import registered_operator
from MNN.schema.files import MappedFile, open_regular

CUSTOM_DOMAIN = "ncnn"
"""Where users register operators of their own for custom layers of files (``MNN.ops.custom``)."""
MAX_PARAM = 64 << 20
"""Bytes of a .param file."""
MISFITS = (ValueError, TypeError, ArithmeticError, LookupError)


def load(
    source: str | os.PathLike[str] | bytes,
    inputs: Mapping[str, str] | None = None,
    weights: str | os.PathLike[str] | bytes | None = None,
) -> Graph:
    """The graph of an ncnn model: the path or the bytes of its ``.param`` (or ``.param.bin``) file.

    ``weights``: the ``.bin`` file, by default the one beside it that is called like it (``x.param`` and ``x.bin``).
    ``inputs``: shapes of inputs that the file does not tell, as texts: ``3x224x224``, or ``3,height,width`` with names
    of open sizes, ``i32:77`` of another type than f32. Tensors keep the names and shapes that ncnn has (images are
    ``[channels, height, width]``, without a batch).

    Raises :class:`~MNN.errors.FormatError` for malformed files, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    layers = parse(_param(source))
    loader = _Loader(layers, described(inputs or {}, layers))
    loader.report_unknown()
    data, name = _weights(source, weights, layers)
    return loader.graph(WeightReader(data, name))


def _param(source: str | os.PathLike[str] | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    with open_regular(Path(source)) as file:
        data = file.read(MAX_PARAM + 1)
    if len(data) > MAX_PARAM:
        raise FormatError(f"{source}: a .param file of more than {MAX_PARAM >> 20} MiB")
    return data


def _weights(
    source: str | os.PathLike[str] | bytes, given: str | os.PathLike[str] | bytes | None, layers: list[Layer]
) -> tuple[memoryview, str]:
    """The numbers, and what their file is called."""
    if isinstance(given, bytes):
        return memoryview(given), "the .bin file"
    needed = any(_has_weights(layer) for layer in layers)
    if given is None:
        if isinstance(source, bytes):
            if needed:
                raise MNNError("the weights of an ncnn model lie in a file beside it: give paths, or weights=")
            return memoryview(b""), "the .bin file"
        path = Path(source)
        stem = path.name.removesuffix(".bin").removesuffix(".param")
        given = path.with_name(f"{stem}.bin")
        if not given.is_file():
            if needed:
                raise MNNError(
                    f"{path} is an ncnn model whose weights should be in {given.name} beside it; it is missing"
                )
            return memoryview(b""), given.name
    with open_regular(Path(given)) as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(MappedFile.of(file, given) if size else b""), Path(given).name


def _has_weights(layer: Layer) -> bool:
    entry = TABLE.find(layer.type)
    if entry is None or entry.weights is None:
        return False
    try:
        entry.weights(layer.params, WeightReader(b"", ""))
    except FormatError:
        return True
    except MISFITS as error:
        raise _malformed(layer, error) from error
    return False


def _malformed(layer: Layer, error: Exception) -> FormatError:
    return FormatError(
        f"{layer.where}: its parameters do not fit the layer ({type(error).__name__}: {error}); is the model damaged?"
    )


class _Loader:
    """Converts the layers of one model."""

    def __init__(self, layers: list[Layer], given: dict[str, tuple[DType, tuple[int | str, ...]]]) -> None:
        self.layers = layers
        self.given = given
        self.model = ModelState()

    def report_unknown(self) -> None:
        """Raises at once for layers whose weights cannot be passed over, as nothing tells how many they have."""
        for layer in self.layers:
            if TABLE.find(layer.type) is None and registered_operator(layer.type, CUSTOM_DOMAIN, 1) is None:
                advice = ADVICE.get(layer.type) or f"{REGISTER} (domain '{CUSTOM_DOMAIN}')"
                self.model.report.unknown_operator(layer.name, layer.type, "", advice)
        self.model.report.raise_if_any()

    def graph(self, reader: WeightReader) -> Graph:
        weights = [self._weights(layer, reader) for layer in self.layers]
        reader.finish()
        graph = Graph(name="ncnn")
        ctx = Context(self.model, graph)
        used: set[str] = set()
        for number, (layer, found) in enumerate(zip(self.layers, weights, strict=True)):
            if layer.type == "Input":
                self._input(ctx, layer, number)
                continue
            used.update(layer.inputs)
            self._layer(ctx, layer, found)
        self.model.report.raise_if_any()
        leaves = [b for layer in self.layers if layer.type != "Input" for b in layer.outputs if b not in used]
        graph.outputs = [self._output(ctx, blob) for blob in leaves]
        if not graph.outputs:
            raise FormatError("the .param file has no layers that make an output")
        graph.meta = {"source": "NCNN"}
        return graph

    def _weights(self, layer: Layer, reader: WeightReader) -> dict[str, np.ndarray]:
        entry = TABLE.find(layer.type)
        if entry is None or entry.weights is None:
            return {}
        reader.where = layer.where
        try:
            return entry.weights(layer.params, reader)
        except MISFITS as error:
            raise _malformed(layer, error) from error

    def _input(self, ctx: Context, layer: Layer, number: int) -> None:
        for blob in layer.outputs:
            try:
                dtype, shape = self.given.get(blob) or shape_of_input(self.layers, number, blob)
            except MISFITS as error:
                raise _malformed(layer, error) from error
            value = Value(self.model.unique(blob), dtype, shape)
            ctx.graph.inputs.append(value)
            batched = ctx.op("Unsqueeze", value, squeezeDims=[0])
            batched.dtype = dtype
            ctx.scope[blob] = batched

    def _layer(self, ctx: Context, layer: Layer, weights: dict[str, np.ndarray]) -> None:
        node = NcnnNode(layer, [ctx.scope[b] for b in layer.inputs], weights)
        entry = TABLE.find(layer.type)
        handler = _registered if entry is None else entry.handler
        names = [self.model.unique(b) for b in layer.outputs]
        error = ctx.convert(layer.name, layer.where, names, lambda: handler(ctx, node))
        for name, blob in zip(names, layer.outputs, strict=True):
            ctx.scope[blob] = ctx.scope[name]
        if error is not None:
            self.model.report.form(layer.name, layer.type, error)

    def _output(self, ctx: Context, blob: str) -> Value:
        """A result without the axis in front, under the name that the file has for it."""
        inner = ctx.scope[blob]
        if inner.name == blob:
            self.model.taken.discard(blob)
            inner.name = self.model.unique(f"{blob}/batched")
        out = ctx.op("Squeeze", inner, squeezeDims=[0])
        self.model.taken.discard(out.name)
        out.name, out.dtype = self.model.unique(blob), inner.dtype
        return out


def _registered(ctx: Context, node: NcnnNode) -> list[Value]:
    """A layer of a type that the user registered: parameters are taken in the order in which attributes are declared;
    tensors are those of ncnn, without the axis in front."""
    registration = registered_operator(node.op, CUSTOM_DOMAIN, 1)
    assert registration is not None
    attrs: dict[str, object] = {}
    for key, (name, default) in enumerate(registration.attributes.items()):
        if not node.params.has(key):
            if default is ...:
                raise FormatError(f"{node.where}: parameter {key} ({name}) is missing")
            continue
        number = node.params.real(key) if isinstance(default, float) else node.params.integer(key)
        attrs[name] = number if not isinstance(default, (list, tuple)) else node.params.floats(key)
    plain = [ctx.op("Squeeze", v, squeezeDims=[0]) for v in node.inputs]
    made = ctx.emit(registration.op, plain, len(node.outputs), **attrs)
    return [ctx.op("Unsqueeze", v, squeezeDims=[0]) for v in made]


__all__ = ["load"]
