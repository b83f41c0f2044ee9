"""Registries that fill by file: importing every module of a package, in the rooms below it too."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType


def import_modules(package: str, named: str = "") -> Iterator[ModuleType]:
    """The modules of a package and of the packages in it, imported, in order of their names; with ``named`` those alone
    whose names begin so."""
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        name = f"{package}.{info.name}"
        if info.ispkg:
            yield from import_modules(name, named)
        elif info.name.startswith(named):
            yield importlib.import_module(name)


__all__ = ["import_modules"]
