"""Which names of PyMNN are not here.

``pymnn_api.json`` lists PyMNN's names, without the modules that it happens to import; a ``stub`` is a
function of its ``numpy`` that takes anything and only raises NotImplementedError.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import MNN

API: dict[str, Any] = json.loads((Path(__file__).parent / "pymnn_api.json").read_text())
MADE: dict[str, Callable[[], Any]] = {
    "MNN.optim.Optimizer": lambda: MNN.optim.ADAM(MNN.nn.Module()),
    "MNN.llm.Context": lambda: MNN.llm.Context(),
}
"""Instances of classes whose attributes are not the class's own."""


def find(module: str, name: str) -> Any:
    """What a name of PyMNN is here. Raises AttributeError when it is not here."""
    if module == "MNN" and f"MNN.{name}" in API["names"] and name not in MNN._PARTS:
        # a part in the making may have been imported by another test
        raise AttributeError(f"MNN.{name} is part of PyMNN but not of this version yet")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise AttributeError(f"there is no {module}") from error


def _listed() -> dict[str, list[str]]:
    """Members of classes, as the names say them: what instances alone have (of :data:`MADE`) is looked for in one."""
    return {
        f"{module}.{name}": text.removeprefix("class:").split(",")
        for module, names in API["names"].items()
        for name, text in names.items()
        if text.startswith("class:") and text != "class:"
    }


def _has(path: str, found: Any, member: str) -> bool:
    made = MADE.get(path)
    return hasattr(found, member) or (made is not None and hasattr(made(), member))


def missing() -> Iterator[tuple[str, list[str], int]]:
    """Modules and classes of PyMNN, what of them is missing here, and how much there is of them."""
    for module, names in API["names"].items():
        absent = []
        for name in names:
            try:
                find(module, name)
            except AttributeError:
                absent.append(name)
        yield module, absent, len(names)
    for path, members in {**_listed(), **API["members"]}.items():
        module, _, name = path.rpartition(".")
        try:
            found = find(module, name)
        except AttributeError:
            continue
        yield path, [m for m in members if not _has(path, found, m)], len(members)
