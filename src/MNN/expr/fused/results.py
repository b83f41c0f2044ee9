"""Memory of large results, used again once nobody has them any more: the pages that a system gives anew for each array
cost several times as much as what a loop writes to them."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

SMALLEST = 1 << 18
"""Bytes from which on pages cost more than this does: allocators keep smaller arrays themselves."""
MOST = 1 << 26
"""Bytes that are kept."""


class _Blocks:
    """What was given back, the oldest first."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._kept = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> _Block | None:
        """A block of so many bytes, the one that was given back last."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for place in range(len(self._blocks) - 1, -1, -1):
                if self._blocks[place].size == size:
                    self._kept -= size
                    return self._blocks.pop(place)
            return None
        finally:
            self._lock.release()

    def give(self, block: _Block) -> None:
        """Keeps a block, in place of older ones if need be. Whoever holds the lock may be the one that this interrupts:
        nobody waits for it."""
        if block.size > MOST or not self._lock.acquire(blocking=False):
            return
        try:
            while self._kept + block.size > MOST:
                self._kept -= self._blocks.pop(0).size
            self._blocks.append(block)
            self._kept += block.size
        finally:
            self._lock.release()


_BLOCKS = _Blocks()


class _Block(np.ndarray):
    """Memory that is lent. Its type is what numpy stops at when it looks for the base of an array, which it keeps in
    place of a chain of views."""

    __slots__ = ()


class _Lent(np.ndarray):
    """A block while results lie in it: what their ``base`` comes to, so that it ends with the last of them."""

    __slots__ = ("block",)
    block: _Block
    """Views of this array have none."""

    def __del__(self) -> None:
        block = getattr(self, "block", None)
        if block is not None:
            _BLOCKS.give(block)


_array: type[np.ndarray] = np.ndarray


def empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray:
    """A new array whose numbers are not set, like ``numpy.empty``."""
    size = math.prod(shape) * kind.itemsize
    if size < SMALLEST:
        return np.empty(shape, kind)
    block = _BLOCKS.take(size)
    if block is None:
        block = np.empty(size, np.uint8).view(_Block)
    lent = block.view(_Lent)
    lent.block = block
    made: np.ndarray = _array(shape, kind, lent)
    return made


__all__ = ["empty"]
