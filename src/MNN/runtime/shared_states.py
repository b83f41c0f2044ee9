"""States that several models have in common: graphs of one network that differ in what else they do."""

from __future__ import annotations

from collections.abc import Collection

from MNN.runtime.state_memory import Kept, StateMemory


class SharedStates:
    """The states of these ``names``, which the memories of several models hold together: what one writes, all have.
    They run one after the other, and the sizes of the states are fixed."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = tuple(names)
        self._kept: dict[str, Kept] = {}

    def give(self, memory: StateMemory) -> None:
        """A memory gets the states where they are now, before a run; where they have moved, it is laid out anew."""
        for name, kept in self._kept.items():
            if memory.kept.get(name) is not kept:
                memory.kept[name], memory.layout = kept, None
        blocks = [kept.block for kept in self._kept.values()]
        if len(blocks) != len(memory.known) or any(a is not b for a, b in zip(blocks, memory.known, strict=True)):
            memory.layout = None

    def take(self, memory: StateMemory) -> None:
        """What a memory holds after a run is what all have."""
        self._kept = {name: memory.kept[name] for name in self._names}
        memory.known = [kept.block for kept in self._kept.values()]


__all__ = ["SharedStates"]
