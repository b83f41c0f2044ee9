"""Pages of the caches that are more than a budget of memory: they lie in a file without a name that is mapped, are
given back to the system after a step, those that were used least lately first, and are asked for again before the step
that needs them.

What numbers are does not hang on where they lie; a step may read more than the budget, and holds it while it runs.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from MNN.backends.base.arena import sparse_zeros
from MNN.cache.entries import default_folder
from MNN.errors import MNNError
from MNN.formatting import nbytes as bytes_text

Array = np.ndarray[Any, np.dtype[Any]]
_SMALL = 1 << 16
"""Bytes of states that stay in memory."""
_LEFT = 0.9
"""Of the budget, what is left after pages were given back: they go many at a time."""


class Spilling:
    """Memory for the states of one decoder, of which ``budget`` bytes stay in memory between steps."""

    def __init__(self, budget: int, folder: Path | None = None) -> None:
        """``folder``: where the file lies, by default that of MNN's cache. Raises :class:`MNNError` where the system
        has no such memory."""
        if not isinstance(budget, int) or budget < 1:
            raise MNNError(f"cache_memory is {budget!r}; a number of bytes from 1 on is expected")
        if not hasattr(os, "posix_fallocate") or not hasattr(mmap, "MADV_DONTNEED"):
            raise MNNError("this system cannot keep caches in a file; leave out cache_memory")
        self.budget, self._folder = budget, default_folder() if folder is None else folder
        self._maps: list[tuple[int, int, mmap.mmap]] = []
        """Where each mapping begins and ends, and what it is."""
        self._pools: list[list[Array]] = []
        self._stamps: list[Array] = []
        """Of each list of pages, the last step that used it; 0: it is not in memory."""
        self._clock = 0

    def zeros(self, nbytes: int) -> Array:
        """Zeros that lie in a file. Raises :class:`MNNError` where the disk has no room for them."""
        if nbytes < _SMALL:
            return sparse_zeros(nbytes)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)  # writing into a hole of a full disk ends the process
                memory = mmap.mmap(file.fileno(), nbytes)
        except OSError as error:
            raise MNNError(
                f"{self._folder} has no room for {bytes_text(nbytes)} of the caches: {error}. Give a smaller "
                "cache_tokens or max_length, or leave out cache_memory"
            ) from error
        found: Array = np.frombuffer(memory, np.uint8)
        self._maps.append((found.ctypes.data, found.ctypes.data + nbytes, memory))
        return found

    def follow(self, pools: Sequence[Sequence[Array]]) -> None:
        """Says which states ``[pages, ...]`` each list of pages is of; again where they have moved."""
        self._pools = [list(some) for some in pools]
        if [len(stamps) for stamps in self._stamps] != [len(some[0]) for some in pools]:
            self._stamps = [np.zeros(len(some[0]), np.int64) for some in pools]

    @property
    def resident(self) -> int:
        """Bytes of pages that are in memory."""
        return sum(int((s > 0).sum()) * self._page(some) for s, some in zip(self._stamps, self._pools, strict=True))

    def ask(self, pages: Sequence[Iterable[int]]) -> None:
        """Has the system read what a step needs of each list, while the step is prepared and its first layers run."""
        for stamps, some, wanted in zip(self._stamps, self._pools, pages, strict=True):
            away = [page for page in set(wanted) if not stamps[page]]
            for array in some:
                self._advise(array, away, mmap.MADV_WILLNEED)

    def used(self, pages: Sequence[Iterable[int]]) -> None:
        """A step is done that used these; what is more than the budget goes."""
        self._clock += 1
        for stamps, wanted in zip(self._stamps, pages, strict=True):
            stamps[list(wanted)] = self._clock
        over = self.resident - self.budget
        if over <= 0:
            return
        over += int(self.budget * (1 - _LEFT))
        among = sorted(
            (int(stamp), number, page)
            for number, stamps in enumerate(self._stamps)
            for page, stamp in enumerate(stamps)
            if stamp
        )
        going: list[list[int]] = [[] for _ in self._stamps]
        for _, number, page in among:
            if over <= 0:
                break
            going[number].append(page)
            over -= self._page(self._pools[number])
        for stamps, some, leaving in zip(self._stamps, self._pools, going, strict=True):
            stamps[leaving] = 0
            for array in some:
                self._advise(array, leaving, mmap.MADV_DONTNEED)

    def _page(self, some: Sequence[Array]) -> int:
        """Bytes of a page in all layers."""
        return sum(array.strides[0] for array in some)

    def _advise(self, array: Array, pages: Sequence[int], advice: int) -> None:
        """Tells the system of pages of a state, neighbours at once."""
        address, step = array.ctypes.data, array.strides[0]
        found = next((held for held in self._maps if held[0] <= address < held[1]), None)
        if found is None:
            return
        begin, end, memory = found
        whole = mmap.PAGESIZE
        for first, last in _runs(sorted(pages)):
            low, high = address + first * step - begin, min(address + (last + 1) * step, end) - begin
            if advice == mmap.MADV_WILLNEED:
                low, high = low // whole * whole, high
            else:  # not what neighbours lie in
                low, high = -(-low // whole) * whole, high // whole * whole
            if high > low:
                memory.madvise(advice, low, high - low)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last of neighbouring numbers."""
    found: list[tuple[int, int]] = []
    for one in numbers:
        if found and found[-1][1] == one - 1:
            found[-1] = (found[-1][0], one)
        else:
            found.append((one, one))
    return found


__all__ = ["Spilling"]
