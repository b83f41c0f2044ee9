"""The page on passes: its example works as printed, and its table lists the passes there are."""

from __future__ import annotations

import re
from pathlib import Path

from MNN.passes.manager import passes

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")


def test_example_works_as_printed() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/adding-a-pass.md", "exec"), scope)
    assert scope["PASS"].name == "double-negation"  # type: ignore[attr-defined]


def test_table_lists_every_pass() -> None:
    rows = re.findall(r"^\| (\d+) \| ([a-z-]+)( \(level 2\))? \|", PAGE, re.MULTILINE)
    listed = [(name, int(rank), 2 if level else 1) for rank, name, level in rows]
    assert listed == [(p.name, p.rank, p.level) for p in passes().values()]
