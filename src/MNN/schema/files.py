"""Opening and replacing files safely: regular files only, and never a half-written one."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that takes ``path``'s place when the block ends well, and vanishes when it does not."""
    target = Path(path)
    if target.is_dir():
        raise MNNError(f"cannot write {target}: a folder of that name is there")
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
