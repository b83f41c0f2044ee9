"""A front end's table from operators of its format to handlers, filled by the files of a room.

>>> from MNN.frontends.common.handlers import Handlers
>>> table: Handlers[object] = Handlers("MNN.frontends.toy.operators", "Toy")   # doctest: +SKIP
>>> @table.handles("RELU")                                                     # doctest: +SKIP
... def relu(ctx, node):
...     return ctx.op("ReLU", node.input(0))

A handler returns the values of the node's outputs in order: one value, or several.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from MNN.discovery import import_modules

H = TypeVar("H")


class Handlers(Generic[H]):
    """``package``: the room whose modules enter the handlers; it is imported when a handler is first asked for.
    ``format_name``: what the format is called in errors."""

    def __init__(self, package: str, format_name: str) -> None:
        self._package = package
        self._format = format_name
        self._entries: dict[str, H] = {}
        self._loaded = False
        self._lock = threading.RLock()

    def handles(self, *ops: str) -> Callable[[H], H]:
        """Decorator that enters a handler for one or more operators. Raises ``ValueError`` for one that has one."""

        def add(handler: H) -> H:
            for op in ops:
                if op in self._entries:
                    raise ValueError(f"{self._format} operator {op} is entered twice")
                self._entries[op] = handler
            return handler

        return add

    def find(self, op: str) -> H | None:
        """The handler of an operator, or None."""
        self._load_all()
        return self._entries.get(op)

    def known(self) -> list[str]:
        """The names of all operators that have a handler, sorted."""
        self._load_all()
        return sorted(self._entries)

    def _load_all(self) -> None:
        with self._lock:
            if not self._loaded:
                for _ in import_modules(self._package):
                    pass
                self._loaded = True
