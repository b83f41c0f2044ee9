"""Hooks of the documentation's site: a line ``<!-- functions of MODULE -->`` becomes the reference of them all.

What is public is asked of the module itself, since some of the lists are made when it is imported.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

MARK = re.compile(r"^<!-- functions of ([\w.]+) -->$", re.MULTILINE)


def public(module: str) -> dict[str, str]:
    """A module's public functions and classes in alphabetical order, each with the name that it was defined under."""
    found = importlib.import_module(module)
    things = {name: getattr(found, name) for name in sorted(found.__all__, key=str.lower)}
    return {n: t.__name__ for n, t in things.items() if inspect.isroutine(t) or inspect.isclass(t)}


def entries(module: str) -> str:
    """One entry for each name; second names of functions are mentioned only."""
    names = public(module)
    parts = []
    for name, defined in names.items():
        if name != defined and defined in names:
            parts.append(f"### {name}\n\nThe same as `{defined}`.")
        else:
            parts.append(f"::: {module}.{name}")
    return "\n\n".join(parts)


def expanded(markdown: str) -> str:
    """The page with every mark replaced."""
    return MARK.sub(lambda mark: entries(mark[1]), markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls before it renders a page."""
    return expanded(markdown)
