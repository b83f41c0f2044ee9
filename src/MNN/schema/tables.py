"""Wire schemas of flatbuffer formats as typed data: tables with their slots, enums and unions.

A JSON file lists the fields of each table in slot order. A union field takes two slots: its one-byte type tag comes
first, the value after it. ``tables.json`` is the schema of .mnn, which the functions of this module are about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
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
    "short": "<i2",
    "ushort": "<u2",
    "int": "<i4",
    "int32": "<i4",
    "uint32": "<u4",
    "long": "<i8",
    "int64": "<i8",
    "ulong": "<u8",
    "float": "<f4",
}
_STRUCT_CODES = {
    "?": "?", "<i1": "b", "<u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q",
    "<f4": "f",
}  # fmt: skip


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


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a table.

    ``target`` names the enum, table or union of ``schema`` the field refers to. ``dtype`` is the numpy type of the
    scalar or of the vector's elements. ``inline`` is the number of bytes the field takes inside its table; ``code`` its
    ``struct`` code.
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
    schema: Schema


@dataclass(frozen=True, eq=False)
class Table:
    """A table of ``schema``: its fields by name, in slot order."""

    name: str
    fields: dict[str, Field]
    slots: int
    schema: Schema


class Schema:
    """The tables, enums and unions of a format.

    ``path``: its JSON file. ``title``: what a file of the format is called in errors. ``identifier``: the four bytes
    behind the first offset, where the format has such. ``open_unions``: whether union members that the schema does not
    know are read as absent, for formats whose newer files name newer members, instead of being errors.
    """

    def __init__(self, path: Path, title: str, identifier: bytes = b"", open_unions: bool = False) -> None:
        self._path = path
        self.title = title
        self.identifier = identifier
        self.open_unions = open_unions
        self._enums: dict[str, EnumType] = {}
        self._tables: dict[str, Table] = {}
        self._tags: dict[str, dict[str, int]] = {}

    @cached_property
    def _data(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self._path.read_text(encoding="utf-8")))

    @property
    def root(self) -> str:
        """Name of the root table."""
        return cast(str, self._data["root"])

    def table_names(self) -> list[str]:
        """Names of all tables."""
        return list(self._data["tables"])

    def enum_names(self) -> list[str]:
        """Names of all enums."""
        return list(self._data["enums"])

    def enum(self, name: str) -> EnumType:
        """The enum called ``name`` (KeyError if there is none)."""
        found = self._enums.get(name)
        if found is None:
            base, values = self._data["enums"][name]
            found = EnumType(name, base, values, {number: label for label, number in values.items()})
            self._enums[name] = found
        return found

    def union_members(self, name: str) -> list[str]:
        """Member tables of a union; the position in the list is the tag on the wire, member 0 is ``NONE``."""
        return cast("list[str]", self._data["unions"][name])

    def union_tags(self, name: str) -> dict[str, int]:
        """The wire tag of each member of a union."""
        found = self._tags.get(name)
        if found is None:
            found = self._tags[name] = {member: tag for tag, member in enumerate(self.union_members(name))}
        return found

    def table(self, name: str) -> Table:
        """The table called ``name`` (KeyError if there is none); the same object every time."""
        found = self._tables.get(name)
        return self._tables.setdefault(name, self._made(name)) if found is None else found

    def _made(self, name: str) -> Table:
        fields: dict[str, Field] = {}
        slot = 0
        for entry in self._data["tables"][name]:
            if entry[1] in self._data["unions"]:
                slot += 1  # the tag
            fields[entry[0]] = self._field(entry[0], slot, entry[1], entry[2] if len(entry) > 2 else None)
            slot += 1
        return Table(name, fields, slot, self)

    def _field(self, name: str, slot: int, type_name: str, default: Any) -> Field:
        data = self._data
        vector = type_name.startswith("[")
        element = type_name.strip("[]")
        dtype: np.dtype[Any] | None = None
        code = "I"
        target = ""
        if element in SCALARS or element in data["enums"]:
            is_enum = element in data["enums"]
            base = SCALARS[self.enum(element).base if is_enum else element]
            dtype = np.dtype(base)
            target = element if is_enum else ""
            if vector:
                kind = Kind.ENUMS if is_enum else Kind.VECTOR
            else:
                kind = Kind.ENUM if is_enum else Kind.SCALAR
                code = _STRUCT_CODES[base]
                if is_enum:
                    default = self.enum(element).name_of(default)
                elif dtype.kind == "f":
                    default = float(np.float32(default))  # as it reads back from a file
        elif element == "string":
            kind = Kind.STRINGS if vector else Kind.STRING
        elif element in data["tables"]:
            kind = Kind.TABLES if vector else Kind.TABLE
            target = element
        else:
            kind = Kind.UNION
            target = element
        inline = dtype.itemsize if dtype is not None and not vector else 4
        return Field(name, slot, type_name, kind, default, target, dtype, inline, code, self)


MNN = Schema(Path(__file__).with_name("tables.json"), ".mnn model")
"""The schema of .mnn files."""


def root() -> str:
    """Name of the root table of .mnn."""
    return MNN.root


def table_names() -> list[str]:
    """Names of all tables of .mnn."""
    return MNN.table_names()


def enum_names() -> list[str]:
    """Names of all enums of .mnn."""
    return MNN.enum_names()


def enum(name: str) -> EnumType:
    """The enum of .mnn called ``name`` (KeyError if there is none)."""
    return MNN.enum(name)


def union_members(name: str) -> list[str]:
    """Member tables of a union of .mnn, as :meth:`Schema.union_members`."""
    return MNN.union_members(name)


def union_tags(name: str) -> dict[str, int]:
    """The wire tag of each member of a union of .mnn."""
    return MNN.union_tags(name)


def table(name: str) -> Table:
    """The table of .mnn called ``name`` (KeyError if there is none)."""
    return MNN.table(name)
