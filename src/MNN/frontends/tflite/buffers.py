"""Where the bytes of constants and of custom options lie: in the flatbuffer, behind it, or in other files."""

from __future__ import annotations

import os

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.schema.external import ExternalSource
from MNN.schema.reader import Buffer
from MNN.schema.record import Record

_NUMBERS = {"FLOAT16": np.float16, "FLOAT32": np.float32, "INT8": np.int8, "INT32": np.int32}


class Buffers:
    """Bytes of the model ``data`` by what refers to them, as views. ``path``: where the model lies, if in a file."""

    def __init__(self, model: Record, data: Buffer, name: str, path: str | os.PathLike[str] | None) -> None:
        self._buffers: list[Record] = model.buffers or []
        self._groups: list[Record] = model.external_buffer_groups or []
        self._external: dict[int, Record] = {int(b.id): b for b in model.external_buffers or []}
        self._data = data
        self._name = name
        self._files = None if path is None else ExternalSource(path)

    def of(self, tensor: Record, where: str) -> np.ndarray | None:
        """The bytes of a tensor (u8), None when it is no constant."""
        if tensor.external_buffer:
            return self._outside(int(tensor.external_buffer), where)
        index = int(tensor.buffer)
        if index >= len(self._buffers):
            raise FormatError(f"{self._name}: {where}: buffer {index} is not among the {len(self._buffers)}")
        buffer = self._buffers[index]
        if buffer.data is not None and len(buffer.data):
            found: np.ndarray = buffer.data
            return found
        if buffer.offset > 1:  # 0 and 1 stand for a buffer without bytes
            return self._behind(int(buffer.offset), int(buffer.size), where)
        return None

    def numbers(self, tensor: Record, where: str) -> np.ndarray | None:
        """A constant of plain numbers as a flat array, None where it is none."""
        raw, kind = self.of(tensor, where), _NUMBERS.get(str(tensor.type))
        if kind is None:
            return None
        dtype: np.dtype[np.generic] = np.dtype(kind)
        return None if raw is None or raw.size % dtype.itemsize else np.frombuffer(raw.tobytes(), dtype)

    def custom_options(self, operation: Record, where: str) -> bytes:
        """What a custom operator is told, as its author wrote it."""
        if operation.large_custom_options_offset > 1:
            start, size = int(operation.large_custom_options_offset), int(operation.large_custom_options_size)
            return self._behind(start, size, where).tobytes()
        given = operation.custom_options
        return b"" if given is None else bytes(given.tobytes())

    def _behind(self, offset: int, size: int, where: str) -> np.ndarray:
        if offset + size > len(self._data):
            raise FormatError(
                f"{self._name}: {where}: its {size} bytes at {offset} are not in the file of {len(self._data)} bytes; "
                "is a part of it missing?"
            )
        return np.frombuffer(self._data, np.uint8, size, offset)

    def _outside(self, key: int, where: str) -> np.ndarray:
        buffer = self._external.get(key)
        if buffer is None or buffer.group >= len(self._groups):
            raise FormatError(f"{self._name}: {where}: the model describes no external buffer {key}")
        if buffer.packing not in (None, "", "unpacked"):
            raise UnsupportedError(f"{self._name}: {where}: external data packed as '{buffer.packing}'")
        location = self._groups[buffer.group].name or ""
        if self._files is None:
            raise FormatError(
                f"{self._name}: {where}: its numbers are in the file '{location}' beside the model: give the model as "
                "a path, not as bytes"
            )
        return self._files.open(location).array(int(buffer.offset), int(buffer.length), np.uint8)
