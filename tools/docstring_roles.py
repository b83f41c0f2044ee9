"""Docstrings as Markdown: what Sphinx would make a reference of becomes code, examples become blocks.

``:class:`MNN.Var``` is shown as ``MNN.Var``; lines that begin with ``>>>`` go into a block of Python.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")
EXAMPLE = re.compile(r"(?:^>>> .*\n?)+", re.MULTILINE)


def markdown(text: str) -> str:
    """A docstring as mkdocs can show it."""
    return EXAMPLE.sub(_block, ROLE.sub(r"`\1`", text))


def _block(example: re.Match[str]) -> str:
    lines = [line[4:].split("  # doctest:")[0] for line in example[0].rstrip("\n").split("\n")]
    return "\n".join(["```python", *lines, "```", ""])


class Roles(griffe.Extension):  # type: ignore[misc]
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
