"""Words that the glossary bans are not in what users read: pages, texts of commands, docstrings of the interface."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SOURCE = ROOT / "src" / "MNN"
INTERFACE = ["cli", "expr", "nn", "numpy", "cv", "*.py", "runtime/config.py", "runtime/session.py"]


def banned() -> list[str]:
    """The left column of the table of words that are not used."""
    table = GLOSSARY.split("| not | but |")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ") and "---" not in row]
    return [word.strip() for row in rows for word in row.split(",")]


def texts() -> Iterator[tuple[str, str]]:
    """What users read, and where it stands."""
    for page in (*sorted((ROOT / "docs").glob("**/*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"):
        yield page.name, FENCED.sub("", page.read_text(encoding="utf-8"))
    for room in INTERFACE:
        folder = SOURCE / room
        for file in sorted(folder.rglob("*.py") if folder.is_dir() else SOURCE.glob(room)):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def found(words: list[str], text: str) -> list[str]:
    """The words of a text that are among those, in any case and over the ends of lines."""
    plain = " ".join(text.split())
    return [word for word in words if re.search(rf"\b{re.escape(word)}\b", plain, re.IGNORECASE)]


def test_banned_words_are_not_used() -> None:
    words = banned()
    assert {where: hits for where, text in texts() if (hits := found(words, text))} == {}


def test_they_would_be_found() -> None:
    words = banned()
    assert len(words) > 10
    assert found(words, "checked against the Numpy\n    meaning of them") == ["numpy meaning"]
    assert found(words, "at the least times out") == ["least times"]
    assert not found(words, "the reference implementation")
    assert sum(1 for where, _ in texts() if where.startswith("src/MNN/cli/")) > 500


def test_every_word_is_explained_once() -> None:
    table = GLOSSARY.split("| word | meaning |")[1].split("\n\n")[0]
    words = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")]
    assert len(words) > 30
    assert len(words) == len(set(words))
