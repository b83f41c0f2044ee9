"""The wire schema of .mnn as typed data: tables with their slots, enums and unions.

``tables.json`` lists the fields of each table in slot order. A union field takes two slots: its one-byte type tag comes
first, the value after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np


class Kind(Enum):
    """How a field is stored."""

    SCALAR = "scalar"  # bool, integer or float, inline
    ENUM = "enum"  # integer, inline, held as the name of its value
    STRING = "string"
    TABLE = "table"
    UNION = "union"
    VECTOR = "vector"  # of scalars, held as a one-dimensional numpy array
    ENUMS = "enums"  # vector of enum values, held as a list
    STRINGS = "strings"  # vector of strings, held as a list
    TABLES = "tables"  # vector of tables, held as a list


# The schema's scalar names, several of which mean the same type.
SCALARS: dict[str, str] = {
    "bool": "?",
    "byte": "<i1",
    "int8": "<i1",
    "ubyte": "<u1",
    "ushort": "<u2",
    "int": "<i4",
    "int32": "<i4",
    "uint32": "<u4",
    "long": "<i8",
    "int64": "<i8",
    "float": "<f4",
}
_STRUCT_CODES = {"?": "?", "<i1": "b", "<u1": "B", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<f4": "f"}


@dataclass(frozen=True)
class EnumType:
    """An enum: its width on the wire and its names both ways."""

    name: str
    base: str
    values: dict[str, int]
    names: dict[int, str]

    def name_of(self, value: int) -> str | int:
        """The name of ``value``; an unknown value stays a number."""
        return self.names.get(value, value)


@dataclass(frozen=True)
class Field:
    """One field of a table.

    ``target`` names the enum, table or union the field refers to. ``dtype`` is the numpy type of the scalar or of the
    vector's elements. ``inline`` is the number of bytes the field takes inside its table; ``code`` its ``struct`` code.
    """

    name: str
    slot: int
    type: str
    kind: Kind
    default: Any
    target: str
    dtype: np.dtype[Any] | None
    inline: int
    code: str


@dataclass(frozen=True)
class Table:
    """A table: its fields by name, in slot order."""

    name: str
    fields: dict[str, Field]
    slots: int


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    text = Path(__file__).with_name("tables.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def root() -> str:
    """Name of the root table."""
    return cast(str, _schema()["root"])


def table_names() -> list[str]:
    """Names of all tables of the schema."""
    return list(_schema()["tables"])


def enum_names() -> list[str]:
    """Names of all enums of the schema."""
    return list(_schema()["enums"])


@cache
def enum(name: str) -> EnumType:
    """The enum called ``name`` (KeyError if there is none)."""
    base, values = _schema()["enums"][name]
    return EnumType(name, base, values, {number: label for label, number in values.items()})


@cache
def union_members(name: str) -> list[str]:
    """Member tables of a union; the position in the list is the tag on the wire, member 0 is ``NONE``."""
    return cast("list[str]", _schema()["unions"][name])


@cache
def union_tags(name: str) -> dict[str, int]:
    """The wire tag of each member of a union."""
    return {member: tag for tag, member in enumerate(union_members(name))}


@cache
def table(name: str) -> Table:
    """The table called ``name`` (KeyError if there is none)."""
    fields: dict[str, Field] = {}
    slot = 0
    for entry in _schema()["tables"][name]:
        if entry[1] in _schema()["unions"]:
            slot += 1  # the tag
        fields[entry[0]] = _field(entry[0], slot, entry[1], entry[2] if len(entry) > 2 else None)
        slot += 1
    return Table(name, fields, slot)


def _field(name: str, slot: int, type_name: str, default: Any) -> Field:
    schema = _schema()
    vector = type_name.startswith("[")
    element = type_name.strip("[]")
    dtype: np.dtype[Any] | None = None
    code = "I"
    target = ""
    if element in SCALARS or element in schema["enums"]:
        is_enum = element in schema["enums"]
        base = SCALARS[enum(element).base if is_enum else element]
        dtype = np.dtype(base)
        target = element if is_enum else ""
        if vector:
            kind = Kind.ENUMS if is_enum else Kind.VECTOR
        else:
            kind = Kind.ENUM if is_enum else Kind.SCALAR
            code = _STRUCT_CODES[base]
            if is_enum:
                default = enum(element).name_of(default)
            elif dtype.kind == "f":
                default = float(np.float32(default))  # as it reads back from a file
    elif element == "string":
        kind = Kind.STRINGS if vector else Kind.STRING
    elif element in schema["tables"]:
        kind = Kind.TABLES if vector else Kind.TABLE
        target = element
    else:
        kind = Kind.UNION
        target = element
    inline = dtype.itemsize if dtype is not None and not vector else 4
    return Field(name, slot, type_name, kind, default, target, dtype, inline, code)
