"""Which handlers emit a group of primitives: each kernel family registers its own, in its file ``emit_*.py``.

A handler belongs to the primitive that leads a group (its anchor, or the root) or to a kind of group ("map", "rows",
"fold"). Those of one lead are asked in order of their ranks until one says that it has emitted the group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.compiler.fuse import Group
from MNN.discovery import import_modules
from MNN.ir.prims import Prim

Handler = Callable[[Emitter, Group], bool]
"""Emits a group; False when it cannot."""
H = TypeVar("H", bound=Callable[..., bool])
_HANDLERS: dict[type[Prim] | str, list[tuple[int, Handler]]] = {}


def emits(lead: type[Prim] | str, rank: int = 0) -> Callable[[H], H]:
    """Decorator: makes a handler known for groups that a primitive of type ``lead`` leads, or of the kind ``lead``."""

    def add(handler: H) -> H:
        _HANDLERS.setdefault(lead, []).append((rank, handler))
        return handler

    return add


@functools.cache
def load_families() -> None:
    """Imports the files in which kernel families register what they can do."""
    for _ in import_modules("MNN.backends.cpu", "emit_"):
        pass


@functools.cache
def _sorted() -> dict[type[Prim] | str, Sequence[Handler]]:
    load_families()
    return {lead: [handler for _, handler in sorted(found, key=lambda f: f[0])] for lead, found in _HANDLERS.items()}


def handlers(group: Group) -> Sequence[Handler]:
    """The handlers to ask for a group."""
    known = _sorted()
    return known.get(type(group.anchor or group.root)) or known.get(group.kind, ())


__all__ = ["Handler", "emits", "handlers", "load_families"]
