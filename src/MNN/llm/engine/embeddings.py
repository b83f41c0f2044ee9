"""The table of embeddings: it stays in the model's file, of which the rows of a step's tokens are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from MNN.errors import MNNError
from MNN.llm.files.mapped import give_back

_MANY = 16
"""Rows whose memory is given back once they are read: of a mapped file, the system keeps 64 KB around each."""

Array = np.ndarray[Any, np.dtype[Any]]


class Table(Protocol):
    """``shape``: ``[vocabulary, width]``."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, index: Array) -> Array:
        """The rows with these numbers, f32 ``[n, width]``."""
        ...


class SeveralTables:
    """Tables side by side. Tokens that one of them has no row for have its first."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.shape = (tables[0].shape[0], sum(table.shape[1] for table in tables))

    def rows(self, index: Array) -> Array:
        found = [table.rows(np.where(index < table.shape[0], index, 0)) for table in self._tables]
        side_by_side: Array = np.concatenate(found, axis=1)
        return side_by_side


def tables_of(weights: Mapping[str, Table], names: str) -> Table:
    """Those that a graph's ``embeddings`` name."""
    tables = [weights[name] for name in names.split(" ")]
    return tables[0] if len(tables) == 1 else SeveralTables(tables)


def embedded(table: Table, tokens: Sequence[int]) -> Array:
    """The rows of ``tokens``, f32 ``[1, tokens, width]``. Raises :class:`MNNError` for numbers that are no tokens."""
    index, count = np.asarray(tokens, np.int64), table.shape[0]
    wrong = index[(index < 0) | (index >= count)]
    if len(wrong):
        raise MNNError(
            f"{wrong[0]} is no token; the model's table has rows for the tokens from 0 to {count - 1}. Is the "
            "tokenizer that of another model?"
        )
    found = table.rows(index)[None]
    if len(index) >= _MANY:
        give_back()
    return found


__all__ = ["SeveralTables", "Table", "embedded", "tables_of"]
