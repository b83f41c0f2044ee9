"""Writes .mnn files: records to a flatbuffer, small things first, large vectors after them.

The layout runs forward: a table, then what it refers to. Vectors of a page or more go to the end, aligned to 64 bytes,
so that reading a model's structure touches few pages and weights can be used where they lie in the mapped file. They
are written from their arrays without a copy. Like the official writers, every scalar is written even at its default,
and empty vectors are left out.
"""

from __future__ import annotations

import io
import os
import struct
from typing import Any, BinaryIO, overload

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.schema.files import replacing
from MNN.schema.reader import MAX_DEPTH
from MNN.schema.record import Record
from MNN.schema.tables import Field, Kind, Table, root
from MNN.schema.versions import net_version, op_type_value

#: Offsets of a flatbuffer are signed 32-bit numbers.
MAX_BYTES = 0x7FFFFFFF
#: Vectors from this size on are placed behind the tables.
LARGE = 4096
_LARGE_ALIGNMENT = 64


@overload
def write_net(net: Record, path: None = None) -> bytes: ...
@overload
def write_net(net: Record, path: str | os.PathLike[str]) -> None: ...
def write_net(net: Record, path: str | os.PathLike[str] | None = None) -> bytes | None:
    """Writes a Net to ``path`` (whole or not at all), or returns its bytes when no path is given.

    Raises MNNError when a value does not fit the schema, when operators cannot be named in a file of the version in
    ``extraInfo.version``, or when the result would exceed 2 GB (store the weights as external data then).
    """
    if net.table_name != root():
        raise FormatError(f"expected a Record of {root()}, found {net.table_name}")
    return write_table(net, path)


def save_net(net: Record, file: BinaryIO) -> None:
    """Writes a Net into an open file; errors as :func:`write_net`."""
    builder = _Writer(net_version(net))
    builder.root(net)
    builder.save(file)


def write_table(record: Record, path: str | os.PathLike[str] | None = None) -> bytes | None:
    """Writes any table as the root of a flatbuffer."""
    builder = _Writer(net_version(record) if record.table_name == root() else (99, 0, 0))
    builder.root(record)
    if path is None:
        stream = io.BytesIO()
        builder.save(stream)
        return stream.getvalue()
    with replacing(path) as file:
        builder.save(file)
    return None


class _Layout:
    """Where the fields of a table with a given set of present references lie."""

    def __init__(self, spec: Table, references: tuple[str, ...]) -> None:
        inline: list[tuple[int, int, Field, bool]] = []  # size, slot, field, whether it is a union's tag
        for field in spec.fields.values():
            if field.kind in (Kind.SCALAR, Kind.ENUM):
                inline.append((field.inline, field.slot, field, False))
            elif field.name in references:
                inline.append((4, field.slot, field, False))
                if field.kind is Kind.UNION:
                    inline.append((1, field.slot - 1, field, True))
        inline.sort(key=lambda item: (-item[0], item[1]))
        self.alignment = max([4, *(size for size, _, _, _ in inline)])
        places = [0] * (max((slot for _, slot, _, _ in inline), default=-1) + 1)
        place = 4
        codes = "<i"
        self.scalars: list[Field] = []  # in packing order; tags of unions stand for themselves
        self.references: dict[str, int] = {}
        self.items: list[tuple[Field, bool]] = []
        for size, slot, field, is_tag in inline:
            places[slot] = place
            self.items.append((field, is_tag))
            codes += "B" if is_tag else field.code
            if not is_tag and field.name in references and field.kind not in (Kind.SCALAR, Kind.ENUM):
                self.references[field.name] = place
            place += size
        self.struct = struct.Struct(codes)
        self.vtable = struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), place, *places)


