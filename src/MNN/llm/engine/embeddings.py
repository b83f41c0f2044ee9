"""The table of embeddings: it stays in the model's file, of which the rows of a step's tokens are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from MNN.errors import MNNError

Array = np.ndarray[Any, np.dtype[Any]]


class Table(Protocol):
    """``shape``: ``[vocabulary, width]``."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, index: Array) -> Array:
        """The rows with these numbers, f32 ``[n, width]``."""
        ...


def embedded(table: Table, tokens: Sequence[int]) -> Array:
    """The rows of ``tokens``, f32 ``[1, tokens, width]``. Raises :class:`MNNError` for numbers that are no tokens."""
    index, count = np.asarray(tokens, np.int64), table.shape[0]
    wrong = index[(index < 0) | (index >= count)]
    if len(wrong):
        raise MNNError(f"{wrong[0]} is no token; the model's table has rows for the tokens from 0 to {count - 1}")
    return table.rows(index)[None]


__all__ = ["Table", "embedded"]
