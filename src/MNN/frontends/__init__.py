"""Model files of every kind to graphs."""

from __future__ import annotations

import os
from pathlib import Path

from MNN.errors import FormatError, MNNError
from MNN.ir.graph import Graph

KINDS = ("onnx", "mnn", "json")


def load_graph(source: str | os.PathLike[str] | bytes, kind: str | None = None) -> Graph:
    """The graph in a model file (a path) or in its bytes.

    ``kind`` is one of ``onnx``, ``mnn``, ``json`` (a dumped .mnn file); by default the file's name tells, and its
    content where there is no name or it says nothing. Raises :class:`MNNError`.
    """
    found = kind or _kind(source)
    if found == "onnx":
        from MNN.frontends.onnx import load as load_onnx

        return load_onnx(source)
    from MNN.frontends.mnn.read import graph_of, load

    if found == "mnn":
        return load(source)
    if found == "json":
        from MNN.schema import from_json

        text = source if isinstance(source, bytes) else Path(source).read_bytes()
        return graph_of(from_json(text, "Net"))
    raise MNNError(f"models of kind '{found}' cannot be read; known are {', '.join(KINDS)}")


def _kind(source: str | os.PathLike[str] | bytes) -> str:
    if not isinstance(source, bytes):
        path = Path(source)
        if not path.is_file():
            raise MNNError(f"no such file: {path}")
        suffix = path.suffix.lower().lstrip(".")
        if suffix in KINDS:
            return suffix
        with path.open("rb") as file:
            head = file.read(64)
    else:
        head = source[:64]
    if not head:
        raise FormatError("the file is empty")
    if head.lstrip()[:1] == b"{":
        return "json"
    # An ONNX file starts with field 1 (ir_version) as a varint; a flatbuffer with the offset of its root table.
    return "onnx" if head[0] == 0x08 and len(head) > 2 and head[2] in (0x12, 0x3A, 0x1A, 0x22, 0x42) else "mnn"
