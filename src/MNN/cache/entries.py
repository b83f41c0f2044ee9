"""The disk cache of compiled kernels: one checked file per kernel in a folder that only its user can write.

An entry's name is a hash of everything its object depends on (see ``MNN.backends.cpu.codegen.library``). The file is
``magic, sha256(key + object), object``; it is verified before use, and an entry that fails (truncated, altered, moved
from another name, owned by someone else) counts as absent and is written again. Writes go to a temporary file that is
renamed into place, so two processes may write the same entry at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import stat
import sys
import tempfile
import time
from typing import BinaryIO

from MNN.cache.eviction import TEMPORARY, check_limit, keep_within, limit_of, written
from MNN.errors import MNNError
from MNN.warning import warn

_MAGIC = b"MNNOBJ1\n"
_LARGEST = 512 << 20
"""Bytes of an entry that are read at most."""
_HOUR = 3600
"""Seconds between two marks that an entry was used."""


def default_folder() -> pathlib.Path:
    """``$MNN_CACHE_DIR``, else ``mnn`` in the user's cache folder of this system."""
    chosen = os.environ.get("MNN_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen).expanduser()
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or pathlib.Path.home()) / "mnn" / "cache"
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library" / "Caches" / "mnn"
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mnn"


class Cache:
    """Objects by key in ``folder``; ``Cache(None)`` keeps nothing. A folder that cannot be trusted or written turns the
    cache off with a warning: kernels are then compiled anew in every process."""

    _off_everywhere = False

    def __init__(self, folder: str | os.PathLike[str] | None, part: str = "objects") -> None:
        """``part`` names the folder within it (see :mod:`MNN.cache.eviction`). Raises :class:`MNNError` when
        ``MNN_CACHE_LIMIT`` is no size."""
        self.folder = None if folder is None else pathlib.Path(folder) / part
        if self.folder is None:
            return
        check_limit()
        problem = make_private(self.folder)
        if problem:
            self._off(problem)

    @staticmethod
    def default(part: str = "objects") -> Cache:
        """The cache in :func:`default_folder`, or none after :meth:`switch_off`."""
        return Cache(None if Cache._off_everywhere else default_folder(), part)

    @staticmethod
    def existing(part: str) -> Cache:
        """The default one if its folder is there and can be trusted, else none; makes nothing and warns of nothing."""
        found = Cache(None, part)
        folder = default_folder() / part
        with contextlib.suppress(OSError):
            if not Cache._off_everywhere and folder.is_dir() and not _untrusted(folder.resolve()):
                found.folder = folder
        return found

    @staticmethod
    def switch_off() -> None:
        """No default cache for the rest of this process."""
        Cache._off_everywhere = True

    @staticmethod
    def is_off() -> bool:
        """Whether :meth:`switch_off` was called."""
        return Cache._off_everywhere

    def _off(self, problem: str) -> None:
        assert self.folder is not None
        tell_unused("kernel cache", self.folder, problem)
        self.folder = None

    def get(self, key: str) -> bytes | None:
        """The object stored under ``key`` (a file-name-safe text), or None."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}.o"
        file = open_trusted(path, _LARGEST)
        if file is None:
            return None
        with file:
            data = file.read()
            used = os.fstat(file.fileno()).st_mtime
        if used < time.time() - _HOUR:  # marked as used, for pruning
            with contextlib.suppress(OSError):
                os.utime(path)
        start = len(_MAGIC) + 32
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _digest(key, data[start:]):
            return None
        return data[start:]

    def put(self, key: str, data: bytes) -> None:
        """Stores an object. Failing to (disk full, read-only) warns once and turns the cache off."""
        if self.folder is None:
            return
        try:
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=TEMPORARY)
            try:
                with open(handle, "wb") as file:
                    file.write(_MAGIC + _digest(key, data) + data)
                os.replace(name, self.folder / f"{key}.o")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
            root = self.folder.parent
            written(root, len(_MAGIC) + 32 + len(data), limit_of(root))
        except (OSError, MNNError) as error:  # MNNError: a limit that has become none since then
            self._off(reason(error))

    def prune(self) -> None:
        """Has all parts of the cache keep within their limit, the entries used longest ago going first."""
        if self.folder is not None:
            keep_within(self.folder.parent, limit_of(self.folder.parent))


def make_private(folder: pathlib.Path) -> str:
    """Makes a folder that only this user can write to, with its parents; why it cannot be trusted, or nothing."""
    try:
        for missing in [p for p in (*reversed(folder.parents), folder) if not p.exists()]:
            try:
                missing.mkdir(mode=0o700, exist_ok=True)  # mkdir's own parents=True would make them with the umask
            except OSError as error:
                return f"{missing} cannot be made ({reason(error)}); MNN_CACHE_DIR can name another folder"
        return _untrusted(folder.resolve())
    except OSError as error:
        return reason(error)


def reason(error: Exception) -> str:
    """Why something failed, without the number and the place that Python adds."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def tell_unused(what: str, folder: pathlib.Path, problem: str) -> None:
    """Warns that a part of the cache is not used; where all of it cannot be there, of that once."""
    what, folder = (what, folder) if os.path.lexists(folder.parent) else ("cache", folder.parent)
    warn(f"the {what} {folder} is not used: {problem}", RuntimeWarning)


def open_trusted(path: pathlib.Path, limit: int) -> BinaryIO | None:
    """Opens a regular file of at most ``limit`` bytes that this user owns and nobody else can write to, else None."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:  # absent, or a link that someone planted
        return None
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode) or _owned_by_others(info) or info.st_size > limit:
        os.close(handle)
        return None
    return open(handle, "rb")


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _owned_by_others(info: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and (info.st_uid != os.geteuid() or bool(info.st_mode & 0o022))


def _untrusted(folder: pathlib.Path) -> str:
    """Why code must not be loaded from this folder, or nothing."""
    if not hasattr(os, "geteuid"):  # Windows: the user's own profile is private by default
        return ""
    if _owned_by_others(folder.stat()):
        return "others own it or can write to it (chmod 700 it, or set MNN_CACHE_DIR to a private folder)"
    for parent in folder.parents:
        info = parent.stat()
        if info.st_uid not in (0, os.geteuid()):
            return f"its parent {parent} belongs to another user"
        if info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX:
            return f"its parent {parent} can be written by others"
    return ""