class _Writer:
    def __init__(self, version: tuple[int, int, int]) -> None:
        self.version = version
        self.head = bytearray(4)
        self.large: list[tuple[int, np.ndarray[Any, np.dtype[Any]]]] = []  # (place of the offset, data)
        self.layouts: dict[tuple[Table, tuple[str, ...]], _Layout] = {}
        self.vtables: dict[bytes, int] = {}
        self.path: list[str] = []

    def root(self, record: Record) -> None:
        self.path = [record.table_name]
        self.head += record.table.schema.identifier
        self.point(0, self.table(record, 0))

    def save(self, file: BinaryIO) -> None:
        """Places the large vectors, then writes everything in order."""
        position = len(self.head)
        starts = []
        for place, data in self.large:
            start = -(-(position + 4) // _LARGE_ALIGNMENT) * _LARGE_ALIGNMENT
            starts.append(start)
            self.point(place, start - 4)
            position = start + data.nbytes
        if position > MAX_BYTES:
            raise MNNError(
                f"the model takes {position} bytes in one file, more than the 2 GB that the format can hold; "
                "store its weights as external data (a .mnn.weight file beside it)"
            )
        file.write(self.head)
        position = len(self.head)
        for start, (_, data) in zip(starts, self.large, strict=True):
            file.write(bytes(start - 4 - position))
            file.write(struct.pack("<I", data.size))
            file.write(data.view(np.uint8).data)
            position = start + data.nbytes

    def fail(self, problem: str) -> FormatError:
        return FormatError(f"cannot write {'.'.join(self.path)}: {problem}")

    def point(self, place: int, target: int) -> None:
        distance = target - place
        if distance > MAX_BYTES:  # the total is reported when everything has been placed
            distance = 0
        struct.pack_into("<I", self.head, place, distance)

    def align(self, alignment: int, ahead: int = 0) -> None:
        """Pads so that what comes ``ahead`` bytes from here starts at a multiple of ``alignment``."""
        self.head.extend(bytes(-(len(self.head) + ahead) % alignment))

    def table(self, record: Record, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise self.fail(f"records nest deeper than {MAX_DEPTH}; does one contain itself?")
        present = {
            field.name: (field, value)
            for field, value in record.present()
            if field.kind not in (Kind.SCALAR, Kind.ENUM)
            and not (field.kind in (Kind.VECTOR, Kind.ENUMS, Kind.STRINGS, Kind.TABLES) and len(value) == 0)
        }
        key = (record.table, tuple(present))
        layout = self.layouts.get(key)
        if layout is None:
            layout = self.layouts[key] = _Layout(*key)
        vtable = self.vtables.get(layout.vtable)
        if vtable is None:
            self.align(2)
            vtable = self.vtables[layout.vtable] = len(self.head)
            self.head += layout.vtable
        self.align(layout.alignment, 4)  # the largest fields come first, behind the offset of the vtable
        at = len(self.head)
        values = [self.inline(record, field, is_tag) for field, is_tag in layout.items]
        self.head += layout.struct.pack(at - vtable, *values)
        for name, place in layout.references.items():
            field, value = present[name]
            self.path.append(name)
            if field.kind is Kind.VECTOR and value.nbytes >= LARGE:
                self.large.append((at + place, np.ascontiguousarray(value)))
            else:
                self.point(at + place, self.reference(field, value, depth))
            self.path.pop()
        return at

    def inline(self, record: Record, field: Field, is_tag: bool) -> Any:
        if is_tag:
            return field.schema.union_tags(field.target)[getattr(record, field.name).table_name]
        if field.kind is Kind.SCALAR:
            return getattr(record, field.name)
        if field.kind is Kind.ENUM:
            return self.enum_number(field, getattr(record, field.name))
        return 0  # an offset, filled in when its target is placed

    def enum_number(self, field: Field, value: str | int) -> int:
        if not isinstance(value, str):
            return value
        if field.target != "OpType":
            return field.schema.enum(field.target).values[value]
        number = op_type_value(value, self.version)
        if number is None:
            version = ".".join(map(str, self.version))
            raise self.fail(
                f"a file of version {version} cannot name the operator {value}; set extraInfo.version to the "
                "version whose operators are meant (such as 3.6.1)"
            )
        return number

    def reference(self, field: Field, value: Any, depth: int) -> int:
        kind = field.kind
        if kind in (Kind.TABLE, Kind.UNION):
            return self.table(value, depth + 1)
        if kind is Kind.STRING:
            return self.string(value)
        if kind in (Kind.VECTOR, Kind.ENUMS):
            assert field.dtype is not None
            if kind is Kind.ENUMS:
                value = np.array([self.enum_number(field, item) for item in value], field.dtype)
            self.align(max(4, field.dtype.itemsize), 4)
            at = len(self.head)
            self.head += struct.pack("<I", len(value)) + value.tobytes()
            return at
        self.align(4)
        at = len(self.head)
        self.head += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, item in enumerate(value):
            place = at + 4 + 4 * i
            self.path.append(f"[{i}]")
            if kind is Kind.STRINGS:
                if not isinstance(item, str):
                    raise self.fail(f"expected a string, found {type(item).__name__}")
                self.point(place, self.string(item))
            else:
                if not isinstance(item, Record) or item.table_name != field.target:
                    raise self.fail(f"expected a Record of {field.target}, found {item!r:.60}")
                self.point(place, self.table(item, depth + 1))
            self.path.pop()
        return at

    def string(self, text: str) -> int:
        try:
            raw = text.encode("utf-8")
        except UnicodeEncodeError:
            raise self.fail(f"{text[:60]!r} has no UTF-8 form") from None
        self.align(4)
        at = len(self.head)
        self.head += struct.pack("<I", len(raw)) + raw + b"\0"
        return at
