"""Chat templates: Jinja, in a sandbox, with a bound on what they may do.

A template is a program of whoever made the file. Here it sees plain values only (:mod:`MNN.llm.text.sandbox`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from MNN.errors import MNNError
from MNN.llm.text.library import jinja2

SOURCE = 1 << 20
"""Characters that a template may have."""
DEPTH = 64
"""How deep values may be nested."""


class ChatTemplate:
    """A template, compiled. MNNError where it cannot be."""

    def __init__(self, source: str) -> None:
        jinja2()
        from MNN.llm.text.sandbox import compiled

        if len(source) > SOURCE:
            raise MNNError(f"the chat template has {len(source)} characters; at most {SOURCE} are expected")
        self._template = compiled(source)

    def render(self, **values: Any) -> str:
        """The text for these values. MNNError where the template refuses them, fails, or does too much."""
        from MNN.llm.text.sandbox import rendered

        return rendered(self._template, {name: plain(value, name) for name, value in values.items()})


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """A copy that is made of what JSON has, and shares nothing with the caller's objects. MNNError for other values."""
    if depth > DEPTH:
        raise MNNError(f"{where} is nested more than {DEPTH} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise MNNError(f"{where} is a {type(value).__name__}; a chat template takes texts, numbers, lists and dictionaries")
