"""What docs/coming-from-pymnn.md calls missing is missing: whoever adds a name takes it off the list."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-pymnn.md").read_text(encoding="utf-8")


def listed() -> dict[str, list[str]]:
    """Names by module."""
    block = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    found = re.findall(r"^(MNN[.\w]*): (.*?)(?=^MNN|\Z)", block[1], re.MULTILINE | re.DOTALL)
    return {module: names.split() for module, names in found}


def test_missing_names_are_missing() -> None:
    assert set(listed()) == {"MNN", "MNN.expr", "MNN.nn", "MNN.numpy", "MNN.cv"}
    there = [
        f"{module}.{name}"
        for module, names in listed().items()
        for name in names
        if hasattr(importlib.import_module(module), name)
    ]
    assert not there, "these are no longer missing: take them off the list in docs/coming-from-pymnn.md"
