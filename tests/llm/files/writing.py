"""Small GGUF and safetensors files, written for tests from what the formats' documents say."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = {np.dtype("f4"): 0, np.dtype("f2"): 1, np.dtype("i4"): 26, np.dtype("f8"): 28}


def gguf(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray | tuple[int, tuple[int, ...], bytes]],
    version: int = 3,
) -> bytes:
    """A file. Tensors: float arrays, or the number of a kind, the shape (rows first) and the blocks."""
    head, data = b"", b""
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            kind, shape, content = KINDS[tensor.dtype], tensor.shape, tensor.tobytes()
        else:
            kind, shape, content = tensor
        data += bytes(-len(data) % 32)
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += content
    words = b"".join(text(name) + value(item) for name, item in metadata.items())
    begin = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata)) + words + head
    return begin + bytes(-len(begin) % 32) + data


def text(string: str) -> bytes:
    return struct.pack("<Q", len(string.encode())) + string.encode()


def value(item: Any, typed: bool = True) -> bytes:
    """A value of metadata with its type."""
    if isinstance(item, bool):
        kind, data = 7, struct.pack("<B", item)
    elif isinstance(item, int):
        kind, data = (4, struct.pack("<I", item)) if item >= 0 else (5, struct.pack("<i", item))
    elif isinstance(item, float):
        kind, data = 6, struct.pack("<f", item)
    elif isinstance(item, str):
        kind, data = 8, text(item)
    elif isinstance(item, np.ndarray):
        code = {"f4": 6, "i4": 5, "u1": 0, "i8": 11, "u4": 4}[item.dtype.str[1:]]
        kind, data = 9, struct.pack("<IQ", code, item.size) + item.tobytes()
    else:
        first = value(item[0]) if item else value("")
        kind, data = 9, first[:4] + struct.pack("<Q", len(item)) + b"".join(value(i, False) for i in item)
    return (struct.pack("<I", kind) if typed else b"") + data


def safetensors(tensors: Mapping[str, np.ndarray], names: Mapping[str, str] | None = None) -> bytes:
    """A file. ``names``: the format's name of a tensor's numbers, where it is not numpy's."""
    known = {"f4": "F32", "f2": "F16", "f8": "F64", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u1": "U8"}
    known |= {"b1": "BOOL", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in tensors.items():
        kind = (names or {}).get(name) or known.get(array.dtype.name) or known[array.dtype.str[1:]]
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data
