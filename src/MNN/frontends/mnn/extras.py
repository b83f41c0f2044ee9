"""What a .mnn file written here says beyond the format: element types, names of symbolic sizes, attributes.

It is the attribute ``mnn-py`` (JSON text) of the ``Extra`` table that ``Net.extraInfo.buffer`` holds. The official
engine looks there for metadata and finds one more string. What decides what is computed is in the operators themselves;
without this side table the model still runs, with 32-bit integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.mnn.official import composites as composite_ops
from MNN.frontends.mnn.official.registry import official
from MNN.ir.dtype import DType
from MNN.ir.shape import Shape
from MNN.ir.symbolic import parse
from MNN.schema.reader import read_table
from MNN.schema.record import Record
from MNN.schema.writer import write_table

KEY = "mnn-py"
_MAX_RANK = 64
_MAX_EXTENT = 1 << 48


@dataclass
class GraphNotes:
    """Notes on one (sub)graph. ``nodes`` maps the name of a node's first output to what its operator cannot hold:
    ``op`` (the operator it was written for), ``attrs``."""

    dtypes: dict[str, DType] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    composite_ops: list[dict[str, Any]] = field(default_factory=list)
    """Operators that others stand for, see :mod:`MNN.frontends.mnn.official.composites`."""

    def copy(self, old: str, new: str) -> None:
        """What is noted of a tensor is noted of another too."""
        tables: tuple[dict[str, Any], ...] = (self.dtypes, self.shapes, self.nodes)
        for table in tables:
            if old in table:
                table[new] = table[old]

    def to_json(self) -> dict[str, Any]:
        for name, shape in self.shapes.items():
            if len(shape) > _MAX_RANK or any(isinstance(d, int) and not 0 <= d <= _MAX_EXTENT for d in shape):
                raise FormatError(f"'{name}': {list(shape)} is no shape of a tensor that a file can hold")
        return {
            "dtypes": {name: dtype.value for name, dtype in self.dtypes.items()},
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "nodes": self.nodes,
            **({"wholes": self.composite_ops} if self.composite_ops else {}),
        }


@dataclass
class Notes:
    """All notes of a file; ``graphs`` by the subgraph's name, the model itself under ``""``."""

    graphs: dict[str, GraphNotes] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def graph(self, name: str) -> GraphNotes:
        return self.graphs.setdefault(name, GraphNotes())


def store(notes: Notes, metadata: dict[str, str]) -> np.ndarray:
    """The bytes for ``ExtraInfo.buffer``; ``metadata`` are strings for any reader."""
    text = json.dumps({"meta": notes.meta, "graphs": {n: g.to_json() for n, g in notes.graphs.items()}})
    attrs = [Record("Attribute", key=KEY, s=text)]
    attrs += [Record("Attribute", key=k, s=v) for k, v in metadata.items() if k != KEY]
    data = write_table(Record("Extra", attr=attrs))
    assert data is not None
    return np.frombuffer(data, np.int8)


def load(net: Record) -> tuple[Notes | None, dict[str, str]]:
    """Notes (None for files written elsewhere) and metadata of a file.

    A buffer that is no ``Extra`` table belongs to someone else and is ignored. Raises
    :class:`~MNN.errors.FormatError` when notes are there and malformed.
    """
    info = net.extraInfo
    buffer = None if info is None else info.get("buffer")
    if buffer is None or buffer.size < 8:
        return None, {}
    try:
        extra = read_table(buffer.tobytes(), "Extra")
    except FormatError:
        return None, {}
    metadata = {a.key: a.s for a in extra.attr or [] if a.key and a.s is not None}
    text = metadata.pop(KEY, None)
    return (None if text is None else _parse(text)), metadata


def _parse(text: str) -> Notes:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"extraInfo: the notes are not JSON: {str(error)[:200]}") from error
    notes = Notes(meta=_object(_object(data, "notes").get("meta", {}), "meta"))
    for name, graph in _object(data.get("graphs", {}), "graphs").items():
        _object(graph, "graph")
        notes.graphs[name] = GraphNotes(
            {n: _dtype(n, d) for n, d in _object(graph.get("dtypes", {}), "dtypes").items()},
            {n: _shape(n, s) for n, s in _object(graph.get("shapes", {}), "shapes").items()},
            {n: _object(a, "node") for n, a in _object(graph.get("nodes", {}), "nodes").items()},
            composite_ops.checked(graph.get("wholes", [])),
        )
    return notes


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"extraInfo: {what} is a {type(value).__name__}, expected an object")
    return value


def _dtype(name: str, value: Any) -> DType:
    try:
        return DType(value)
    except ValueError as error:
        raise FormatError(f"extraInfo: '{name}' has the element type {str(value)[:40]!r}") from error


def _shape(name: str, value: Any) -> Shape:
    if not isinstance(value, list) or len(value) > _MAX_RANK:
        raise FormatError(f"extraInfo: the shape of '{name}' is no list of sizes")
    for size in value:
        if not (isinstance(size, str) or (type(size) is int and 0 <= size <= _MAX_EXTENT)):
            raise FormatError(f"extraInfo: the shape of '{name}' has the size {str(size)[:40]!r}")
    return tuple(_size(size) if isinstance(size, str) else size for size in value)


def _size(text: str) -> str:
    size = parse(text)
    return size if isinstance(size, str) else text


def operand_notes(value: Any, count: int) -> list[tuple[str, DType, tuple[int, ...]]]:
    """Name, type and shape of each noted operand, at most ``count``."""
    if not isinstance(value, list) or len(value) > count:
        raise FormatError(f"extraInfo: notes on operands that are no list of at most {count}")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            raise FormatError("extraInfo: a note on an operand is no name, type and shape")
        shape = _shape(item[0], item[2])
        if any(isinstance(d, str) for d in shape):
            raise FormatError(f"extraInfo: the shape of the constant '{item[0]}' has unknown sizes")
        found.append((item[0], _number_type(*item[:2]), tuple(int(d) for d in shape)))
    return found


def _number_type(name: str, value: Any) -> DType:
    dtype = _dtype(name, value)
    if not dtype.is_float:
        raise FormatError(f"extraInfo: the operand '{name}' has the type {dtype.value}, expected a float")
    return dtype


def written_for(kind: str, note: dict[str, Any] | Any) -> str:
    """The operator that one of kind ``kind`` was written for."""
    wanted = note.get("op", kind)
    if wanted != kind and wanted not in official(kind).stands_for:
        raise FormatError(f"extraInfo: {kind} cannot stand for {str(wanted)[:40]!r}")
    return str(wanted)


def noted_attributes(note: Mapping[str, Any]) -> dict[str, object]:
    """Attributes from the notes: integer types of results, which the format has no field for."""
    attrs = note.get("attrs", {})
    if not isinstance(attrs, dict) or not all(isinstance(v, (int, float, str)) for v in attrs.values()):
        raise FormatError("extraInfo: attributes in the notes are no numbers and names")
    return attrs
