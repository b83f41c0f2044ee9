"""Writes Caffe's files: networks as nested dicts, to prototxt and to caffemodel."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from MNN.frontends.caffe.wire import schema

Fields = Mapping[str, Any]
"""Fields of a message by name; lists for repeated ones, :class:`Word` for names of enumerations."""


class Word(str):
    """A name that stands without quotes: of an enumeration."""

    __slots__ = ()


def blob(array: np.ndarray, old: bool = False) -> dict[str, Any]:
    """A BlobProto of numbers; ``old``: with four sizes in place of a shape."""
    data = np.asarray(array, np.float32)
    if not old:
        return {"shape": {"dim": list(data.shape)}, "data": data.reshape(-1)}
    sizes = (1,) * (4 - data.ndim) + data.shape
    return {**dict(zip(("num", "channels", "height", "width"), sizes, strict=True)), "data": data.reshape(-1)}


def layer(
    kind: str,
    bottoms: Sequence[str],
    tops: Sequence[str],
    blobs: Sequence[np.ndarray] = (),
    name: str = "",
    **params: Any,
) -> dict[str, Any]:
    """A layer; ``params`` are its messages: ``relu_param={"negative_slope": 0.1}``."""
    made: dict[str, Any] = {"name": name or tops[0], "type": kind, "bottom": list(bottoms), "top": list(tops)}
    made |= params
    if blobs:
        made["blobs"] = [blob(b) for b in blobs]
    return made


def inputs(**shapes: Sequence[int]) -> list[dict[str, Any]]:
    """Input layers."""
    return [layer("Input", [], [n], input_param={"shape": {"dim": list(s)}}) for n, s in shapes.items()]


def without_weights(net: Fields) -> dict[str, Any]:
    """A network as its prototxt has it."""
    kept: dict[str, Any] = {}
    for key, value in net.items():
        if key == "blobs":
            continue
        if isinstance(value, Mapping):
            kept[key] = without_weights(value)
        elif isinstance(value, list):
            kept[key] = [without_weights(v) if isinstance(v, Mapping) else v for v in value]
        else:
            kept[key] = value
    return kept


# -- text -------------------------------------------------------------------------------------------------------------


def prototxt(net: Fields) -> str:
    """A network without its weights as text."""
    return "".join(_lines(without_weights(net), ""))


def _lines(fields: Fields, indent: str) -> Iterator[str]:
    for key, values in fields.items():
        for value in values if isinstance(values, (list, np.ndarray)) else [values]:
            if isinstance(value, Mapping):
                yield f"{indent}{key} {{\n"
                yield from _lines(value, f"{indent}  ")
                yield f"{indent}}}\n"
            else:
                yield f"{indent}{key}: {_text(value)}\n"


def _text(value: Any) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(int(value))


# -- binary -----------------------------------------------------------------------------------------------------------


def caffemodel(net: Fields, kind: str = "NetParameter", packed: bool = True) -> bytes:
    """A message as bytes; fields that the format's description lacks, of forks, are left out."""
    numbers = {name: (int(number), what) for number, (name, what) in schema()["messages"][kind].items()}
    out = bytearray()
    for key, values in net.items():
        if key not in numbers:
            continue
        number, what = numbers[key]
        if isinstance(values, np.ndarray):
            out += _floats(number, values, packed)
            continue
        for value in values if isinstance(values, list) else [values]:
            out += _field(number, what, value, packed)
    return bytes(out)


def _floats(number: int, values: np.ndarray, packed: bool) -> bytes:
    data = values.astype("<f4")
    if packed:
        return _key(number, 2) + varint(data.nbytes) + data.tobytes()
    return b"".join(_key(number, 5) + struct.pack("<f", v) for v in data)


def _field(number: int, what: str, value: Any, packed: bool) -> bytes:
    if what in schema()["messages"]:
        inner = caffemodel(value, what, packed)
        return _key(number, 2) + varint(len(inner)) + inner
    if what in ("string", "bytes"):
        data = value if isinstance(value, bytes) else value.encode()
        return _key(number, 2) + varint(len(data)) + data
    if what in ("float", "double"):
        return (
            _key(number, 5) + struct.pack("<f", value)
            if what == "float"
            else _key(number, 1) + struct.pack("<d", value)
        )
    if what in schema()["enums"] and isinstance(value, str):
        value = next(int(n) for n, name in schema()["enums"][what].items() if name == value)
    return _key(number, 0) + varint(int(value) & (1 << 64) - 1)


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
