"""Reads .mnn files, and other flatbuffers: verifies one while building records over views into the file.

The file is hostile until it has passed: every offset, length, tag and string is checked before it is followed, and what
the file can make us allocate is bounded by its own size (shared or overlapping structures count every time they are
referred to).
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.schema.files import MappedFile, open_regular
from MNN.schema.invariants import check_net
from MNN.schema.record import Record
from MNN.schema.tables import MNN, Field, Kind, Schema, Table
from MNN.schema.versions import apply_old_names

#: Deepest nesting of tables that is accepted; real files stay below 12.
MAX_DEPTH = 64

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_SCALARS = {code: struct.Struct("<" + code) for code in "bBhHiIqQf"}
Buffer = bytes | mmap.mmap | memoryview
_Layout = tuple[int, tuple[tuple[Field, int], ...]]


Source = str | os.PathLike[str] | bytes | bytearray | memoryview


def read_net(source: Source) -> Record:
    """Reads and verifies a .mnn model: a path (memory-mapped) or the file's bytes.

    Returns the ``Net`` record; its vectors are read-only views that keep the mapping alive. Operators of files older
    than 3.2 carry the names that their numbers had then. Raises :class:`~MNN.errors.FormatError` with byte offset and
    field when anything is malformed, and MNNError when the file cannot be opened.
    """
    net, _, name = read_flatbuffer(source, MNN)
    apply_old_names(net)
    check_net(net, name)
    return net


def read_flatbuffer(source: Source, schema: Schema) -> tuple[Record, Buffer, str]:
    """Reads and verifies a flatbuffer: a path (memory-mapped) or bytes. Returns the root's record, all of the data, and
    what it is called in messages; errors as :func:`read_net`."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        data: Buffer = source if isinstance(source, bytes) else bytes(source)
        name = "model data"
    else:
        name = os.fspath(source)
        with open_regular(Path(name)) as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise FormatError(f"{name}: {size} bytes is too short for a {schema.title}")
            data = MappedFile.of(file, name)
    return _Reader(data, name, schema).root(schema.root), data, name


def read_table(data: bytes, table_name: str) -> Record:
    """Reads one flatbuffer whose root is ``table_name``, without the checks that concern a whole Net."""
    return _Reader(data, table_name, MNN).root(table_name)


