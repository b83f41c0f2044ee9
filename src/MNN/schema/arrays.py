"""Arrays by name in a file (numpy's .npz), written whole or not at all, and read from files that may hold anything."""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.schema.files import open_regular, path_of, replacing

_START = b"PK"
DAMAGE = (
    OSError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, MemoryError, NotImplementedError,
    RuntimeError, SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy and zipfile raise for damaged files."""


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], note: str = "") -> None:
    """Writes a file beside the place and moves it there: a full disk, or an interruption, leaves what was there.
    ``note``: a short text that goes with the arrays, as the archive's comment. Types that are not numpy's own, such as
    bfloat16, are written as bytes (:func:`typed`). Raises :class:`MNNError` where it cannot be written, and for
    texts."""
    for name, array in arrays.items():
        if array.dtype.kind == "O":
            raise MNNError(f"cannot write {os.fspath(path)}: '{name}' holds texts; only numbers are written")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.comment = note.encode()
        for name, array in arrays.items():  # numpy.savez would take some names for its own parameters
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                plain = array.view(_bytes_of(array.dtype)) if array.dtype.isbuiltin == 2 else array
                np.lib.format.write_array(entry, np.asarray(plain), allow_pickle=False)


def typed(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """An array from a file as the one of this type that it was, where that is none of numpy's own."""
    return array.view(dtype) if dtype.isbuiltin == 2 and array.dtype == _bytes_of(dtype) else array


def _bytes_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(("V", dtype.itemsize))


def read_arrays(path: str | os.PathLike[str], what: str = "file of arrays") -> dict[str, np.ndarray]:
    """What :func:`write_arrays` wrote. Raises :class:`MNNError` for what is no such file, which is called ``what``."""
    return read_noted(path, what)[0]


def read_noted(path: str | os.PathLike[str], what: str) -> tuple[dict[str, np.ndarray], str]:
    """The same with the note; of files without one it is empty."""
    if path_of(path).is_dir():
        raise MNNError(f"{os.fspath(path)} is a folder; a {what} is expected")
    try:
        with open_regular(Path(path)) as file:
            found = file.read(len(_START))
            if found != _START:
                raise MNNError(f"{os.fspath(path)} is no {what}" if found else f"{os.fspath(path)} is empty")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                note = archive.zip.comment.decode(errors="replace") if archive.zip is not None else ""
                return {name: archive[name] for name in archive.files}, note
    except DAMAGE as error:
        raise MNNError(f"{os.fspath(path)} is no {what}: {error}") from error


__all__ = ["DAMAGE", "read_arrays", "read_noted", "typed", "write_arrays"]
