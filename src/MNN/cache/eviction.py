"""How much the cache folder may hold, what it holds, and how it is emptied.

All parts share one limit: what was used longest ago goes first, whether a kernel, packed weights or the plan of a
model. What was measured on this machine is small and took long; it stays.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time
from dataclasses import dataclass

from MNN.cache import ledger
from MNN.errors import MNNError
from MNN.formatting import nbytes, parse_bytes

VARIABLE = "MNN_CACHE_LIMIT"
DEFAULT_LIMIT = 4 * 10**9
"""Bytes that are kept when nobody has said otherwise."""
PARTS = {
    "objects": "compiled kernels",
    "packed": "packed weights",
    "programs": "plans of models",
}
"""Folders whose entries can be made again, and what they hold."""
MEASURED = "measured"
TEMPORARY = ".new-"
"""How the names of files begin that are still being written."""
_SHARE = 16
"""What is beyond the limit is removed together with every so-many-th part of it, which can then be written before
anything has to be looked at again."""
_ABANDONED = 3600
"""Seconds after which nobody is writing such a file any more."""
_ENTRY = re.compile(r"[0-9a-f]{64}(\.o)?|[a-z]+-[0-9a-f]{40}\.o")
_LIMIT_FILE = "limit"


@dataclass(frozen=True)
class Part:
    """What a folder of the cache holds: its name, entries, bytes, and when the last one was written or used (seconds
    since 1970; 0 when it is empty)."""

    name: str
    entries: int
    nbytes: int
    used: float


def limit_of(root: pathlib.Path) -> int:
    """Bytes that the cache in ``root`` may hold: ``MNN_CACHE_LIMIT``, else what :func:`set_limit` wrote there, else
    the default. Raises :class:`MNNError` when the variable is no size."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return parse_bytes(chosen, VARIABLE)
    try:
        return int((root / _LIMIT_FILE).read_text()[:20])
    except (OSError, ValueError):  # nobody has set one
        return DEFAULT_LIMIT


def check_limit() -> None:
    """Raises :class:`MNNError` when ``MNN_CACHE_LIMIT`` is no size: early, as entries may be written by a thread."""
    if os.environ.get(VARIABLE):
        parse_bytes(os.environ[VARIABLE], VARIABLE)


def set_limit(root: pathlib.Path, limit: int | None) -> None:
    """Has the cache in ``root`` keep at most ``limit`` bytes from now on (None: the default), and evicts what is
    beyond. Raises :class:`MNNError` when that cannot be written down, or the environment says otherwise."""
    if os.environ.get(VARIABLE):
        raise MNNError(
            f"{VARIABLE} is set to {os.environ[VARIABLE]} and goes before what is set here; change or unset it"
        )
    path = root / _LIMIT_FILE
    try:
        if limit is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(f"{limit}\n")
    except OSError as error:
        raise MNNError(f"cannot write {path}: {error.strerror or error}") from error
    keep_within(root, limit_of(root))


def contents(root: pathlib.Path) -> list[Part]:
    """What the parts of a cache hold, those without entries left out."""
    found = []
    for name in (*PARTS, MEASURED):
        infos = [info for _, info in _entries(root / name)]
        if infos:
            size = sum(i.st_size for i in infos)
            found.append(Part(name, len(infos), size, max(i.st_mtime for i in infos)))
    return found


def clear(root: pathlib.Path, measured: bool = False) -> tuple[int, int]:
    """Removes all entries, with ``measured`` also what was measured; files and bytes that are gone. Other files
    in these folders stay. Raises :class:`MNNError` when something cannot be removed."""
    ledger.forget(root)
    count = size = 0
    for name in (*PARTS, *([MEASURED] if measured else [])):
        for path, info in _entries(root / name, unfinished=True):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:  # others own it; Windows keeps files that are in use
                raise MNNError(f"cannot remove {path}: {error.strerror or error}") from error
            count, size = count + 1, size + info.st_size
    return count, size


def keep_within(root: pathlib.Path, limit: int) -> None:
    """Removes what was used longest ago of all parts, until at most ``limit`` bytes are left."""
    ledger.looked(root, _prune([root / name for name in PARTS], limit, limit))


def written(root: pathlib.Path, nbytes: int, limit: int) -> None:
    """Says that an entry of ``nbytes`` was written: what was used longest ago is removed when the cache may hold more
    than ``limit`` bytes."""
    if ledger.grown(root, nbytes, limit):
        _make_room(root, limit)


def to_be_written(root: pathlib.Path, nbytes: int, limit: int) -> None:
    """The same of an entry that follows."""
    if ledger.grown(root, nbytes, limit):
        _make_room(root, limit)
        ledger.grown(root, nbytes, limit)


def _make_room(root: pathlib.Path, limit: int) -> None:
    ledger.looked(root, _prune([root / name for name in PARTS], limit, limit - limit // _SHARE))


def _prune(folders: list[pathlib.Path], limit: int, wanted: int) -> int:
    """Deletes temporary files that a process which ended too early has left behind, and, where folders hold more than
    ``limit`` bytes, the files that were written (or marked as used) longest ago, until at most ``wanted`` bytes are
    left; the bytes that are."""
    entries = []
    for folder in folders:
        for path, info in _entries(folder, unfinished=True):
            if not path.name.startswith(TEMPORARY):
                entries.append((info.st_mtime, info.st_size, path))
            elif info.st_mtime < time.time() - _ABANDONED:
                path.unlink(missing_ok=True)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return total
    for _, size, path in sorted(entries):
        if total <= wanted:
            break
        with contextlib.suppress(PermissionError):  # Windows keeps files that are mapped
            path.unlink(missing_ok=True)
            total -= size
    return total


def said(root: pathlib.Path) -> str:
    """``423 MB of 4 GB in ~/.cache/mnn``."""
    total = sum(p.nbytes for p in contents(root) if p.name in PARTS)
    return f"{nbytes(total)} of at most {nbytes(limit_of(root))} in {root}"


def _entries(folder: pathlib.Path, unfinished: bool = False) -> list[tuple[pathlib.Path, os.stat_result]]:
    """Files of a cache's folder; other files that somebody keeps there are not its own."""
    found: list[tuple[pathlib.Path, os.stat_result]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if _ENTRY.fullmatch(entry.name) or (unfinished and entry.name.startswith(TEMPORARY)):
                with contextlib.suppress(FileNotFoundError):  # another process prunes too
                    found.append((pathlib.Path(entry.path), entry.stat()))
    return found
