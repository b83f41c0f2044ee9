"""The JSON form of a model, laid out as the official dump tool's: unions as ``main_type`` and ``main``, enums by name.

The way back is exact: fields that are not set stay unset, floats are written with the shortest digits that give the
same 32-bit float, infinities and NaNs as strings ("inf", "-inf", "nan", or "nan:<bits>" for unusual ones).
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

import numpy as np

from MNN.errors import FormatError
from MNN.schema.reader import MAX_DEPTH
from MNN.schema.record import Record
from MNN.schema.tables import Field, Kind, root, table, union_members

_PLAIN_NAN = 0x7FC00000
_NAN = re.compile(r"nan:([0-9a-f]{8})")


def to_json(record: Record, indent: int | None = None) -> str:
    """The JSON text of a Net (or any other table)."""
    return json.dumps(to_dict(record), indent=indent, ensure_ascii=False, allow_nan=False)


def to_dict(record: Record) -> dict[str, Any]:
    """The JSON form as dicts, lists, strings and numbers."""
    return _dump(record, 0)


def from_json(text: str | bytes, table_name: str | None = None) -> Record:
    """Reads what :func:`to_json` wrote; FormatError with the path of the field that does not fit."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {str(error)[:300]}") from error
    return from_dict(data, table_name)


def from_dict(data: Any, table_name: str | None = None) -> Record:
    """Reads the form of :func:`to_dict`; ``table_name`` defaults to Net."""
    name = table_name or root()
    return _load(data, name, name, 0)


def _dump(record: Record, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise FormatError(f"records nest deeper than {MAX_DEPTH}; does one contain itself?")
    out: dict[str, Any] = {}
    for field, value in record.present():
        kind = field.kind
        if kind is Kind.UNION:
            out[f"{field.name}_type"] = value.table_name
        if kind in (Kind.TABLE, Kind.UNION):
            out[field.name] = _dump(value, depth + 1)
        elif kind is Kind.TABLES:
            out[field.name] = [_dump(item, depth + 1) for item in value]
        elif kind is Kind.VECTOR:
            out[field.name] = _floats(value) if value.dtype.kind == "f" else value.tolist()
        elif isinstance(value, float):
            out[field.name] = _floats(np.array([value], np.float32))[0]
        else:
            out[field.name] = value
    return out


def _floats(array: np.ndarray[Any, np.dtype[Any]]) -> list[Any]:
    finite = np.isfinite(array)
    safe = array if finite.all() else np.where(finite, array, np.float32(0))
    numbers: list[Any] = [float(text) for text in safe.astype(str).tolist()]
    for i in np.flatnonzero(np.array(numbers, np.float64).astype(np.float32) != safe).tolist():
        numbers[i] = float(safe[i])  # the shortest digits would round twice to a neighbour
    for i in np.flatnonzero(~finite).tolist():
        numbers[i] = _special(array[i : i + 1])
    return numbers


def _special(one: np.ndarray[Any, np.dtype[Any]]) -> str:
    if not np.isnan(one[0]):
        return "inf" if one[0] > 0 else "-inf"
    bits = int(one.view(np.uint32)[0])
    return "nan" if bits == _PLAIN_NAN else f"nan:{bits:08x}"


def _load(data: Any, name: str, path: str, depth: int) -> Record:
    if depth > MAX_DEPTH:
        raise FormatError(f"{path}: tables nest deeper than {MAX_DEPTH}")
    if not isinstance(data, dict):
        raise FormatError(f"{path}: expected an object, found {type(data).__name__}")
    fields = table(name).fields
    record = Record(name)
    for key, value in data.items():
        field = fields.get(key)
        if field is None:
            union = fields.get(key.removesuffix("_type")) if key.endswith("_type") else None
            if union is not None and union.kind is Kind.UNION:
                continue  # read together with its value
            raise FormatError(f"{path}: table {name} has no field {key[:60]!r}")
        try:
            setattr(record, key, _value(field, value, data, f"{path}.{key}", depth))
        except FormatError as error:
            if str(error).startswith(path):
                raise
            raise FormatError(f"{path}: {error}") from error
    return record


def _value(field: Field, value: Any, owner: dict[str, Any], path: str, depth: int) -> Any:
    kind = field.kind
    if kind is Kind.TABLE:
        return _load(value, field.target, path, depth + 1)
    if kind is Kind.UNION:
        member = owner.get(f"{field.name}_type")
        if not isinstance(member, str) or member not in union_members(field.target)[1:]:
            raise FormatError(f"{path}_type: {member!r:.60} is not a member of the union {field.target}")
        return _load(value, member, path, depth + 1)
    if kind is Kind.TABLES:
        if not isinstance(value, list):
            raise FormatError(f"{path}: expected a list, found {type(value).__name__}")
        return [_load(item, field.target, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if value is None:
        raise FormatError(f"{path}: null; leave the field out instead")
    is_float = field.dtype is not None and field.dtype.kind == "f"
    if kind is Kind.VECTOR:
        if not isinstance(value, list):
            raise FormatError(f"{path}: expected a list of numbers, found {type(value).__name__}")
        return _float_vector(value, path) if is_float else value
    return float(_float_vector([value], path)[0]) if is_float and isinstance(value, str) else value


def _float_vector(values: list[Any], path: str) -> np.ndarray[Any, np.dtype[Any]]:
    if not all(isinstance(item, (int, float, str)) for item in values):
        raise FormatError(f"{path}: expected numbers")
    special = [i for i, item in enumerate(values) if isinstance(item, str)]
    numbers = values
    if special:
        numbers = [0.0 if isinstance(item, str) else item for item in values]
    try:
        wide = np.array(numbers, np.float64)
    except OverflowError as error:
        raise FormatError(f"{path}: a number that does not fit a 32-bit float") from error
    with np.errstate(over="ignore"):
        array = wide.astype(np.float32)
    if not np.array_equal(np.isfinite(array), np.isfinite(wide)):
        raise FormatError(f"{path}: a number that does not fit a 32-bit float")
    for i in special:
        array.view(np.uint32)[i] = _special_bits(cast(str, values[i]), f"{path}[{i}]")
    return array


def _special_bits(text: str, path: str) -> int:
    known = {"nan": _PLAIN_NAN, "inf": 0x7F800000, "-inf": 0xFF800000}
    if text in known:
        return known[text]
    match = _NAN.fullmatch(text)
    bits = int(match[1], 16) if match else 0
    if bits & 0x7F800000 != 0x7F800000 or not bits & 0x7FFFFF:
        raise FormatError(f"{path}: {text[:60]!r} is not a number")
    return bits
