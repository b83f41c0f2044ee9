"""Weights that are packed for kernels and then hardly looked at again, in memory that the system may take back.

Those of language models, and those of other models whose files do not have them so that they can be mapped: what a
front end copies out of a file, and what passes compute. They lie in files without a name in the cache folder, as
weights of mapped model files do by themselves: :func:`MNN.schema.files.release` gives their memory back once they are
packed, and a plan that packs them in another way reads them again. The files are gone with the arrays, or with the
process.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from MNN.cache.entries import Cache
from MNN.schema.files import MappedFile, in_file, release

Array = np.ndarray[Any, np.dtype[Any]]
SMALLEST = 64 << 10
"""Bytes of an array below which it stays where it is."""
_FILE = 64 << 20
"""Bytes of a file, which has room for several arrays: each file is a descriptor of the process."""
FEW = 64 << 20
"""Bytes of weights that models of files may have in memory beside the packed ones."""
_SHARE = 32
"""At most one part in so many of what is free on the disk is taken for a file: packed weights, which stay, go before
(:mod:`MNN.cache.packed`)."""
_POSSIBLE = hasattr(os, "posix_fallocate") and hasattr(mmap, "MADV_DONTNEED")
"""Whether this system takes memory of files back when it is told to."""


class Scratch:
    """Room for arrays in a ``folder``, which is asked for when there is something to put into it; with None they stay
    where they are, as do the first ``stays`` bytes of them."""

    def __init__(self, folder: Callable[[], Path | None], stays: int = 0) -> None:
        self._stays = stays
        self._ask: Callable[[], Path | None] | None = folder
        self._place: Path | None = None
        self._file: MappedFile | None = None
        self._used = 0

    def take(self, array: Array) -> Array:
        """The same numbers, read-only, in a file where there is room for them."""
        size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if not _POSSIBLE or array.nbytes < SMALLEST or array.dtype.hasobject or in_file(array):
            return array
        if array.ndim == 2 and not array.flags.c_contiguous and array.T.flags.c_contiguous:
            turned: Array = self.take(array.T).T  # packing minds how a matrix lies
            return turned
        if self._stays > 0:
            self._stays -= array.nbytes
            return array
        if self._folder() is None:
            return array
        if self._file is None or self._used + size > len(self._file):
            self._file, self._used = self._made(max(size, _FILE)), 0
        if self._file is None:
            return array
        found: Array = np.frombuffer(self._file, array.dtype, array.size, self._used).reshape(array.shape)
        found[...] = array
        found.flags.writeable = False
        self._used += size
        release(found)
        return found

    def _folder(self) -> Path | None:
        if self._ask is not None:
            self._place, self._ask = self._ask(), None
        return self._place

    def _made(self, nbytes: int) -> MappedFile | None:
        """Room that is set aside on the disk, so that writing to it cannot fail; None where there is none."""
        try:
            if nbytes > shutil.disk_usage(str(self._place)).free // _SHARE:
                return None
            with tempfile.TemporaryFile(dir=self._place) as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)
                return MappedFile.nameless(file.fileno(), nbytes)
        except OSError:  # weights are then held in memory
            self._place = None
            return None


_SCRATCH: ContextVar[Scratch | None] = ContextVar("scratch", default=None)


@contextlib.contextmanager
def scratch(wanted: bool = True, stays: int = 0) -> Iterator[None]:
    """Within this, :func:`apart` moves arrays, where it is ``wanted`` and there is a cache folder; not the first
    ``stays`` bytes, which cost less where they are than the writing of them."""
    token = _SCRATCH.set(Scratch(lambda: Cache.default("packed").folder, stays) if wanted else None)
    try:
        yield
    finally:
        _SCRATCH.reset(token)


def apart(array: Array) -> Array:
    """The same numbers where they need no memory once they are packed, within :func:`scratch`; else the array."""
    room = _SCRATCH.get()
    return array if room is None else room.take(array)


__all__ = ["FEW", "SMALLEST", "Scratch", "apart", "scratch"]
