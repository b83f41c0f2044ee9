"""Which names of PyMNN are not here yet, as a table: ``python -m tests.api.missing`` writes it into docs/python.md.

``pymnn_api.json`` lists PyMNN's names, without the modules that it happens to import; a ``stub`` is a
function of its ``numpy`` that takes anything and only raises NotImplementedError.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import MNN

API: dict[str, Any] = json.loads((Path(__file__).parent / "pymnn_api.json").read_text())
PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BEGIN, END = "<!-- missing: written by python -m tests.api.missing -->", "<!-- end of missing -->"


def find(module: str, name: str) -> Any:
    """What a name of PyMNN is here. Raises AttributeError when it is not here."""
    if module == "MNN" and f"MNN.{name}" in API["names"] and name not in MNN._PARTS:
        # a part in the making may have been imported by another test
        raise AttributeError(f"MNN.{name} is part of PyMNN but not of this version yet")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise AttributeError(f"there is no {module}") from error


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
    for path, members in API["members"].items():
        module, _, name = path.rpartition(".")
        try:
            found = find(module, name)
        except AttributeError:
            continue
        yield path, [m for m in members if not hasattr(found, m)], len(members)


def table() -> str:
    """The table, a row for each module and class of which something is missing."""
    rows = ["| of | missing | names |", "| --- | ---: | --- |"]
    for path, absent, count in missing():
        if absent:
            names = "all" if len(absent) == count else ", ".join(f"`{n}`" for n in sorted(absent))
            rows.append(f"| `{path}` | {len(absent)} of {count} | {names} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with the present table."""
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:start]}\n{table()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
