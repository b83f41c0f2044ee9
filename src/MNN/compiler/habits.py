"""What was chosen for nodes when they first came, so that other sizes keep to it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

Key = tuple[Any, ...]

_LARGEST_NUMBER = 1 << 31
"""Numbers in keys beyond this are identities of objects, which differ from node to node."""


class Habits:
    """A table of choices. The first part of every key is the node's name."""

    def __init__(self) -> None:
        self._of: dict[object, dict[Key, Any]] = {}

    def get(self, key: Key) -> Any:
        """What was chosen, None when nothing was."""
        found = self._of.get(key[0])
        return None if found is None else found.get(key[1:])

    def setdefault(self, key: Key, value: Any) -> Any:
        """What was chosen, ``value`` from now on when nothing was."""
        return self._of.setdefault(key[0], {}).setdefault(key[1:], value)

    def __setitem__(self, key: Key, value: Any) -> None:
        self._of.setdefault(key[0], {})[key[1:]] = value

    def of(self, node: str) -> Hashable:
        """Everything that was chosen for a node, equal for nodes of which all the same was chosen."""
        found = self._of.get(node)
        return None if found is None else tuple([(*map(_plain, key), _plain(v)) for key, v in found.items()])


def _plain(part: Any) -> Hashable:
    if isinstance(part, dict):
        return tuple(part.items())
    return None if isinstance(part, int) and part >= _LARGEST_NUMBER else part
