"""Back ends by name: a module ``MNN.backends.<name>.backend`` registers its own when it is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import MNN.backends
from MNN.backends.base.backend import Backend
from MNN.errors import MNNError

DEFAULT = "cpu"
_MAKERS: dict[str, Callable[[bool], Backend]] = {}


def register(name: str, make: Callable[[bool], Backend]) -> None:
    """Makes a back end known. ``make`` gives it whenever it is asked for, one object for one device; its argument
    tells whether it may keep things on disk."""
    _MAKERS[name] = make


def backend(name: str, cache: bool) -> Backend:
    """The process's back end of this name. Raises ``MNNError`` when there is none."""
    check(name)
    if name not in _MAKERS:
        importlib.import_module(f"MNN.backends.{name}.backend")
    return _MAKERS[name](cache)


def names() -> list[str]:
    """What back ends there are."""
    import pkgutil  # for messages alone

    rooms = [m.name for m in pkgutil.iter_modules(MNN.backends.__path__) if m.ispkg and m.name != "base"]
    return sorted({*rooms, *_MAKERS})


def check(name: object) -> None:
    """Raises ``MNNError`` when no back end has this name."""
    if not isinstance(name, str) or (name != DEFAULT and name not in names()):
        raise MNNError(f"there is no back end {name!r:.60}; choose one of {', '.join(names())}")


__all__ = ["DEFAULT", "backend", "check", "names", "register"]
