"""What was chosen for nodes when they first came, so that other sizes keep to it."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

Key = tuple[Any, ...]

_LARGEST_NUMBER = 1 << 31
"""Numbers in keys beyond this are identities of objects, which differ from node to node."""


class KeptChoices:
    """A table of choices. The first part of every key is the node's name."""

    def __init__(self) -> None:
        self._of: dict[object, dict[Key, Any]] = {}
        self._next: dict[object, dict[Key, Any]] = {}
        self._kernels: dict[Hashable, dict[Any, None]] = {}
        self._new_kernels: list[tuple[Hashable, Any]] = []
        self._told: dict[object, Hashable] = {}
        """Answers of :meth:`of` that hold."""

    def get(self, key: Key) -> Any:
        """What was chosen, None when nothing was."""
        found = self._of.get(key[0])
        return None if found is None else found.get(key[1:])

    def setdefault(self, key: Key, value: Any) -> Any:
        """What was chosen, ``value`` from now on when nothing was."""
        self._told.pop(key[0], None)
        return self._of.setdefault(key[0], {}).setdefault(key[1:], value)

    def __setitem__(self, key: Key, value: Any) -> None:
        self._told.pop(key[0], None)
        self._of.setdefault(key[0], {})[key[1:]] = value

    def note(self, key: Key, value: Any) -> None:
        """From the next plan on, this was chosen: within a plan, equal work finds equal choices."""
        self._next.setdefault(key[0], {})[key[1:]] = value

    def follow(self, node: str, other: str) -> None:
        """A node's work was copied from another's: what was noted of the other is so of this one."""
        if other in self._next and node != other:
            self._next.setdefault(node, {}).update(self._next[other])

    def made(self, family: Hashable) -> Collection[Any]:
        """The variants of a kernel that earlier plans had."""
        return self._kernels.get(family, ())

    def make(self, family: Hashable, variant: Any) -> None:
        """From the next plan on, there is this variant of a kernel."""
        self._new_kernels.append((family, variant))

    def begin_plan(self) -> None:
        """A new plan begins."""
        for node, found in self._next.items():
            self._told.pop(node, None)
            self._of.setdefault(node, {}).update(found)
        for family, variant in self._new_kernels:
            self._kernels.setdefault(family, {})[variant] = None
        self._next.clear()
        self._new_kernels.clear()

    def of(self, node: str) -> Hashable:
        """Everything that was chosen for a node, equal for nodes of which all the same was chosen."""
        found = self._of.get(node)
        if found is None:
            return None
        told = self._told.get(node)
        if told is None:
            told = self._told[node] = tuple([(*map(_plain, key), _plain(v)) for key, v in found.items()])
        return told


def _plain(part: Any) -> Hashable:
    if isinstance(part, dict):
        return tuple(part.items())
    return None if isinstance(part, int) and part >= _LARGEST_NUMBER else part
