"""Caffe's files by their first bytes; apart from the front end, so that opening other files stays quick."""

from __future__ import annotations

import re

_BLANK = rb"(?:\s|#[^\n]*(?:\n|\Z))*"
_FIELDS = rb"name|force_backward|debug_info|state|layers?|input|input_shape|input_dim"
_TEXT = re.compile(rb"(?:\xef\xbb\xbf)?" + _BLANK + rb"(?:" + _FIELDS + rb")\s*[:{<]")
_NET_FIELDS = ((1, 2), (3, 2), (4, 0), (4, 2), (5, 0), (6, 2), (7, 0), (8, 2))
"""Numbers and wire types of a NetParameter's fields, but for its layers."""
_LAYERS, _OLD_LAYERS = 100, 2
_OLD_STARTS = (0x0A, 0x12, 0x1A, 0x22)
"""What layers of the older forms begin with: parameters, blobs that are read or made, a name."""
_BEGIN = 4096


def looks_like_caffe(head: bytes, size: int) -> bool:
    """A prototxt that describes a network, or a caffemodel."""
    return is_text(head) or is_binary(head, size)


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is a prototxt of a network."""
    return _TEXT.match(head) is not None


def is_binary(head: bytes, size: int) -> bool:
    """Whether a file that begins so is a NetParameter: fields with its numbers and types, then a layer."""
    at, end = 0, min(len(head), _BEGIN)
    try:
        while at < end:
            key, begin = _varint(head, at)
            number, wire = key >> 3, key & 7
            length, inside = _varint(head, begin)
            if number in (_LAYERS, _OLD_LAYERS) and wire == 2:
                fits = 0 < length <= size - inside
                return fits and (head[inside] in _OLD_STARTS if number == _OLD_LAYERS else head[inside] & 7 in (0, 2))
            if (number, wire) not in _NET_FIELDS:
                return False
            at = inside if wire == 0 else inside + length
    except IndexError:
        pass
    return False


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise IndexError
