"""External data: the one place that opens a file which a model file names, and the writer of ``X.mnn.weight``.

A name inside of a model is hostile. It may only lead to a regular file in the model's own folder (or a folder below
it): no absolute path, no ``..``, no symbolic link on the way, no hard link to a file elsewhere, no device or FIFO.
"""

from __future__ import annotations

import mmap
import os
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.schema.files import MappedFile, open_regular, replacing

#: Where each operator's data begins in a file written here, so that mapped vectors are aligned.
ALIGNMENT = 64
_HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")


class ExternalData:
    """A memory-mapped external data file, read-only."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self._data: mmap.mmap | bytes = b""
        if self.size:
            self._data = MappedFile.of(file, path)

    def read_range(self, offset: int, length: int) -> memoryview:
        """``length`` bytes from ``offset``, as a view; FormatError when they are not all inside of the file."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise FormatError(
                f"{self.path}: bytes {offset}..{offset + length} are asked for, the file has {self.size}; "
                "it is incomplete or belongs to another model"
            )
        return memoryview(self._data)[offset : offset + length]

    def array(self, offset: int, length: int, dtype: np.dtype[Any] | type) -> np.ndarray[Any, np.dtype[Any]]:
        """``length`` bytes from ``offset`` as a one-dimensional array of ``dtype``; a view where alignment allows."""
        kind: np.dtype[Any] = np.dtype(dtype)
        if length % kind.itemsize:
            raise FormatError(f"{self.path}: {length} bytes at {offset} are no whole number of {kind} elements")
        raw = self.read_range(offset, length)
        array = np.frombuffer(raw, kind) if length else np.empty(0, kind)
        return array if array.flags.aligned else array.copy()


def open_external(model_path: str | os.PathLike[str], location: str) -> ExternalData:
    """Maps the file ``location``, a name found in the model at ``model_path``.

    MNNError when the name leads outside of the model's folder, is a link, or is not a regular file.
    """
    parts = _parts(location)
    folder = Path(model_path).parent
    path = folder.joinpath(*parts)
    opener = _open_beneath if _HAS_DIR_FD else _open_checked
    with opener(folder, parts, path) as file:
        links = os.fstat(file.fileno()).st_nlink
        if links > 1:
            raise MNNError(f"external data {path} is refused: it is a hard link ({links} names); copy the file instead")
        return ExternalData(path, file)


def _parts(location: str) -> list[str]:
    reason = ""
    parts = [part for part in location.split("/") if part != "."]
    if not location or "\0" in location:
        reason = "an empty name" if not location else "a zero byte in the name"
    elif location.startswith("/") or (len(location) > 1 and location[1] == ":"):
        reason = "an absolute path"
    elif ".." in parts or "" in parts or not parts:
        reason = "a name that leaves the model's folder"
    elif "\\" in location or any(":" in part for part in parts):
        reason = "a name with a drive, stream or backslash"
    if reason:
        raise MNNError(
            f"external data {location[:200]!r} is refused: {reason}; expected a file name inside of the model's folder"
        )
    return parts


def _open_beneath(folder: Path, parts: list[str], path: Path) -> BinaryIO:
    """Opens component by component from the folder's descriptor, following no link: safe against swaps on the way."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        for i, part in enumerate(parts):
            last = i == len(parts) - 1
            try:
                inner = os.open(part, flags | (os.O_NONBLOCK if last else os.O_DIRECTORY), dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = " (symbolic links are refused)" if _is_link(folder, parts) else ""
        if isinstance(error, FileNotFoundError):
            hint = "; the model keeps weights in that file: put it beside the model"
        raise MNNError(f"cannot open external data {path}: {reason}{hint}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MNNError(f"external data {path} is refused: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def _open_checked(folder: Path, parts: list[str], path: Path) -> BinaryIO:
    """For systems that cannot open relative to a folder: looks at each component, opens, and compares identities."""
    if _is_link(folder, parts):
        raise MNNError(f"external data {path} is refused: symbolic links are not followed")
    file = open_regular(path)
    opened = os.fstat(file.fileno())
    named = os.lstat(path)
    if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
        file.close()
        raise MNNError(f"external data {path} is refused: it changed while it was opened")
    return file


def _is_link(folder: Path, parts: list[str]) -> bool:
    places = [folder.joinpath(*parts[: i + 1]) for i in range(len(parts))]
    try:
        return any(stat.S_ISLNK(os.lstat(place).st_mode) for place in places)
    except (OSError, ValueError):
        return False


class ExternalSource:
    """The external files of one model, each opened once, when it is first needed."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self.model_path = Path(model_path)
        self._open: dict[str, ExternalData] = {}

    def open(self, location: str | None = None) -> ExternalData:
        """The file called ``location`` (from ``Op.externalPath``), by default ``<model file>.weight``."""
        name = location or f"{self.model_path.name}.weight"
        data = self._open.get(name)
        if data is None:
            data = self._open[name] = open_external(self.model_path, name)
        return data


class ExternalWriter:
    """Writes ``<model file>.weight``; the file takes its place when the block ends without an error.

    with ExternalWriter(path) as writer:
        conv.external = writer.add(weight, bias)
    """

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        target = Path(model_path)
        self.path = target.with_name(f"{target.name}.weight")
        self.size = 0
        self._context: AbstractContextManager[BinaryIO] = replacing(self.path)
        self._file: BinaryIO | None = None

    def __enter__(self) -> ExternalWriter:
        self._file = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._file = None
        return self._context.__exit__(kind, error, trace)

    def add(self, *arrays: np.ndarray[Any, np.dtype[Any]]) -> list[int]:
        """Appends the arrays back to back; returns [offset, bytes of each], the form of the ``external`` fields."""
        if self._file is None:
            raise MNNError("the external data writer is not open; use it in a with block")
        start = -(-self.size // ALIGNMENT) * ALIGNMENT
        self._file.write(bytes(start - self.size))
        self.size = start
        for array in arrays:
            self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            self.size += array.nbytes
        return [start, *(array.nbytes for array in arrays)]
