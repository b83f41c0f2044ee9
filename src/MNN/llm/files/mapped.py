"""A file in memory: mapped read-only, never read beyond its end, and given back when it was read."""

from __future__ import annotations

import contextlib
import json
import mmap
import stat
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError, MNNError

Array = np.ndarray[Any, np.dtype[Any]]
JSON_LIMIT = 256 << 20
"""Bytes that a JSON file of a model may have; tokenizers of 256,000 words have about 35 million."""


def map_file(path: Path) -> Array:
    """The bytes of a file as uint8 ``[size]``, read-only, in memory only where they are looked at.

    MNNError where there is no such file, FormatError where it is empty.
    """
    if _size(path) == 0:
        raise FormatError(f"{path} is empty; download or write it again")
    try:
        with path.open("rb") as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise MNNError(f"{path} cannot be read: {error.strerror or error}") from error
    _MAPS.add(held)
    return np.frombuffer(held, np.uint8)


_MAPS: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def give_back() -> None:
    """Has the system take back the memory that mapped files lie in; what is looked at again is there again. For when a
    model was read: what is computed with lies elsewhere then, as it is packed."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for held in _maps():
            held.madvise(mmap.MADV_DONTNEED)


def _maps() -> list[mmap.mmap]:
    """All files that are mapped, whatever other threads map meanwhile."""
    while True:
        with contextlib.suppress(RuntimeError):  # there are more now than when this began to go through them
            return list(_MAPS)


def _size(path: Path) -> int:
    """The bytes of a regular file; others, which may block or act, are not opened."""
    try:
        found = path.stat()
    except OSError as error:
        raise MNNError(f"{path} cannot be read: {error.strerror or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise MNNError(f"{path} is no regular file")
    return found.st_size


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. FormatError for what is none, MNNError where there is no such file."""
    return parse_object(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a JSON file, not larger than such files are. FormatError for what is no text, MNNError where there is
    no such file."""
    if _size(path) > JSON_LIMIT:
        raise FormatError(f"{path} has more than {JSON_LIMIT >> 20} MiB; a JSON file of a model has less")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise MNNError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error


def parse_object(text: str | bytes, where: str) -> dict[str, Any]:
    """A JSON object whose names are all different. FormatError otherwise."""
    try:
        found = json.loads(text, object_pairs_hook=lambda pairs: _without_twins(pairs, where))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{where} holds a JSON {type(found).__name__}, but an object is expected")
    return found


def _without_twins(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twin = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise FormatError(f"{where} names {twin!r} twice in one object")
    return found
