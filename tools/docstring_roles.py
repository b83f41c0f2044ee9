"""References in docstrings, as Sphinx writes them, become code: ``:class:`MNN.Var``` is shown as ``MNN.Var``."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")


class Roles(griffe.Extension):  # type: ignore[misc]
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
