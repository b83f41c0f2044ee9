"""docs/environment.md lists the variables that the engine reads: all of them, and no others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"MNN_[A-Z0-9_]+")


def _read_in_source() -> set[str]:
    """Texts in the source that are the name of a variable and nothing else."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "MNN_" in text else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                found.add(node.value)
    return found


def test_every_variable_is_on_the_page_and_the_other_way_round():
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(MNN_[A-Z0-9_]+)` \|", page, re.MULTILINE))
    assert len(listed) >= 8
    assert listed == _read_in_source()
    assert set(NAME.findall(page)) == listed


def test_other_pages_name_no_variables_that_there_are_not():
    known = _read_in_source()
    for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        strange = set(re.findall(r"\bMNN_[A-Z]+(?:_[A-Z]+)*\b", page.read_text(encoding="utf-8"))) - known
        assert not strange, (page.name, strange)
