"""The site of the documentation: every page is in its navigation, and the reference holds every public function.

That it builds, and that no link in it is broken, is checked by building it (.ci/run).
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tools.docs_hooks import MARK, expanded, public

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_navigation_has_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r": (\S+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(str(p.relative_to(DOCS)) for p in DOCS.glob("**/*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.glob("reference/*.md")), ids=lambda p: p.stem)
def test_what_the_reference_names_exists(page: Path) -> None:
    names = re.findall(r"^::: (\S+)$", expanded(page.read_text(encoding="utf-8")), re.MULTILINE)
    assert names
    for name in names:
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(module), last).__doc__, f"{name} has no docstring"


def test_the_reference_has_all_parts_of_the_interface() -> None:
    marks = {m for page in DOCS.glob("reference/*.md") for m in MARK.findall(page.read_text(encoding="utf-8"))}
    assert marks == {"MNN.nn", "MNN.expr", "MNN.numpy", "MNN.cv"}
    assert public("MNN.numpy")["amax"] == "max"
    assert "### amax\n\nThe same as `max`." in expanded("<!-- functions of MNN.numpy -->")
