"""A model's graphs by what a step needs of its adapters: none, a single one, or all of them. What is not needed is not
computed; keys, values and packed weights are the same ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.llm.engine.adapters import AdapterBank, rank_of
from MNN.llm.files.adapters import Changes
from MNN.runtime.shared_states import SharedStates
from MNN.stateful import State, StatefulModel

Array = np.ndarray[Any, np.dtype[Any]]
Make = Callable[[Collection[str], int], StatefulModel]
"""Makes the graph with so many columns for adapters of these layers; with 0 columns that of the model by itself."""


@dataclass(eq=False)
class Variant:
    """A graph with a state of its own but for what ``shared`` has. ``bank``: the adapters that it computes."""

    model: StatefulModel
    state: State
    bank: AdapterBank | None
    shared: SharedStates
    whole: State

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """A step, as :meth:`MNN.stateful.StatefulModel.run` does it."""
        self.state.give(self.shared)
        found = self.model.run(feeds, state=self.state)
        self.state.take(self.shared)
        if self.state is not self.whole:
            self.whole.give(self.shared)  # who looks at pages looks there
        return found


class Variants:
    """Those of one model. A graph is made when a step first needs it; adapters that change the same layers by the same
    rank have one graph."""

    def __init__(self, whole: StatefulModel, bank: AdapterBank, pools: Collection[str], make: Make) -> None:
        """``whole``: the graph with all adapters, which are in its ``bank``; ``pools``: the states that hold pages."""
        self._make, self._shared, self._state = make, SharedStates(pools), whole.state
        self._whole = Variant(whole, whole.state, bank, self._shared, whole.state)
        self._none: Variant | None = None
        self._changes: dict[str, Changes] = {}
        self._single: dict[str, Variant] = {}
        self._models: dict[tuple[tuple[str, ...], int], StatefulModel] = {}

    def add(self, name: str, changes: Changes) -> None:
        """An adapter that the bank has."""
        self._changes[name] = changes

    def remove(self, name: str) -> None:
        """One that it has no more."""
        self._changes.pop(name, None)
        self._single.pop(name, None)

    def choose(self, names: Collection[str]) -> Variant:
        """For a step of texts with these adapters; an empty name is none."""
        wanted = sorted(set(names) - {""})
        if not wanted:
            if self._none is None:
                model = self._make((), 0)
                self._none = Variant(model, model.state, None, self._shared, self._state)
            return self._none
        if len(wanted) > 1 or len(self._changes) == 1 or wanted[0] not in self._changes:
            return self._whole
        if wanted[0] not in self._single:
            self._single[wanted[0]] = self._alone(wanted[0], self._changes[wanted[0]])
        return self._single[wanted[0]]

    def _alone(self, name: str, changes: Changes) -> Variant:
        rank, modules = rank_of(changes), tuple(sorted(changes))
        key = modules, rank
        if key not in self._models:
            self._models[key] = self._make(modules, rank)
        model = self._models[key]
        state = model.new_state()
        bank = AdapterBank(model.session.card.facts, rank, state)
        bank.add(name, changes)
        return Variant(model, state, bank, self._shared, self._state)


__all__ = ["Variant", "Variants"]
