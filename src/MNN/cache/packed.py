"""The disk cache of packed weights: one file per packed constant, memory-mapped, in a folder that only its user can
write.

A name is a hash of what the numbers are made from (see ``MNN.backends.base.constants``). The file is one page of
header, ``magic, bytes, name, checksum``, and the numbers as the kernel wants them. A file that fails (truncated,
altered, moved from another name, owned or writable by others) counts as absent and is written again. Numbers are
written straight into a mapped temporary file, which is renamed into place when it is complete: two processes may write
the same entry at once, and packing needs no memory of its own.

The checksum is looked at once per process, whenever a file is mapped: 64-bit sums of the words of every MiB, by their
place in 8 KiB, hashed. That runs at the speed of memory (0.06 s per GB; SHA-256 over the numbers takes ten times as
long) and finds what disks and crashes do: lost pages, flipped bits, pieces of another file. It is no defence against
an attacker; that is the folder's ownership, checked as for compiled kernels.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import pathlib
import shutil
import struct
import tempfile
import threading
import time
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from MNN.cache.entries import Cache, default_folder, make_private, open_trusted, reason, tell_unused
from MNN.cache.eviction import TEMPORARY, limit_of, to_be_written
from MNN.errors import MNNError

SMALLEST = 64 << 10
"""Bytes below which packing again is cheaper than a file."""
_SHARE = 8
"""At most one part in so many of what is free on the disk is taken."""
_MAGIC = b"MNNPACK1"
_HEAD = 4096
_FIXED = struct.Struct("<8sQ32s32s")
_COLUMNS = 1024
_SEGMENT = 1 << 20
_DAY = 86400
Bytes = NDArray[np.uint8]


class PackedStore:
    """Packed constants by name in ``folder``; ``PackedStore(None)`` keeps nothing. A folder that cannot be trusted or
    written turns it off with a warning: weights are then packed anew in every process."""

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int | None = None) -> None:
        """``limit``: bytes that the whole cache in ``folder`` may hold; None: what its users have said."""
        self.folder = None if folder is None else pathlib.Path(folder) / "packed"
        self.limit = limit
        self._mapped: WeakValueDictionary[str, mmap.mmap] = WeakValueDictionary()
        if self.folder is not None:
            problem = make_private(self.folder)
            if problem:
                self._off(problem)

    @staticmethod
    def default() -> PackedStore:
        """The store in the cache folder, or none after :meth:`MNN.cache.entries.Cache.switch_off`."""
        return PackedStore(None if Cache.is_off() else default_folder())

    @staticmethod
    def shared() -> PackedStore:
        """The default store, the same one for the whole process, so that nothing is mapped twice."""
        folder = None if Cache.is_off() else default_folder()
        if folder not in _SHARED:
            _SHARED[folder] = PackedStore(folder)
        return _SHARED[folder]

    def _off(self, problem: str) -> None:
        assert self.folder is not None
        tell_unused("cache of packed weights", self.folder, problem)
        self.folder = None

    def find(self, name: str, checks: Checks | None = None) -> Bytes | None:
        """The numbers stored under ``name`` (64 hexadecimal digits), mapped read-only, or None. With ``checks`` their
        checksum is looked at by these, later."""
        if self.folder is None:
            return None
        mapped = self._mapped.get(name)
        if mapped is not None:
            return np.frombuffer(mapped, np.uint8)[_HEAD:]
        path = self.folder / name
        file = open_trusted(path, 1 << 62)
        if file is None:
            return None
        with file:
            info = os.fstat(file.fileno())
            if info.st_size <= _HEAD:
                return None
            mapped = _map(file.fileno(), info.st_size, access=mmap.ACCESS_READ)
        whole = np.frombuffer(mapped, np.uint8)
        numbers = whole[_HEAD:]
        if checks is not None:
            checks.add(self, name, mapped)
        elif not self._accept(name, mapped):
            return None
        if info.st_mtime < time.time() - _DAY:  # marked as used, for pruning
            with contextlib.suppress(OSError):
                os.utime(path)
        return numbers

    def _accept(self, name: str, mapped: mmap.mmap) -> bool:
        """Whether an entry is what was written; then nobody needs to map it again."""
        whole = np.frombuffer(mapped, np.uint8)
        good = whole[: _FIXED.size].tobytes() == _header(name, whole[_HEAD:])
        if good:
            self._mapped[name] = mapped
        return good

    def draft(self, name: str, nbytes: int) -> Draft | None:
        """Room for a new entry, or None when it cannot be kept. The numbers are zeros at first."""
        if self.folder is None or nbytes < 1:
            return None
        try:
            room = shutil.disk_usage(self.folder).free // _SHARE
            limit = limit_of(self.folder.parent) if self.limit is None else self.limit
            if nbytes > min(room, limit):
                return None
            draft = Draft(self.folder, name, nbytes)
            to_be_written(self.folder.parent, _HEAD + nbytes, min(limit, room))
        except (OSError, MNNError) as error:
            self._off(reason(error))
            return None
        return draft


class Checks:
    """Entries whose checksums another thread looks at while their numbers are in use already: by the time that the
    first result is there, most of it is done."""

    def __init__(self) -> None:
        self._entries: list[tuple[PackedStore, str, mmap.mmap]] = []
        self._waiting: list[tuple[PackedStore, str, mmap.mmap]] = []
        self._found: list[bool] = []
        self._helper: threading.Thread | None = None

    def add(self, store: PackedStore, name: str, mapped: mmap.mmap) -> None:
        """One more entry, before :meth:`begin`."""
        self._entries.append((store, name, mapped))

    def begin(self) -> None:
        """Has a thread look at all that were added, in this order."""
        if not self._entries:
            return
        self._waiting = self._entries[::-1]
        self._helper = threading.Thread(target=self._work, name="mnn-checks", daemon=True)
        try:
            self._helper.start()
        except RuntimeError:  # no more threads to be had: whoever asks does it
            self._helper = None

    def sound(self) -> bool:
        """Whether all of them are what was written."""
        self._work()
        if self._helper is not None:
            self._helper.join()
        if len(self._found) < len(self._entries):  # in a forked child, which does not have the thread
            self._found = [store._accept(name, mapped) for store, name, mapped in self._entries]
        return all(self._found)

    def _work(self) -> None:
        while True:
            try:
                store, name, mapped = self._waiting.pop()
            except IndexError:  # both threads have come to the end
                return
            self._found.append(store._accept(name, mapped))


class Draft:
    """An entry that is being written: fill ``numbers``, then :meth:`commit`. One that is dropped leaves no file."""

    def __init__(self, folder: pathlib.Path, name: str, nbytes: int) -> None:
        """Raises ``OSError`` when the disk has no room; so writing into ``numbers`` cannot fail later."""
        self._target, self.name = folder / name, name
        handle, path = tempfile.mkstemp(dir=folder, prefix=TEMPORARY)
        self._path: str | None = path
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, _HEAD + nbytes)
            else:
                _fill(handle, _HEAD + nbytes)
            self._memory: Bytes | None = np.frombuffer(_map(handle, _HEAD + nbytes), np.uint8)
        except BaseException:
            self.drop()
            raise
        finally:
            os.close(handle)
        self.numbers: Bytes = self._memory[_HEAD:]

    def commit(self, store: PackedStore) -> Bytes:
        """Puts the entry into place; the same numbers, mapped read-only, whether that succeeded or not."""
        assert self._memory is not None
        assert self._path is not None
        self._memory[: _FIXED.size] = np.frombuffer(_header(self.name, self.numbers), np.uint8)
        del self.numbers
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                entry = _map(file.fileno(), size, access=mmap.ACCESS_READ)
            mapped = np.frombuffer(entry, np.uint8)
            self._memory = None  # before the rename: Windows moves no file that is mapped for writing
            os.replace(self._path, self._target)
            self._path = None
            store._mapped[self.name] = entry
        except OSError as error:
            store._off(reason(error))
            if self._memory is not None:
                mapped = self._memory
        return mapped[_HEAD:]

    def drop(self) -> None:
        """Removes the temporary file."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = None

    def __del__(self) -> None:
        if hasattr(self, "_path"):
            self.drop()


