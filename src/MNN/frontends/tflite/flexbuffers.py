"""Reads FlexBuffers, the format without a schema in which custom operators keep their options.

https://flatbuffers.dev/flexbuffers (version of 2024): values refer backwards to what lies before them; the root is at
the end. Only what options need is read: numbers, texts, blobs, vectors and maps.
"""

from __future__ import annotations

import struct

from MNN.errors import FormatError

Item = None | bool | int | float | str | bytes | list["Item"] | dict[str, "Item"]

_MAX_DEPTH, _MAX_ITEMS = 16, 1 << 16
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING, _IND_INT, _IND_UINT, _IND_FLOAT, _MAP, _VECTOR = range(11)
_TYPED = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _STRING, 36: 26}
_FIXED = {16 + i: ((_INT, _UINT, _FLOAT)[i % 3], 2 + i // 3) for i in range(9)}
_BLOB, _BOOL = 25, 26
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


def read(data: bytes, where: str) -> Item:
    """The value that a buffer holds. Raises :class:`FormatError` when it is malformed."""
    try:
        return _Reader(data).root()
    except (IndexError, struct.error, ValueError, KeyError, RecursionError) as error:
        raise FormatError(f"{where}: its options are no FlexBuffer ({error}); is the model damaged?") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = _MAX_ITEMS

    def root(self) -> Item:
        if len(self.data) < 3:
            raise ValueError(f"{len(self.data)} bytes are too few")
        width, kind = self.data[-1], self.data[-2]
        return self.value(len(self.data) - 2 - width, width, kind, 0)

    def number(self, at: int, width: int, signed: bool = False) -> int:
        if width not in (1, 2, 4, 8) or not 0 <= at <= len(self.data) - width:
            raise ValueError(f"{width} bytes at {at} are outside")
        return int.from_bytes(self.data[at : at + width], "little", signed=signed)

    def real(self, at: int, width: int) -> float:
        self.number(at, width)
        return float(struct.unpack_from(_FLOATS[width], self.data, at)[0])

    def back(self, at: int, width: int) -> int:
        target = at - self.number(at, width)
        if not 0 <= target <= at:  # what is empty may lie where its offset does
            raise ValueError(f"the offset at {at} leads to {target}")
        return target

    def value(self, at: int, width: int, packed: int, depth: int) -> Item:
        """What is stored at a place ``width`` bytes wide, of a type packed with the width of what it refers to."""
        self.left -= 1
        if depth > _MAX_DEPTH or self.left < 0:
            raise ValueError("it is nested too deeply, or too large")
        kind, below = packed >> 2, 1 << (packed & 3)
        if kind == _NULL:
            return None
        if kind in (_INT, _UINT):
            return self.number(at, width, kind == _INT)
        if kind == _FLOAT:
            return self.real(at, width)
        if kind == _BOOL:
            return bool(self.number(at, width))
        there = self.back(at, width)
        if kind in (_IND_INT, _IND_UINT):
            return self.number(there, below, kind == _IND_INT)
        if kind == _IND_FLOAT:
            return self.real(there, below)
        if kind == _KEY:
            return self.key(there)
        if kind in (_STRING, _BLOB):
            raw = self.data[there : there + self.count(there, below, 1)]
            try:
                return raw.decode("utf-8") if kind == _STRING else raw
            except UnicodeDecodeError:  # converters write messages as texts, too
                return raw
        if kind in _FIXED:
            one, count = _FIXED[kind]
            return [self.value(there + i * below, below, one << 2, depth + 1) for i in range(count)]
        count = self.count(there, below, below)
        if kind in _TYPED:
            return [self.value(there + i * below, below, _TYPED[kind] << 2, depth + 1) for i in range(count)]
        if kind not in (_VECTOR, _MAP):
            raise ValueError(f"type {kind} is unknown")
        types = there + count * below
        items = [self.value(there + i * below, below, self.number(types + i, 1), depth + 1) for i in range(count)]
        if kind == _VECTOR:
            return items
        keys, key_width = self.back(there - 3 * below, below), self.number(there - 2 * below, below)
        names = [self.key(self.back(keys + i * key_width, key_width)) for i in range(count)]
        return dict(zip(names, items, strict=True))

    def count(self, there: int, width: int, size: int) -> int:
        """The length in front of what lies at a place, whose elements take ``size`` bytes."""
        found = self.number(there - width, width)
        if found * size > len(self.data) - there:
            raise ValueError(f"{found} elements at {there} are outside")
        return found

    def key(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode("utf-8")
