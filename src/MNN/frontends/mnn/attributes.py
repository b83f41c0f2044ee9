"""Attributes of nodes and fields of tables, and attributes of operators that the format has no table for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.schema.blobs import array_to_blob, blob_to_array
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record
from MNN.schema.tables import Kind, table

_NESTED = ("common",)  # tables whose fields count as their owner's
_I32 = np.iinfo(np.int32)


def flatten(main: Record, skip: frozenset[str] = frozenset()) -> dict[str, object]:
    """A table's fields as attributes: enum values by name, vectors as lists, nested ``common`` tables unfolded.

    Blobs become arrays. Fields named in ``skip`` and other nested tables are left to whoever knows them.
    """
    attrs: dict[str, object] = {}
    for field, value in main.present():
        if field.name in skip:
            continue
        if field.kind in (Kind.SCALAR, Kind.ENUM, Kind.STRING):
            attrs[field.name] = value
        elif field.kind is Kind.VECTOR:
            attrs[field.name] = value.tolist()
        elif field.kind in (Kind.ENUMS, Kind.STRINGS):
            attrs[field.name] = list(value)
        elif field.name in _NESTED:
            attrs.update(flatten(value, skip))
        elif field.kind is Kind.TABLE and field.target == "Blob":
            attrs[field.name] = blob_to_array(value)
    return attrs


def fill(main: Record, attrs: dict[str, object]) -> dict[str, object]:
    """Sets the fields of ``main`` (and of its ``common`` table) from attributes; returns those it has no field for.

    Raises :class:`~MNN.errors.FormatError` when a value does not fit its field.
    """
    left: dict[str, object] = {}
    common = table(main.table_name).fields.get("common")
    inner = None if common is None else Record(common.target)
    for key, value in attrs.items():
        owner = main if key in table(main.table_name).fields else inner
        if owner is None or key not in table(owner.table_name).fields:
            left[key] = value
            continue
        field = table(owner.table_name).fields[key]
        if field.target == "Blob" and isinstance(value, np.ndarray):
            setattr(owner, key, array_to_blob(value))
        else:
            setattr(owner, key, value)
    if inner is not None:
        main.common = inner
    return left


def is_default(main_table: str, key: str, value: object) -> bool:
    """Whether an attribute says no more than its absence."""
    if value is None:
        return True
    for name in (main_table, f"{main_table}Common"):
        try:
            field = table(name).fields.get(key)
        except KeyError:
            continue
        if field is not None:
            return bool(np.all(field.default == value)) if field.default is not None else False
    return False


# -- attributes of operators that are written as Extra ----------------------------------------------------------------


def pack(attrs: dict[str, object], subgraph: Callable[[str, Any], str]) -> list[Record]:
    """Attributes as ``Attribute`` tables; ``subgraph(key, graph)`` stores a graph and gives its name in the file."""
    from MNN.ir.graph import Graph

    packed = []
    for key, value in attrs.items():
        if value is None:
            continue
        if isinstance(value, Graph):
            item = Record("Attribute", key=key, func=Record("NamedAttrList", name=subgraph(key, value)))
        else:
            item = _attribute(key, value)
        packed.append(item)
    return packed


def _attribute(key: str, value: object) -> Record:
    if isinstance(value, (bool, np.bool_)):
        return Record("Attribute", key=key, type="DT_BOOL", b=bool(value))
    if isinstance(value, (int, np.integer)) and _I32.min <= value <= _I32.max:
        return Record("Attribute", key=key, type="DT_INT32", i=int(value))
    if isinstance(value, float) and (value != value or float(np.float32(value)) == value):
        return Record("Attribute", key=key, type="DT_FLOAT", f=value)
    if isinstance(value, str):
        return Record("Attribute", key=key, type="DT_STRING", s=value)
    if isinstance(value, np.ndarray):
        return Record("Attribute", key=key, type="DT_INVALID", tensor=array_to_blob(value))
    if isinstance(value, bytes):
        array = np.frombuffer(value, np.uint8)
        return Record("Attribute", key=key, type="DT_UINT8", tensor=array_to_blob(array))
    try:
        text = json.dumps(value)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            f"attribute '{key}' of type {type(value).__name__} cannot be written: {error}"
        ) from error
    return Record("Attribute", key=key, type="DT_VARIANT", s=text)


def unpack(
    packed: list[Record], subgraph: Callable[[str], object], external: ExternalSource | None = None
) -> dict[str, object]:
    """The inverse of :func:`pack`. Raises :class:`~MNN.errors.FormatError` for what it did not write."""
    attrs: dict[str, object] = {}
    for item in packed:
        key = item.key
        if not key or key in attrs:
            raise FormatError(f"Extra: attribute {key!r} has no name or comes twice")
        attrs[key] = _value(item, subgraph, external)
    return attrs


def _value(item: Record, subgraph: Callable[[str], object], external: ExternalSource | None) -> object:
    if item.func is not None:
        return subgraph(item.func.name or "")
    if item.tensor is not None:
        array = blob_to_array(item.tensor, external)
        return array.tobytes() if item.type == "DT_UINT8" else array
    if item.type == "DT_BOOL":
        return item.b
    if item.type == "DT_INT32":
        return item.i
    if item.type == "DT_FLOAT":
        return item.f
    if item.type == "DT_STRING":
        return item.s or ""
    if item.type == "DT_VARIANT":
        try:
            return json.loads(item.s or "")
        except (ValueError, RecursionError) as error:
            raise FormatError(f"Extra: attribute '{item.key}' is not JSON: {str(error)[:200]}") from error
    raise FormatError(f"Extra: attribute '{item.key}' has the type {item.type}, expected a scalar, tensor or graph")
