"""GGUF files: metadata by name, and where the tensors lie.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3. Every length is compared with
the bytes that are left before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf import codebooks, small_blocks, super_blocks  # noqa: F401 - they enter their kinds
from MNN.llm.files.gguf.blocks import KINDS, UNREAD, Array
from MNN.llm.files.gguf.tensor import BlockTensor
from MNN.llm.files.mapped import map_file
from MNN.llm.files.tensors import PlainTensor, WeightTensor, count

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_LIMIT = 1 << 20
DIMENSIONS = 4
SIZE_LIMIT = 1 << 48
NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
"""Kinds of numbers in metadata."""
BOOL, STRING, ARRAY = 7, 8, 9
_WINDOW = 1 << 20
"""Bytes of a list of texts that are looked at together."""
_LENGTH = struct.Struct("<Q").unpack_from
PLAIN: dict[int, tuple[str, np.dtype[Any]]] = {
    0: ("F32", np.dtype("<f4")),
    1: ("F16", np.dtype("<f2")),
    24: ("I8", np.dtype("i1")),
    25: ("I16", np.dtype("<i2")),
    26: ("I32", np.dtype("<i4")),
    27: ("I64", np.dtype("<i8")),
    28: ("F64", np.dtype("<f8")),
    30: ("BF16", np.dtype(ml_dtypes.bfloat16)),
}
"""Kinds of tensors that hold numbers as processors have them."""


@dataclass(frozen=True)
class GGUF:
    """A file, verified. ``metadata``: numbers, texts, flags, lists of texts and arrays of numbers by name."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, WeightTensor] = field(repr=False)

    def get(self, name: str, kind: type, default: Any = None) -> Any:
        """The metadata called ``name``, or ``default``. FormatError where it is not of the kind."""
        value = self.metadata.get(name, default)
        if value is None or value is default:
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise FormatError(f"{self.path}: {name} is a {type(value).__name__}, but a {kind.__name__} is expected")
        return value


_PARSED: ContextVar[dict[Path, GGUF] | None] = ContextVar("files that are parsed once", default=None)


@contextmanager
def parsed_once() -> Iterator[None]:
    """Within it, a file is parsed the first time that it is read, and then known: its texts are hundreds of thousands,
    and a model's configuration, its weights and its tokenizer each ask for it. Afterwards nothing of it is kept."""
    if _PARSED.get() is not None:
        yield
        return
    token = _PARSED.set({})
    try:
        yield
    finally:
        _PARSED.reset(token)


def read_gguf(path: Path) -> GGUF:
    """Reads and verifies a file. FormatError for what the format forbids, UnsupportedError for other versions."""
    known = _PARSED.get()
    if known is None:
        return _parse(path)
    if path not in known:
        known[path] = _parse(path)
    return known[path]


