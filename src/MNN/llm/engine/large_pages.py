"""Keys and values of long texts in large pages of the system.

Pools have room for the longest text, and take memory page by page (4 KB) as it is written to. Where attention reads
thousands of tokens, finding where such pages lie costs it a sixth of its time and more: so what is filled to the half
becomes a page of 2 MB. A pool takes at most 1 MB more than what is written to, then, and no more than twice as much.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.arena import LARGE_PAGE, in_large_pages
from MNN.llm.engine.pages import PagePool
from MNN.stateful import State


class LargePages:
    """Of the pools of one decoder."""

    def __init__(self) -> None:
        self._filled: list[int] = []
        self._done: dict[str, tuple[int, int]] = {}
        """Where a state lies, and how many of its bytes are in large pages."""

    def follow(self, state: State, names: Sequence[Sequence[str]], pools: Sequence[PagePool]) -> None:
        """After a step; ``names``: of the states ``[pages, ...]`` that hold the pages of each of the ``pools``."""
        filled = [pool.touched for pool in pools]
        if filled == self._filled:
            return
        self._filled = filled
        for some, count in zip(names, filled, strict=True):
            for name in some:
                array = state.view(name)
                address, nbytes = array.ctypes.data, count * array.strides[0]
                before = self._done.get(name, (address, 0))
                begin = before[1] if before[0] == address else 0
                end = (nbytes + LARGE_PAGE // 2) // LARGE_PAGE * LARGE_PAGE
                if end > begin and address % LARGE_PAGE == 0:
                    in_large_pages(array, begin, end)
                    self._done[name] = address, end


__all__ = ["LargePages"]