class _Reader:
    def __init__(self, data: Buffer, name: str, schema: Schema) -> None:
        self.schema = schema
        self.data = data
        self.size = len(data)
        self.name = name
        # What an honest file needs is its own size or a little more: parts are referred to once.
        self.budget = 2 * self.size + 65536
        self.layouts: dict[tuple[int, Table], _Layout] = {}
        self.path: list[str] = []

    def fail(self, at: int, problem: str, field: str = "") -> FormatError:
        where = ".".join([*self.path, field]) if field else ".".join(self.path)
        return FormatError(f"{self.name}: malformed {self.schema.title}: at byte {at}, {where}: {problem}")

    def root(self, table_name: str) -> Record:
        self.path = [table_name]
        if self.size < 8:
            raise self.fail(0, f"{self.size} bytes is too short for a {self.schema.title}")
        wanted = self.schema.identifier
        if wanted and bytes(self.data[4 : 4 + len(wanted)]) != wanted:
            raise self.fail(4, f"its identifier is not {wanted.decode()}")
        return self.table(self.offset(0, ""), self.schema.table(table_name), 0)

    def spend(self, units: int, at: int, field: str = "") -> None:
        self.budget -= units
        if self.budget < 0:
            raise self.fail(at, "its parts add up to far more than the file's size (overlapping or shared data)", field)

    def offset(self, at: int, field: str) -> int:
        """Follows the forward offset stored at ``at`` (already known to be inside) to a place with 4 bytes left."""
        distance: int = _U32.unpack_from(self.data, at)[0]
        target = at + distance
        if distance == 0 or distance > 0x7FFFFFFF or target + 4 > self.size:
            raise self.fail(at, f"offset {distance} leads outside of the file of {self.size} bytes", field)
        return target

    def layout(self, vtable: int, kind: Table, at: int) -> _Layout:
        """Decodes and checks a vtable: the inline size of its tables, and the present fields with their places."""
        data, size = self.data, self.size
        if not 0 <= vtable <= size - 4:
            raise self.fail(at, f"vtable at {vtable} lies outside of the file")
        length: int = _U16.unpack_from(data, vtable)[0]
        inline: int = _U16.unpack_from(data, vtable + 2)[0]
        if length < 4 or length % 2 or vtable + length > size or inline < 4:
            raise self.fail(vtable, f"vtable of {length} bytes for a table of {inline} bytes is impossible")
        self.spend(length + 64, vtable)  # real files have few; decoding one costs as much as many tables
        slots = (length - 4) // 2
        present: list[tuple[Field, int]] = []
        used: list[tuple[int, int]] = [(0, 4)]
        for field in kind.fields.values():
            if field.slot >= slots:
                break
            place: int = _U16.unpack_from(data, vtable + 4 + 2 * field.slot)[0]
            if field.kind is Kind.UNION:
                tag_place: int = _U16.unpack_from(data, vtable + 2 + 2 * field.slot)[0]
                if tag_place == 0:
                    continue  # no tag means NONE, whatever the value says
                used.append((tag_place, tag_place + 1))
                present.append((field, (place << 16) | tag_place))
            elif place:
                present.append((field, place))
            if place:
                used.append((place, place + field.inline))
        used.sort()
        if used[-1][1] > inline or any(a[1] > b[0] for a, b in itertools.pairwise(used)):
            raise self.fail(vtable, f"fields of {kind.name} overlap or exceed their table of {inline} bytes")
        return inline, tuple(present)

    def table(self, at: int, kind: Table, depth: int) -> Record:
        if depth > MAX_DEPTH:
            raise self.fail(at, f"tables nest deeper than {MAX_DEPTH}")
        vtable = at - int(_I32.unpack_from(self.data, at)[0])
        key = (vtable, kind)
        layout = self.layouts.get(key)
        if layout is None:
            layout = self.layouts[key] = self.layout(vtable, kind, at)
        inline, present = layout
        if at + inline > self.size:
            raise self.fail(at, f"table of {inline} bytes exceeds the file of {self.size} bytes")
        self.spend(inline + 8, at)
        values: dict[str, Any] = {}
        for field, place in present:
            form = field.kind
            if form is Kind.SCALAR:
                if field.code == "?":
                    values[field.name] = self.data[at + place] != 0
                else:
                    values[field.name] = _SCALARS[field.code].unpack_from(self.data, at + place)[0]
            elif form is Kind.ENUM:
                number: int = _SCALARS[field.code].unpack_from(self.data, at + place)[0]
                values[field.name] = self.schema.enum(field.target).name_of(number)
            elif form is Kind.UNION:
                member = self.union(field, at, place, depth)
                if member is not None:
                    values[field.name] = member
            else:
                values[field.name] = self.reference(field, self.offset(at + place, field.name), depth)
        return Record.trusted(kind, values)

    def union(self, field: Field, at: int, places: int, depth: int) -> Record | None:
        place, tag_place = places >> 16, places & 0xFFFF
        tag: int = self.data[at + tag_place]
        members = self.schema.union_members(field.target)
        if tag >= len(members):
            if self.schema.open_unions:
                return None
            raise self.fail(at + tag_place, f"unknown member {tag} of the union {field.target}", field.name)
        if tag == 0 or place == 0:
            return None
        self.path.append(f"{field.name}({members[tag]})")
        record = self.table(self.offset(at + place, ""), self.schema.table(members[tag]), depth + 1)
        self.path.pop()
        return record

    def reference(self, field: Field, at: int, depth: int) -> Any:
        kind = field.kind
        if kind is Kind.TABLE:
            self.path.append(field.name)
            record = self.table(at, self.schema.table(field.target), depth + 1)
            self.path.pop()
            return record
        if kind is Kind.STRING:
            return self.string(at, field.name)
        count: int = _U32.unpack_from(self.data, at)[0]
        width = field.dtype.itemsize if field.dtype is not None else 4
        if count * width > self.size - at - 4:
            raise self.fail(at, f"vector of {count} x {width} bytes exceeds the file of {self.size} bytes", field.name)
        self.spend(count * width + 8, at, field.name)
        if kind is Kind.VECTOR:
            return self.vector(field, at + 4, count)
        if kind is Kind.ENUMS:
            name_of = self.schema.enum(field.target).name_of
            assert field.dtype is not None
            return [name_of(n) for n in np.frombuffer(self.data, field.dtype, count, at + 4).tolist()]
        places = range(at + 4, at + 4 + 4 * count, 4)
        if kind is Kind.STRINGS:
            return [self.string(self.offset(place, field.name), field.name) for place in places]
        target = self.schema.table(field.target)
        records = []
        for i, place in enumerate(places):
            self.path.append(f"{field.name}[{i}]")
            records.append(self.table(self.offset(place, ""), target, depth + 1))
            self.path.pop()
        return records

    def vector(self, field: Field, at: int, count: int) -> np.ndarray[Any, np.dtype[Any]]:
        dtype = field.dtype
        assert dtype is not None
        if dtype.kind == "b":  # a byte other than 0 and 1 must not become a numpy bool
            flags: np.ndarray[Any, np.dtype[Any]] = np.frombuffer(self.data, np.uint8, count, at) != 0
            return flags
        array = np.frombuffer(self.data, dtype, count, at)
        if not array.flags.aligned:  # a well-formed but oddly placed vector; kernels expect natural alignment
            array = array.copy()
            array.flags.writeable = False
        return array

    def string(self, at: int, field: str) -> str:
        length: int = _U32.unpack_from(self.data, at)[0]
        end = at + 4 + length
        if end >= self.size:
            raise self.fail(at, f"string of {length} bytes exceeds the file of {self.size} bytes", field)
        self.spend(length + 8, at, field)
        raw = bytes(self.data[at + 4 : end + 1])
        if raw[-1] != 0:
            raise self.fail(end, "string is not closed by a zero byte", field)
        try:
            return raw[:-1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(at + 4 + error.start, f"string is not UTF-8 ({error.reason})", field) from None
