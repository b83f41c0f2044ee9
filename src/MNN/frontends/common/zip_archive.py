"""Zip archives that hold models: verified, read a part at a time, parts left where they lie in the file."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from MNN.errors import FormatError, MNNError
from MNN.schema.files import MappedFile, open_regular

MAX_ENTRIES = 1 << 17
MAX_TEXT = 96 << 20
"""Bytes of one part that is read as text or as a pickle."""
MAX_INFLATED = 256 << 20
"""Bytes of all compressed parts together: tensors are stored as they are."""
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, struct.error, ValueError,
    OverflowError, LookupError,
)  # fmt: skip


class ZipArchive:
    """A zip archive, maybe of one folder; names are those within that folder. ``format_name`` is whose archives these
    are, in errors."""

    format_name = ""

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
        self._inflated = 0
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
            f"{self.name} is no {self.format_name} archive, or one of which a part is missing or damaged: {what}; "
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
            raise self._damaged(f"its part '{name}' is compressed in a way that {self.format_name} does not use")
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


def _root(names: Sequence[str]) -> str:
    """The folder that all parts are in; empty where they are in none."""
    first = names[0].split("/", 1)[0] + "/" if names and "/" in names[0] else ""
    return first if first and all(n.startswith(first) for n in names) else ""
