"""Brings what a user sets on a record's field to the field's one form, or says what does not fit: numbers, names and
vectors. Fields that hold records are those of :mod:`MNN.schema.record`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.schema.recycled import OLD_NAMES
from MNN.schema.tables import Field, Kind

# Above this a number rounds to infinity.
_F32_LIMIT = float(np.finfo(np.float32).max) * (1 + 2.0**-25)


def coerce(where: str, field: Field, value: Any) -> Any:
    """``value`` in the form that :class:`~MNN.schema.record.Record` holds, for a field that holds no records;
    FormatError when it does not fit."""
    if field.kind is Kind.VECTOR:
        return vector(where, field, value)
    if field.kind is Kind.SCALAR:
        return scalar(where, field, value)
    if field.kind is Kind.ENUM:
        return enum_value(where, field, value)
    if field.kind is Kind.STRING:
        return string(where, value)
    if field.kind is Kind.STRINGS:
        return [string(f"{where}[{i}]", item) for i, item in enumerate(items(where, value))]
    assert field.kind is Kind.ENUMS
    return [enum_value(f"{where}[{i}]", field, item) for i, item in enumerate(items(where, value))]


def items(where: str, value: Any) -> Iterable[Any]:
    """What a list is given as; not a string, which would be one of letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise FormatError(f"{where}: expected a list, found {type(value).__name__}")
    return value


def scalar(where: str, field: Field, value: Any) -> bool | int | float:
    """A bool, int or float that fits the field's width; floats are rounded to float32."""
    assert field.dtype is not None
    if field.dtype.kind == "b":
        if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
            return bool(value)
        raise FormatError(f"{where}: expected true or false, found {value!r}")
    if field.dtype.kind == "f":
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise FormatError(f"{where}: expected a number, found {value!r}")
        try:
            number = float(value)
        except OverflowError:
            raise FormatError(f"{where}: {value!r:.60} does not fit a 32-bit float") from None
        if math.isfinite(number) and abs(number) > _F32_LIMIT:
            raise FormatError(f"{where}: {value!r} does not fit a 32-bit float")
        return float(np.float32(number))
    if not isinstance(value, (int, np.integer)):
        raise FormatError(f"{where}: expected an integer, found {value!r}")
    limits = np.iinfo(field.dtype)
    if not limits.min <= value <= limits.max:
        raise FormatError(f"{where}: {value} does not fit {field.type} ({limits.min}..{limits.max})")
    return int(value)


def enum_value(where: str, field: Field, value: Any) -> str | int:
    """The name of an enum value, or the number when it has no name."""
    kind = field.schema.enum(field.target)
    if isinstance(value, str):
        if value in kind.values or (field.target == "OpType" and value in OLD_NAMES):
            return value
        raise FormatError(f"{where}: {value!r} is not a {field.target}; it has {', '.join(list(kind.values)[:40])}")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise FormatError(f"{where}: expected the name of a {field.target}, found {value!r}")
    assert field.dtype is not None
    limits = np.iinfo(field.dtype)
    if not limits.min <= value <= limits.max:
        raise FormatError(f"{where}: {value} does not fit the enum {field.target}")
    return kind.name_of(int(value))


def string(where: str, value: Any) -> str:
    """A str that has a UTF-8 form."""
    if not isinstance(value, str):
        raise FormatError(f"{where}: expected a string, found {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(f"{where}: {value[:60]!r} has no UTF-8 form") from error
    return value


def vector(where: str, field: Field, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A one-dimensional contiguous array of the field's element type; no copy when it is one already."""
    dtype = field.dtype
    assert dtype is not None
    if isinstance(value, (bytes, bytearray, memoryview)):
        if dtype.itemsize != 1:
            raise FormatError(f"{where}: bytes given, expected numbers of type {field.type}")
        return np.frombuffer(value, dtype)
    if isinstance(value, str):
        raise FormatError(f"{where}: expected numbers of type {field.type}, found a string")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{where}: not a vector of numbers: {error}") from error
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype.kind not in ("biuf" if dtype.kind == "f" else "biu"):
        raise FormatError(f"{where}: expected numbers of type {field.type}, found {array.dtype}")
    array = np.ascontiguousarray(array).reshape(-1)
    if array.dtype != dtype:
        _check_range(where, field, array, dtype)
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    return array


def _check_range(where: str, field: Field, array: np.ndarray[Any, np.dtype[Any]], dtype: np.dtype[Any]) -> None:
    if np.can_cast(array.dtype, dtype, "safe") or array.dtype.kind == "b":
        return
    if dtype.kind == "f":
        finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.abs(array.astype(np.float64))
        if finite.size and float(finite.max()) > _F32_LIMIT:
            raise FormatError(f"{where}: {finite.max()} does not fit a 32-bit float")
        return
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if int(array.min()) < low or int(array.max()) > high:
        raise FormatError(f"{where}: values {array.min()}..{array.max()} do not fit {field.type} ({low}..{high})")
