"""Aligned memory blocks and numpy views into them."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from MNN.backends.base import poison
from MNN.backends.base.run_lock import RunLock
from MNN.errors import RunError

ALIGNMENT = 128
"""Bytes: two cache lines, the thirty-two neighbours of ``BF16X2``."""


def aligned_bytes(nbytes: int, alignment: int = ALIGNMENT, zero: bool = False) -> NDArray[np.uint8]:
    """A uint8 array of ``nbytes`` whose address is a multiple of ``alignment``.

    The memory belongs to this process alone: a fork gets its own copy. Raises ``RunError`` when it cannot be had.
    """
    if nbytes < 0:
        raise ValueError(f"a memory block cannot have {nbytes} bytes")
    try:
        block = (np.zeros if zero else np.empty)(nbytes + alignment, np.uint8)
    except (MemoryError, ValueError) as error:  # numpy says ValueError beyond the address space
        raise RunError(
            f"cannot allocate {nbytes / 2**20:.1f} MiB of working memory; use smaller inputs or a smaller batch"
        ) from error
    start = -block.ctypes.data % alignment
    found = block[start : start + nbytes]
    if not zero and poison.wanted():
        poison.fill(found)
    return found


def sparse_zeros(nbytes: int) -> NDArray[np.uint8]:
    """As :func:`aligned_bytes`, of zeros that take memory page by page as they are written to, however large they are.

    (Large arrays of numpy's take it in pieces of two megabytes where the system has such pages.)
    """
    if nbytes < _LARGE or sys.platform == "win32":
        return aligned_bytes(nbytes, zero=True)
    room = (nbytes // LARGE_PAGE + 2) * LARGE_PAGE  # of addresses alone
    try:
        memory = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError, OverflowError) as error:
        raise RunError(f"cannot allocate {nbytes / 2**20:.1f} MiB of memory for states: {error}") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    found = np.frombuffer(memory, np.uint8)
    first = -found.ctypes.data % LARGE_PAGE
    return found[first : first + nbytes]


def in_large_pages(zeros: NDArray[Any], begin: int, end: int) -> None:
    """Has the bytes from ``begin`` to ``end`` of an array that lies in :func:`sparse_zeros`, the first of them at a
    multiple of :data:`LARGE_PAGE`, be in whole pages of that size: memory that is in use, or half of it.

    Programs that read much of it find where it lies faster: attention to 8,000 tokens took a sixth less time
    on Zen 4. Where a system has no such pages, nothing is done."""
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    madvise = ctypes.CDLL(None).madvise
    for advice in (mmap.MADV_HUGEPAGE, _COLLAPSE):
        madvise(ctypes.c_void_p(zeros.ctypes.data + begin), ctypes.c_size_t(end - begin), advice)


LARGE_PAGE = 1 << 21
_COLLAPSE = 25
"""``MADV_COLLAPSE`` (Linux 6.1): at once; older ones do it by and by."""

_LARGE = 1 << 20
"""Bytes from which memory of zeros is the system's own."""
_SPARE = 16
"""How many times what a program takes is asked for, for larger ones after it, which find what is in use already. What
nobody writes to takes no memory; to write to a page for the first time takes as long as to compute what it holds."""
MOST_SHARED = 256 << 20
"""Bytes beyond which a program has memory of its own, which goes with it."""


class Block:
    """Memory of programs of which one runs at a time."""

    __slots__ = ("bytes", "running", "under", "used", "user")

    def __init__(self, nbytes: int) -> None:
        self.bytes = aligned_bytes(nbytes)
        self.used = 0
        """Bytes of the largest of its arenas."""
        self.user: object = None
        """Whose numbers it holds."""
        self.running: object = None
        self.under: object = None
        """Who runs now, and the lock that it runs under."""


class Scratch:
    """Memory that commands work in, which holds nothing from one command to the next: programs of which one runs at a
    time may share it."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = aligned_bytes(0)

    def of(self, nbytes: int) -> NDArray[np.uint8]:
        """At least ``nbytes``; what was given before stays as it is. Raises ``RunError`` when it cannot be had."""
        if self._bytes.nbytes < nbytes:  # the next one, which asks for a little more, finds it
            self._bytes = aligned_bytes(max(nbytes, 2 * self._bytes.nbytes))
        return self._bytes


class Room:
    """Gives programs of which one runs at a time the same memory: a new size finds pages that are in use already."""

    def __init__(self, run_lock: RunLock | None = None) -> None:
        """``run_lock``: whose turn it is to run, by default of these programs alone."""
        self.run_lock = run_lock or RunLock()
        self._scratch: dict[int, Scratch] = {}
        self._block: Block | None = None

    def scratch(self, hand: int = 0) -> Scratch:
        """What commands work in; another one for every ``hand`` of those that run at the same time."""
        return self._scratch.setdefault(hand, Scratch())

    def block(self, nbytes: int) -> Block:
        """Memory for ``nbytes``. Raises ``RunError`` when it cannot be had."""
        if nbytes > MOST_SHARED:
            return Block(nbytes)
        block = self._block
        if block is None or block.bytes.nbytes < nbytes:
            try:
                block = Block(min(_SPARE * nbytes, MOST_SHARED) if os.name == "posix" else nbytes)
            except RunError:
                block = Block(nbytes)
            self._block = block
        return block


class Arena:
    """Memory that the tensors of a program share by plan, aligned to :data:`ALIGNMENT`.

    What it holds before a run is undefined, after other programs of its room too."""

    __slots__ = ("_block", "address", "block", "nbytes")

    def __init__(self, nbytes: int, room: Room | None = None) -> None:
        """With a ``room``, others in it have the same memory."""
        self.block = Block(nbytes) if room is None else room.block(nbytes)
        self.block.used = max(self.block.used, nbytes)
        self._block = self.block.bytes[:nbytes]
        self.nbytes = nbytes
        self.address: int = self._block.ctypes.data

    def view(
        self, offset: int, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None
    ) -> NDArray[Any]:
        """The array of this shape at ``offset`` bytes; ``strides`` in bytes (non-negative), default contiguous.

        The view keeps the memory alive. Raises ``ValueError`` when it would leave the block or be misaligned.
        """
        kind = np.dtype(dtype)
        sizes = tuple(int(n) for n in shape)
        if offset < 0 or any(n < 0 for n in sizes):
            raise ValueError(f"offset {offset} and shape {sizes} must not be negative")
        if offset % kind.alignment:
            raise ValueError(f"offset {offset} is not a multiple of {kind.alignment}, the alignment of {kind}")
        if strides is None:
            extent = math.prod(sizes) * kind.itemsize
        else:
            if len(strides) != len(sizes) or any(s < 0 or s % kind.alignment for s in strides):
                raise ValueError(f"strides {tuple(strides)} do not fit shape {sizes} of {kind}")
            steps = zip(sizes, strides, strict=True)
            extent = 0 if 0 in sizes else sum((n - 1) * s for n, s in steps) + kind.itemsize
        if offset + extent > self.nbytes:
            raise ValueError(f"a view of {extent} bytes at {offset} leaves the block of {self.nbytes} bytes")
        if extent == 0:
            return np.empty(sizes, kind)
        array: NDArray[Any] = np.ndarray(sizes, kind, self._block, offset, None if strides is None else tuple(strides))
        return array

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """All of it."""
        return self._block

    def at(self, offset: int) -> int:
        """The absolute address of a byte of the block."""
        if not 0 <= offset <= self.nbytes:
            raise ValueError(f"offset {offset} is outside of the block of {self.nbytes} bytes")
        return self.address + offset
