"""TensorFlow's files by their first bytes; apart from the front end, so that opening other files stays quick."""

from __future__ import annotations


def looks_like_tensorflow(head: bytes, size: int) -> bool:
    """A GraphDef, whose first field is a node, which begins with its name; a SavedModel; or the graph beside a
    checkpoint."""
    return _graph(head) or saved_model(head, size) or _meta_graph(head)


def saved_model(head: bytes, size: int) -> bool:
    """A SavedModel: schema version 1, then a graph with its meta information, which is most of the file."""
    if head[:3] != b"\x08\x01\x12":
        return False
    length, at = _varint(head, 3)
    return 0 < length <= size - at and head[at : at + 1] == b"\x0a" and length > (size - at) // 8


def _graph(head: bytes) -> bool:
    if head[:1] != b"\x0a":
        return False
    _, at = _varint(head, 1)
    if head[at : at + 1] != b"\x0a":
        return False
    length, at = _varint(head, at + 1)
    name, then = head[at : at + length], head[at + length : at + length + 1]
    return 0 < length < 4096 and then == b"\x12" and name.isascii() and name.decode("ascii").isprintable()


def _meta_graph(head: bytes) -> bool:
    """What is known about a graph, first of all a list of the operators in it."""
    if head[:1] != b"\x0a":
        return False
    _, at = _varint(head, 1)
    if head[at : at + 1] != b"\x12":
        return False
    _, at = _varint(head, at + 1)
    return head[at : at + 1] == b"\x0a"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return 0, at
