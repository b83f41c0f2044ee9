"""What a model showed of a text's tokens, for heads that draft by it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Features:
    """A row for each token of a text from ``first`` on. Texts that begin alike share memory until one goes on."""

    def __init__(self, first: int = 0) -> None:
        self.first, self._length = first, 0
        self._rows: Array = np.zeros((0, 0), np.float32)
        self._own = True

    @property
    def end(self) -> int:
        """Behind the last token with a row."""
        return self.first + self._length

    def append(self, rows: Array) -> None:
        """Takes rows f32 ``[tokens, width]``, which are copied."""
        total = self._length + len(rows)
        if not self._own or total > len(self._rows):
            held, room = self._rows, max(total * 3 // 2, 64)
            self._rows, self._own = np.empty((room, rows.shape[1]), np.float32), True
            if self._length:
                self._rows[: self._length] = held[: self._length]
        self._rows[self._length : total] = rows
        self._length = total

    def cut(self, end: int) -> None:
        """Forgets rows of tokens from ``end`` on; of a text that begins anew, everything."""
        self._length = max(min(self._length, end - self.first), 0)
        if end < self.first:
            self.first = end

    def fork(self, end: int) -> Features:
        """Those of a text that goes on from the first ``end`` tokens of this one."""
        found = Features(self.first)
        found._rows, found._length = self._rows, self._length
        found._own = self._own = False
        found.cut(end)
        return found

    def rows(self, begin: int, end: int) -> Array:
        """Those of the tokens ``begin`` to ``end``, not copied."""
        return self._rows[begin - self.first : end - self.first]


__all__ = ["Features"]