def _map(handle: int, nbytes: int, access: int = mmap.ACCESS_DEFAULT) -> mmap.mmap:
    """A file as memory, in pages of 2 MB where the system has them for files (Linux, by file system): weights that are
    read once in every run would else need a page of 4 KB to be looked up for every 64 lines (on a processor with AMX,
    ResNet-50 3 to 5 %, BERT-base 2 to 3 %)."""
    mapped = mmap.mmap(handle, nbytes, access=access)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system that was built without
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


def _fill(handle: int, nbytes: int) -> None:
    """Writes zeros, for systems that cannot set room aside otherwise."""
    block = bytes(_SEGMENT)
    while nbytes > 0:
        nbytes -= os.write(handle, block[:nbytes])


def _header(name: str, numbers: Bytes) -> bytes:
    return _FIXED.pack(_MAGIC, numbers.size, bytes.fromhex(name), checksum(numbers))


def checksum(numbers: NDArray[Any]) -> bytes:
    """32 bytes that tell numbers apart from damaged ones, see the module."""
    flat = numbers.reshape(-1).view(np.uint8)
    total = hashlib.sha256(struct.pack("<Q", flat.size))
    row = 8 * _COLUMNS
    for start in range(0, flat.size, _SEGMENT):
        part = flat[start : start + _SEGMENT]
        whole = part.size // row * row
        if whole:
            total.update(part[:whole].view(np.uint64).reshape(-1, _COLUMNS).sum(axis=0).data)
        total.update(part[whole:].data)
    return total.digest()


_SHARED: dict[pathlib.Path | None, PackedStore] = {}
