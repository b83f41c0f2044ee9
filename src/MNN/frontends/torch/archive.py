"""PyTorch's files as zip archives: verified, read a part at a time, tensors left where they lie in the file."""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.ir.dtype import DType
from MNN.schema.files import MappedFile, open_regular

MAX_ENTRIES = 1 << 17
MAX_TEXT = 96 << 20
"""Bytes of one part that is read as text or as a pickle."""
MAX_INFLATED = 256 << 20
"""Bytes of all compressed parts together: tensors are stored as they are."""
MAX_COPIED = 256 << 20
"""Bytes of tensors that are stored in another order, besides four times the file."""
MAX_RANK = 32
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, struct.error, ValueError,
    OverflowError, LookupError,
)  # fmt: skip


class Archive:
    """A zip archive of one folder, as PyTorch writes it; names are those within that folder."""

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        """Raises :class:`MNNError` for what cannot be opened, :class:`FormatError` for what is no archive."""
        if isinstance(source, bytes):
            self.name = "the archive"
            self._data: memoryview = memoryview(source)
            handle: io.BufferedIOBase | MappedFile = io.BytesIO(source)
        else:
            path = Path(source)
            self.name = f"'{path}'"
            try:
                with open_regular(path) as file:
                    if not os.fstat(file.fileno()).st_size:
                        raise FormatError(f"{self.name} is empty")
                    handle = MappedFile.of(file, path)
            except OSError as error:
                raise MNNError(f"cannot read {self.name}: {error.strerror or error}") from error
            self._data = memoryview(handle)
        self._inflated = self._copied = 0
        try:
            self._check_count()
            with zipfile.ZipFile(handle) as opened:  # type: ignore[arg-type]
                infos = opened.infolist()
        except _DAMAGED as error:
            raise self._damaged(f"its directory cannot be read ({error})") from error
        self._root = _root([i.filename for i in infos])
        self._entries = {i.filename[len(self._root) :]: i for i in infos if i.filename.startswith(self._root)}

    def _damaged(self, what: str) -> FormatError:
        return FormatError(
            f"{self.name} is no PyTorch archive, or one of which a part is missing or damaged: {what}; "
            "download or export it again"
        )

    def _check_count(self) -> None:
        """How many parts the end of the file claims, before a list of them is made."""
        tail = bytes(self._data[-(1 << 16) - 22 :])
        at = tail.rfind(b"PK\5\6")
        if at < 0 or at + 22 > len(tail):
            raise zipfile.BadZipFile("the end of the archive is missing")
        size = int.from_bytes(tail[at + 12 : at + 16], "little")
        if size != 0xFFFFFFFF and size > MAX_ENTRIES * 256:
            raise zipfile.BadZipFile(f"a directory of {size} bytes")
        if len(self._data) // 46 > MAX_ENTRIES:  # so many may fit: count them
            count = int.from_bytes(tail[at + 10 : at + 12], "little")
            wide = tail.rfind(b"PK\6\6")
            if count == 0xFFFF and wide >= 0:
                count = int.from_bytes(tail[wide + 32 : wide + 40], "little")
            if count > MAX_ENTRIES:
                raise zipfile.BadZipFile(f"{count} parts")

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def has(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str, most: int = MAX_TEXT) -> bytes:
        """A part's bytes. Raises :class:`FormatError` where it is missing, damaged, or longer than ``most``."""
        info = self._entries.get(name)
        if info is None:
            raise self._damaged(f"it has no part '{name}'")
        if info.file_size > most:
            raise self._damaged(f"its part '{name}' is {info.file_size} bytes long, at most {most} are expected")
        raw = self.raw(name, info.compress_size)
        if info.compress_type == zipfile.ZIP_STORED:
            return bytes(raw)
        if info.compress_type != zipfile.ZIP_DEFLATED:
            raise self._damaged(f"its part '{name}' is compressed in a way that PyTorch does not use")
        self._inflated += info.file_size
        if self._inflated > MAX_INFLATED:
            raise self._damaged(f"its compressed parts are more than {MAX_INFLATED} bytes")
        try:
            inflater = zlib.decompressobj(-15)
            found = inflater.decompress(bytes(raw), info.file_size + 1)
        except zlib.error as error:
            raise self._damaged(f"its part '{name}' cannot be unpacked ({error})") from error
        if len(found) != info.file_size:
            raise self._damaged(f"its part '{name}' is not {info.file_size} bytes long, as its directory says")
        return found

    def stored(self, name: str) -> memoryview:
        """A part that is not compressed, where it lies in the file; one that is, unpacked."""
        info = self._entries.get(name)
        if info is None:
            raise self._damaged(f"it has no part '{name}'")
        if info.compress_type != zipfile.ZIP_STORED:
            return memoryview(self.read(name, MAX_INFLATED))
        if info.compress_size != info.file_size:
            raise self._damaged(f"its part '{name}' has two lengths")
        return self.raw(name, info.file_size)

    def raw(self, name: str, length: int) -> memoryview:
        """``length`` bytes of a part as the file has them."""
        info = self._entries[name]
        begin = info.header_offset
        head = bytes(self._data[begin : begin + 30])
        if begin < 0 or len(head) < 30 or head[:4] != b"PK\3\4" or info.flag_bits & 1:
            raise self._damaged(f"its part '{name}' is not where the directory says, or is encrypted")
        names, extra = struct.unpack("<HH", head[26:30])
        start = begin + 30 + names + extra
        if length < 0 or start + length > len(self._data):
            raise self._damaged(f"its part '{name}' ends behind the end of the file")
        return self._data[start : start + length]

    def check_byte_order(self) -> None:
        """Raises :class:`FormatError` for files of machines with the other order of bytes."""
        if self.has("byteorder") and self.read("byteorder", 16) not in (b"little", b""):
            raise FormatError(
                f"{self.name} was written on a machine with another order of bytes; export it on this one"
            )

    def tensor(
        self, data: memoryview, dtype: DType, sizes: Sequence[int], strides: Sequence[int], offset: int, where: str
    ) -> np.ndarray:
        """A tensor upon the bytes of its memory: sizes, strides and offset in elements. It stays in the file where it
        is contiguous. Raises :class:`FormatError` where they make no sense, or reach beyond the memory."""
        item = dtype.numpy.itemsize
        plain = all(type(n) is int and 0 <= n < 1 << 48 for n in (*sizes, *strides, offset))
        if not plain or len(sizes) != len(strides) or len(sizes) > MAX_RANK:
            raise FormatError(
                f"{where}: sizes {list(sizes)}, strides {list(strides)} and offset {offset} make no tensor"
            )
        count = math.prod(sizes)
        if count == 0:
            return np.zeros(tuple(sizes), dtype.numpy)
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        if (last + 1) * item > len(data):
            raise FormatError(
                f"{where}: sizes {list(sizes)} with strides {list(strides)} from {offset} on reach beyond the "
                f"{len(data)} bytes of its memory; is the file damaged?"
            )
        flat = np.frombuffer(data, np.uint8, (last + 1 - offset) * item, offset * item)
        if dtype is DType.BOOL and flat.max(initial=0) > 1:
            raise FormatError(f"{where}: it holds bytes that are no booleans; is the file damaged?")
        typed = flat.view(dtype.numpy)
        if _contiguous(sizes, strides):
            return typed.reshape(tuple(sizes))
        self._copied += count * item
        if self._copied > MAX_COPIED + 4 * len(self._data):
            raise FormatError(f"{where}: sizes {list(sizes)} repeat what is stored too often; is the file damaged?")
        steps = tuple(s * item for s in strides)
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(typed, tuple(sizes), steps, writeable=False))


def _contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for n, s in zip(reversed(sizes), reversed(strides), strict=True):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def _root(names: Sequence[str]) -> str:
    """The folder that all parts are in; empty where they are in none."""
    first = names[0].split("/", 1)[0] + "/" if names and "/" in names[0] else ""
    return first if first and all(n.startswith(first) for n in names) else ""