def _parse(path: Path) -> GGUF:
    data = map_file(path)
    cursor = _Cursor(data, path)
    if cursor.take(4, "its first bytes").tobytes() != MAGIC:
        raise FormatError(f"{path} is no GGUF file: it does not begin with {MAGIC.decode()}")
    version = cursor.number(4, "its version")
    if version not in VERSIONS:
        if version & 0xFFFF == 0:
            raise UnsupportedError(f"{path} has its bytes in big-endian order; convert it to little-endian order")
        raise UnsupportedError(f"{path} is of GGUF version {version}; versions 2 and 3 can be read")
    tensors = cursor.count("the number of tensors", 24)
    entries = cursor.count("the number of metadata entries", 13)
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        name = cursor.text("the name of a metadata entry")
        if name in metadata:
            raise FormatError(f"{path} has the metadata {name!r} twice")
        metadata[name] = cursor.value(cursor.number(4, name), name)
    infos = [_Info.read(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 8 <= alignment <= ALIGNMENT_LIMIT or alignment & (alignment - 1):
        raise FormatError(f"{path}: general.alignment is {alignment!r}; a power of two from 8 up is expected")
    begin = -(-cursor.place // alignment) * alignment
    return GGUF(path, metadata, _tensors(infos, data, begin, alignment, path))


@dataclass(frozen=True)
class _Info:
    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @classmethod
    def read(cls, cursor: _Cursor) -> _Info:
        name = cursor.text("the name of a tensor")
        rank = cursor.number(4, f"the rank of {name!r}")
        if not 1 <= rank <= DIMENSIONS:
            raise FormatError(f"{cursor.path}, tensor {name!r}: it has {rank} dimensions; one to four are expected")
        sizes = [cursor.number(8, f"the shape of {name!r}") for _ in range(rank)]
        if not all(1 <= size <= SIZE_LIMIT for size in sizes):
            raise FormatError(f"{cursor.path}, tensor {name!r}: sizes {sizes} make no tensor")
        kind, offset = cursor.number(4, f"the kind of {name!r}"), cursor.number(8, f"the place of {name!r}")
        return cls(name, tuple(reversed(sizes)), kind, offset)  # the file names the fastest dimension first

    def bytes(self, path: Path) -> int:
        if self.kind in PLAIN:
            return count(self.shape) * PLAIN[self.kind][1].itemsize
        kind = KINDS.get(self.kind) or UNREAD.get(self.kind)
        if kind is None:
            raise UnsupportedError(f"{path}, tensor {self.name!r}: numbers of kind {self.kind} are not known")
        if self.shape[-1] % kind.size:
            raise FormatError(
                f"{path}, tensor {self.name!r}: rows of {self.shape[-1]} numbers cannot be of {kind.name}, "
                f"which has blocks of {kind.size}"
            )
        return count(self.shape) // kind.size * kind.bytes


def _tensors(infos: list[_Info], data: Array, begin: int, alignment: int, path: Path) -> dict[str, WeightTensor]:
    tensors: dict[str, WeightTensor] = {}
    end, last = 0, ""
    for info in sorted(infos, key=lambda info: info.offset):
        where = f"{path}, tensor {info.name!r}"
        if info.name in tensors:
            raise FormatError(f"{where}: there are two of this name")
        size = info.bytes(path)
        if info.offset % alignment:
            raise FormatError(f"{where}: its data begins at {info.offset}, no multiple of {alignment}")
        if info.offset < end:
            raise FormatError(f"{where}: its data overlaps that of {last!r}")
        if begin + info.offset + size > data.size:
            raise FormatError(f"{where}: its data leaves the file of {data.size} bytes; download it again")
        held = data[begin + info.offset : begin + info.offset + size]
        end, last = info.offset + size, info.name
        if info.kind in PLAIN:
            name, dtype = PLAIN[info.kind]
            tensors[info.name] = PlainTensor.of(held, dtype, info.shape, name)
        else:
            kind = KINDS.get(info.kind) or UNREAD[info.kind]
            raw = held.reshape(count(info.shape[:-1]), -1)
            tensors[info.name] = BlockTensor(raw, kind, info.shape, info.name)
    return {info.name: tensors[info.name] for info in infos}


class _Cursor:
    """A place in the file that moves on, and never beyond the end."""

    def __init__(self, data: Array, path: Path) -> None:
        self.data, self.path, self.place = data, path, 0

    def take(self, size: int, what: str) -> Array:
        if size > self.data.size - self.place:
            raise FormatError(f"{self.path} ends within {what}, at byte {self.data.size}; download it again")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, size: int, what: str) -> int:
        return int.from_bytes(self.take(size, what).tobytes(), "little")

    def count(self, what: str, smallest: int) -> int:
        """A count of things that take ``smallest`` bytes at least."""
        found = self.number(8, what)
        if found * smallest > self.data.size - self.place:
            raise FormatError(
                f"{self.path}: {what} is {found}, more than its {self.data.size} bytes can hold; download it again"
            )
        return found

    def text(self, what: str) -> str:
        data = self.take(self.number(8, what), what).tobytes()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.path}: {what} is not text in UTF-8, before byte {self.place}") from error

    def value(self, kind: int, name: str) -> Any:
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            return self.take(dtype.itemsize, name).view(dtype)[0].item()
        if kind == BOOL:
            return self._flag(self.number(1, name), name)
        if kind == STRING:
            return self.text(name)
        if kind == ARRAY:
            return self._array(name)
        raise FormatError(f"{self.path}: the metadata {name!r} is of kind {kind}, which there is not")

    def _array(self, name: str) -> Any:
        kind = self.number(4, name)
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            size = self.count(f"the length of {name}", dtype.itemsize)
            return self.take(size * dtype.itemsize, name).view(dtype)
        if kind == BOOL:
            return [self._flag(flag, name) for flag in self.take(self.count(f"the length of {name}", 1), name).tolist()]
        if kind == STRING:
            return self._texts(self.count(f"the length of {name}", 8), name)
        raise FormatError(f"{self.path}: the metadata {name!r} is an array of kind {kind}; none such is known")

    def _texts(self, size: int, name: str) -> list[str]:
        """Texts one after another; vocabularies have hundreds of thousands, so this is a tight loop over a copy of some
        of the file at a time."""
        found: list[str] = []
        while len(found) < size:
            part, place = self.data[self.place : self.place + _WINDOW].tobytes(), 0
            before, end = len(found), len(part)
            try:
                for _ in range(size - before):
                    begin = place + 8
                    if begin > end or (after := begin + _LENGTH(part, place)[0]) > end:
                        break
                    found.append(part[begin:after].decode())
                    place = after
            except UnicodeDecodeError as error:
                where = self.place + place
                raise FormatError(f"{self.path}: {name} is not text in UTF-8, behind byte {where}") from error
            self.place += place
            if len(found) == before:  # one that is longer than a window, or than the file
                found.append(self.text(name))
        return found

    def _flag(self, value: int, name: str) -> bool:
        if value > 1:
            raise FormatError(f"{self.path}: the metadata {name!r} is a flag of value {value}; 0 or 1 is expected")
        return bool(value)
