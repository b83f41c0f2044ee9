"""Moves weights out of a Net into ``<model file>.weight``, and writes both files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.schema.external import ExternalWriter
from MNN.schema.files import path_of, replacing
from MNN.schema.record import Record
from MNN.schema.tables import Kind
from MNN.schema.writer import MAX_BYTES, save_net, write_net

#: Constants of at most this many elements stay in the model, where shape computation finds them.
SMALL = 1024
#: Vectors of a constant that the official engine can load from outside, by element type.
_BLOB_VECTORS = {
    "DT_FLOAT": "float32s",
    "DT_BFLOAT16": "uint8s",
    "DT_INT32": "int32s",
    "DT_UINT8": "uint8s",
    "DT_INT8": "int8s",
}


def write_model(net: Record, path: str | os.PathLike[str], external: bool | None = None) -> list[Path]:
    """Writes a Net to ``path``; its weights go to ``<path>.weight`` when ``external`` is true. Gives the files written.

    With None they do so only when one file cannot hold them (2 GB). Both files are complete before the first takes its
    place, so that a disk that fills up leaves what was there; the weights come first, then the model.
    """
    target = path_of(path)
    if external is None:
        external = vector_bytes(net) > MAX_BYTES - (64 << 20)
    if not external:
        write_net(net, target)
        return [target]
    with replacing(target) as file, ExternalWriter(target) as writer:
        save_net(externalize(net, writer), file)
        return [target, writer.path]


def vector_bytes(record: Record) -> int:
    """Bytes of all scalar vectors in a record and what it holds."""
    total, stack = 0, [record]
    while stack:
        for field, value in stack.pop().present():
            if field.kind is Kind.VECTOR:
                total += value.nbytes
            elif field.kind in (Kind.TABLE, Kind.UNION):
                stack.append(value)
            elif field.kind is Kind.TABLES:
                stack.extend(value)
    return total


def externalize(net: Record, writer: ExternalWriter) -> Record:
    """A copy of ``net`` whose large weights were appended to ``writer``; ``net`` itself stays as it is."""
    slim = net.copy()
    if net.oplists:
        slim.oplists = [_op(op, writer) for op in net.oplists]
    if net.subgraphs:
        slim.subgraphs = [_graph(graph, writer) for graph in net.subgraphs]
    return slim


def _graph(graph: Record, writer: ExternalWriter) -> Record:
    slim = graph.copy()
    if graph.nodes:
        slim.nodes = [_op(op, writer) for op in graph.nodes]
    return slim


def _op(op: Record, writer: ExternalWriter) -> Record:
    move = _MOVERS.get(op.main.table_name) if op.main is not None else None
    if move is None or op.externalPath:
        return op
    main = op.main.copy()
    if main.get("external") is not None:
        raise FormatError(f"operator {op.name!r} has external data already; read the model's weights in first")
    if main.table_name == "Convolution2D" and len(op.get("inputIndexes", ())) > 1:
        return op  # the weight is an input
    if not move(main, writer):
        return op
    slim = op.copy()
    slim.main = main
    return slim


def _take(record: Record, name: str, dtype: Any = np.float32) -> np.ndarray[Any, np.dtype[Any]]:
    array: np.ndarray[Any, np.dtype[Any]] = record.get(name, np.empty(0, dtype))
    delattr(record, name)
    return array


def _convolution(main: Record, writer: ExternalWriter) -> bool:
    if main.quanParameter is None:
        if not main.has("weight") or main.weight.size == 0:
            return False
        main.external = writer.add(_take(main, "weight"), _take(main, "bias"))
        return True
    quan = main.quanParameter.copy()
    alpha = "alphaFp16" if quan.scaleStorage == "FP16" else "alpha"
    parts = [_take(quan, "buffer", np.int8), _take(quan, alpha), _take(main, "bias"), _take(quan, "index", np.uint32)]
    main.quanParameter = quan
    main.external = writer.add(*parts)
    return True


def _scale(main: Record, writer: ExternalWriter) -> bool:
    if not main.has("scaleData"):
        return False
    names = [name for name in ("scaleData", "biasData") if main.has(name)]
    main.external = writer.add(*(_take(main, name) for name in names))
    return True


def _layer_norm(main: Record, writer: ExternalWriter) -> bool:
    if not (main.has("gamma") and main.has("beta")):
        return False
    main.external = writer.add(_take(main, "gamma"), _take(main, "beta"))
    return True


def _blob(main: Record, writer: ExternalWriter) -> bool:
    name = _BLOB_VECTORS.get(main.dataType)
    if name is None or not main.has(name) or int(np.prod(main.get("dims", np.ones(1)), dtype=np.float64)) <= SMALL:
        return False
    main.external = writer.add(_take(main, name))
    return True


_MOVERS = {"Convolution2D": _convolution, "Scale": _scale, "LayerNorm": _layer_norm, "Blob": _blob}
