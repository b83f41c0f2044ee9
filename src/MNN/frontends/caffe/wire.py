"""Reads caffemodel files: protobuf's binary format, by the numbers of fields in ``schema.json``.

Weights are not copied: they are views of the file's bytes, so that a large model costs no more than its size. The
format is at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.caffe.message import Field, Message

MAX_FIELDS = 1 << 18
"""Fields of a file, weights counting as one: far above those of the largest networks."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {"float": (_FOUR, "<f4"), "double": (_EIGHT, "<f8")}
_WHOLE = ("int32", "int64", "uint32", "uint64")


@cache
def schema() -> dict[str, Any]:
    """``messages``: number to name and type by message; ``enums``: number to name by enumeration."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("schema.json").read_text(encoding="utf-8"))
    return found


def parse(data: memoryview | bytes, kind: str, name: str) -> Message:
    """The message ``kind`` of Caffe's description in ``data``; ``name`` is what errors call the file.

    Raises :class:`FormatError` for bytes that are none.
    """
    return _Reader(memoryview(data), name).message(0, len(data), kind, name)


class _Reader:
    def __init__(self, data: memoryview, name: str) -> None:
        self.data, self.name = data, name
        self.left = MAX_FIELDS

    def message(self, at: int, end: int, kind: str, where: str) -> Message:
        """The fields between two places. Types of fields do not contain themselves, so this ends."""
        found, fields = Message(where), schema()["messages"][kind]
        while at < end:
            self.left -= 1
            if self.left < 0:
                raise FormatError(f"{self.name} has more than {MAX_FIELDS} fields; is it a caffemodel?")
            begin = at
            key, at = self.varint(at, end)
            number, wire = key >> 3, key & 7
            described = fields.get(str(number))
            if described is None:
                at = self.skipped(at, end, wire)
                found.strange.add(number)
                continue
            name, kind_of_field = described
            if wire == _BYTES:
                length, at = self.varint(at, end)
                if length > end - at:
                    raise self.cut(f"'{name}' of {where}")
                found.add(name, self.bytes(at, at + length, kind_of_field, f"{where}, {name}"))
                at += length
            elif kind_of_field in _FIXED and wire == _FIXED[kind_of_field][0]:
                values, at = self.run(begin, at, end, np.dtype(_FIXED[kind_of_field][1]))
                found.add(name, values)
            elif wire == _VARINT and (kind_of_field in _WHOLE or kind_of_field in ("bool", "enum")):
                value, at = self.varint(at, end)
                found.add(name, _number(value, kind_of_field))
            elif wire == _VARINT and kind_of_field in schema()["enums"]:
                value, at = self.varint(at, end)
                found.add(name, schema()["enums"][kind_of_field].get(str(value), value))
            else:
                raise FormatError(
                    f"{where}: field '{name}' has the wire type {wire}, which {kind_of_field} has not; is the file "
                    "damaged?"
                )
        return found

    def bytes(self, at: int, end: int, kind: str, where: str) -> Field:
        """What a length stands before: a message, a text, bytes, or packed numbers."""
        if kind in schema()["messages"]:
            return self.message(at, end, kind, where)
        if kind == "string":
            return bytes(self.data[at:end]).decode("utf-8", "replace")
        if kind == "bytes":
            return bytes(self.data[at:end])
        if kind in _FIXED:
            dtype = np.dtype(_FIXED[kind][1])
            if (end - at) % dtype.itemsize:
                raise self.cut(where)
            return np.frombuffer(self.data, dtype, (end - at) // dtype.itemsize, at)
        numbers = []
        while at < end:
            self.left -= 1
            if self.left < 0:
                raise FormatError(f"{self.name} has more than {MAX_FIELDS} fields; is it a caffemodel?")
            value, at = self.varint(at, end)
            numbers.append(int(_number(value, kind)))
        return np.asarray(numbers, np.int64)

    def run(self, begin: int, at: int, end: int, dtype: np.dtype[Any]) -> tuple[np.ndarray, int]:
        """Numbers that follow each other with the same key, as files write them that do not pack."""
        step = at - begin + dtype.itemsize
        if at + dtype.itemsize > end:
            raise self.cut("a number")
        room, count, key = (end - begin) // step, 1, np.frombuffer(self.data, np.uint8, at - begin, begin)
        while count < room:  # twice as many each time, so that short runs cost little
            more = min(count, room - count)
            rows = np.frombuffer(self.data, np.uint8, more * step, begin + count * step).reshape(more, step)
            same = (rows[:, : len(key)] == key).all(1)
            if not same.all():
                count += int(same.argmin())
                break
            count += more
        rows = np.frombuffer(self.data, np.uint8, count * step, begin).reshape(count, step)
        return np.ascontiguousarray(rows[:, len(key) :]).view(dtype).reshape(-1), begin + count * step

    def skipped(self, at: int, end: int, wire: int) -> int:
        """The place after a field that is not described."""
        if wire == _VARINT:
            return self.varint(at, end)[1]
        if wire == _BYTES:
            length, at = self.varint(at, end)
        elif wire in (_EIGHT, _FOUR):
            length = 8 if wire == _EIGHT else 4
        else:
            raise FormatError(f"{self.name}, byte {at}: no field begins so; is it a caffemodel, is it damaged?")
        if length > end - at:
            raise self.cut("a field")
        return at + length

    def varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise self.cut("a number")
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, at
        raise FormatError(f"{self.name}, byte {at}: a number of more than 64 bits; is the file damaged?")

    def cut(self, what: str) -> FormatError:
        return FormatError(
            f"{self.name} ends within {what}: a part of it is missing or damaged; download or export it again"
        )


def _number(value: int, kind: str) -> int | bool:
    if kind == "bool":
        return bool(value)
    if kind in ("int32", "int64"):
        return int(struct.unpack("<q", struct.pack("<Q", value))[0])
    return value
