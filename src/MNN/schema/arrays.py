"""Arrays by name in a file (numpy's .npz), written whole or not at all, and read from files that may hold anything."""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.schema.files import open_regular, replacing

_START = b"PK"
DAMAGE = (
    OSError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, MemoryError, NotImplementedError,
    RuntimeError, SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy and zipfile raise for damaged files."""


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a file beside the place and moves it there: a full disk, or an interruption, leaves what was there. Raises
    :class:`MNNError` where it cannot be written."""
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: str | os.PathLike[str], what: str = "file of arrays") -> dict[str, np.ndarray]:
    """What :func:`write_arrays` wrote. Raises :class:`MNNError` for what is no such file, which is called ``what``."""
    if os.path.isdir(path):
        raise MNNError(f"{os.fspath(path)} is a folder; a {what} is expected")
    try:
        with open_regular(Path(path)) as file:
            found = file.read(len(_START))
            if found != _START:
                raise MNNError(f"{os.fspath(path)} is no {what}" if found else f"{os.fspath(path)} is empty")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except DAMAGE as error:
        raise MNNError(f"{os.fspath(path)} is no {what}: {error}") from error


__all__ = ["DAMAGE", "read_arrays", "write_arrays"]
