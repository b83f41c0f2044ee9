"""The adapters that a model has at hand, in the one state that its graph reads them from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.llm.files.adapters import Change, Changes
from MNN.llm.models.adapted.layers import STATE, spans
from MNN.stateful import State

Array = np.ndarray


class AdapterBank:
    """Adapters by their names, each in columns of its own. Names are never given twice, so that what texts hold by an
    adapter stays true."""

    def __init__(self, facts: Mapping[str, str], columns: int, state: State) -> None:
        """``facts``: what the graph notes of itself (:class:`MNN.llm.models.adapted.layers.AdaptedLayers`);
        ``columns``: how many it has; ``state``: the model's."""
        self._calls: list[tuple[list[str], int, list[int]]] = json.loads(facts["adapters"])
        self.columns, self._state = columns, state
        self._known: dict[str, tuple[int, int]] = {}
        self._gone: set[str] = set()
        self._filled = False
        self._spans = spans([n for call in self._calls for n in self._sizes(call)])

    @property
    def names(self) -> Sequence[str]:
        """Of all adapters that are there."""
        return list(self._known)

    @property
    def modules(self) -> set[str]:
        """Names of the layers that can be changed."""
        return {name for names, _, _ in self._calls for name in names if name}

    def add(self, name: str, adapter: Changes) -> None:
        """Puts an adapter beside the others. Raises :class:`MNNError` where its name was there already, and where the
        model was not made for its layers, or has no columns left."""
        if not name or name in self._known or name in self._gone:
            raise MNNError(f"an adapter needs a name of its own; {name!r:.60} is taken, or was")
        rank = rank_of(adapter)
        start = self._free(rank)
        other = next((module for module in adapter if module not in self.modules), None)
        if other is not None or start is None:
            what = f"it changes '{other}', which no adapter did" if other else f"its rank {rank} is too much"
            raise MNNError(
                f"there is no room for the adapter {name!r:.60}: {what} when the model was loaded. Name it then"
            )
        self._write(start, rank, adapter)
        self._known[name] = (start, rank)

    def remove(self, name: str) -> None:
        """Gives the columns of an adapter back. Raises :class:`MNNError` for one that is not there."""
        start, rank = self._place(name)
        self._write(start, rank, {})
        del self._known[name]
        self._gone.add(name)

    def mask(self, parts: Sequence[tuple[str, int]]) -> Array:
        """For tokens of texts one after the other, each with the name of its adapter and a count, which columns are
        theirs: f32 ``[1, tokens, columns]``."""
        found, at = np.zeros((1, sum(count for _, count in parts), self.columns), np.float32), 0
        for name, count in parts:
            if name:
                start, rank = self._place(name)
                found[0, at : at + count, start : start + rank] = 1
            at += count
        return found

    def _place(self, name: str) -> tuple[int, int]:
        """The first column of an adapter, and how many it has."""
        if name not in self._known:
            raise MNNError(f"there is no adapter {name!r:.60}; there are {', '.join(self._known) or 'none'}")
        return self._known[name]

    def _free(self, rank: int) -> int | None:
        """Where so many columns are nobody's."""
        at = 0
        for start, taken in sorted(self._known.values()):
            if start - at >= rank:
                break
            at = start + taken
        return at if self.columns - at >= rank else None

    def _sizes(self, call: tuple[list[str], int, list[int]]) -> tuple[int, int]:
        names, taken, given = call
        rows = sum(map(bool, names)) * self.columns
        return rows * taken, rows * sum(given)

    def _write(self, start: int, rank: int, adapter: Changes) -> None:
        """Puts numbers into columns; zeros for layers that the adapter leaves as they are."""
        array = self._state[STATE] if self._filled else np.zeros(sum(self._spans[-1]), np.float32)
        for small, wide, name, row, number in self._matrices(array):
            change = adapter.get(name)
            column = number * self.columns + start
            down, up = small[column : column + rank], wide[row, column : column + rank]
            down[...], up[...] = 0, 0
            if change is not None:
                down[: change.rank] = change.down.float32()
                up[:, : change.rank] = change.up.float32() * np.float32(change.scale)
        self._state.fill(STATE, array)
        self._filled = True

    def _matrices(self, array: Array) -> Iterator[tuple[Array, Array, str, slice, int]]:
        """Of every layer: the matrices of its call, its name, its rows of the second, and its number among those of the
        call that have adapters."""
        places = iter(self._spans)
        for call in self._calls:
            names, taken, given = call
            (small, _), (wide, _) = next(places), next(places)
            sizes, rows, number = self._sizes(call), 0, 0
            first = array[small : small + sizes[0]].reshape(-1, taken)
            second = array[wide : wide + sizes[1]].reshape(sum(given), -1)
            for name, height in zip(names, given, strict=True):
                if name:
                    yield first, second, name, slice(rows, rows + height), number
                    number += 1
                rows += height


def rank_of(adapter: Mapping[str, Change]) -> int:
    """The columns that an adapter needs."""
    return max(change.rank for change in adapter.values())


__all__ = ["AdapterBank", "rank_of"]
