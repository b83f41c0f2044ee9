"""Opening and replacing files safely: regular files only, and never a half-written one."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from MNN.errors import MNNError

# Devices and FIFOs must not block or act on being opened; Windows needs binary mode said.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path, extra_flags: int = 0) -> BinaryIO:
    """Opens a regular file for reading; MNNError for what is missing, unreadable, or a folder, device or FIFO."""
    try:
        descriptor = os.open(path, _READ_FLAGS | extra_flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MNNError(f"cannot open {path}: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MNNError(f"cannot open {path}: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def identity(info: os.stat_result) -> str:
    """A text that a regular file on this machine keeps exactly as long as nobody writes to it or replaces it.

    Empty when that cannot be told: a file written so recently that a second change would leave the same times.
    """
    written = max(info.st_mtime_ns, info.st_ctime_ns)
    # whole seconds: the file system keeps no finer times, at the coarsest every 2 s; others step by 10 ms or less
    step = 2_100_000_000 if written % 1_000_000_000 == 0 else 50_000_000
    if info.st_ino == 0 or written > time.time_ns() - step:
        return ""
    parts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class MappedFile(mmap.mmap):
    """A whole open file as read-only memory. ``identity`` is that of the file when it was mapped, see above."""

    path: str
    identity: str
    address: int

    @classmethod
    def of(cls, file: BinaryIO, path: str | os.PathLike[str]) -> MappedFile:
        """Maps a file that is not empty, opened at ``path``."""
        info = os.fstat(file.fileno())
        mapped = cls(file.fileno(), info.st_size, access=mmap.ACCESS_READ)
        mapped.path = os.path.abspath(path)
        mapped.identity = identity(info)
        mapped.address = int(np.frombuffer(mapped, np.uint8).ctypes.data)
        watcher = _WATCHER.get()
        if watcher is not None:
            watcher[mapped.path] = mapped.identity
        return mapped

    @classmethod
    def nameless(cls, descriptor: int, nbytes: int) -> MappedFile:
        """Maps the first bytes of an open file that has no name, to be written to as well."""
        mapped = cls(descriptor, nbytes)
        mapped.path = mapped.identity = ""
        mapped.address = int(np.frombuffer(mapped, np.uint8).ctypes.data)
        return mapped


_WATCHER: ContextVar[dict[str, str] | None] = ContextVar("mapped files", default=None)


@contextlib.contextmanager
def watched() -> Iterator[dict[str, str]]:
    """Gathers the identities of all files that are mapped within the block, by their absolute paths."""
    found: dict[str, str] = {}
    token = _WATCHER.set(found)
    try:
        yield found
    finally:
        _WATCHER.reset(token)


def seen(files: Mapping[str, str]) -> None:
    """Counts files that were mapped before as mapped now, for who watches."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher.update(files)


def origin(array: np.ndarray[Any, Any]) -> tuple[MappedFile, int] | None:
    """The mapped file in which a contiguous array lies, and at which byte; None when its memory is no file's."""
    mapped = _mapped(array)
    if mapped is None or not array.flags.c_contiguous:
        return None
    return mapped, int(array.ctypes.data) - mapped.address


def in_file(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array lies in a mapped file, so that :func:`release` gives its memory back."""
    return _mapped(array) is not None


def _mapped(array: np.ndarray[Any, Any]) -> MappedFile | None:
    base: object = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, MappedFile) else None


def release(array: np.ndarray[Any, Any]) -> None:
    """Lets the system take back the memory of an array, or of a view with other strides, that lies in a mapped file;
    reading it again reads the file."""
    mapped = _mapped(array)
    if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = int(array.ctypes.data) - mapped.address
    end = begin + array.itemsize
    for count, stride in zip(array.shape, array.strides, strict=True):
        begin, end = begin + min((count - 1) * stride, 0), end + max((count - 1) * stride, 0)
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    last = end // mmap.PAGESIZE * mmap.PAGESIZE
    if array.size and first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


def path_of(path: object) -> Path:
    """A path that somebody gave. Raises :class:`MNNError` for what is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise MNNError(f"a file is given by its path, found {type(path).__name__}")
    return Path(path)


def replaceable(path: object) -> Path:
    """A path whose place a file may take: none is there, or a regular one, in a folder that is there. Raises
    :class:`MNNError` otherwise."""
    target = path_of(path)
    if target.is_dir():
        raise MNNError(f"cannot write {target}: a folder of that name is there")
    if not target.parent.is_dir():
        place = target.parent
        wrong = f"{place} is no folder" if place.exists() else f"there is no folder {place}; make it first"
        raise MNNError(f"cannot write {target}: {wrong}")
    try:
        special = not stat.S_ISREG(target.stat().st_mode)
    except (OSError, ValueError):  # nothing there; what else is wrong is found when it is written
        special = False
    if special:
        raise MNNError(f"cannot write {target}: a device or pipe is there, whose place no file takes; name a file")
    return target


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that takes ``path``'s place when the block ends well, and vanishes when it does not."""
    target = replaceable(path)
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        file = os.fdopen(os.open(temporary, flags, 0o666), "wb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MNNError(f"cannot write {target}: {reason}") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise MNNError(f"cannot write {target}: {error.strerror or error}") from error
        raise
