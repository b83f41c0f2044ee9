"""The commands in the documentation run, page by page; those of docs/performance.md have a test of their own."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from MNN.cli import mnnconvert
from tests.api.models import classifier
from tests.cli.conftest import run_command
from tests.docs.test_examples import PAGES, put_models

SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
OTHERS = ("python -m pip ", "python -m pytest", "python -m benchmarks.", "ruff ", "mkdocs ", "bash .ci/run")
"""Lines that are not run: they would change the environment that the tests run in, or run the tests."""


def commands(page: Path) -> list[str]:
    """Every command of a page's shell blocks, comments left out."""
    lines = "\n".join(SHELL.findall(page.read_text(encoding="utf-8"))).splitlines()
    parts = (part.strip() for line in lines for part in line.split(" #")[0].split(";"))
    return [part for part in parts if part]


WITH = [p for p in PAGES if p.name != "performance.md" and commands(p)]


@pytest.mark.parametrize("page", WITH, ids=lambda p: p.name)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    onnx.save(classifier(), "model.onnx")
    onnx.save(classifier(), "a.onnx")
    put_models(page, tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # a chat ends with its input
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 90, 3), np.uint8)).save("photo.jpg")
    for text in commands(page):
        words = shlex.split(text)
        if words[0] == "mnn":
            result = run_command(*words[1:])
        elif words[0] == "mnnconvert":
            result = run_command(*words[1:], application=mnnconvert.app)
        else:
            assert text.startswith(OTHERS), f"no test runs {text!r}"
            continue
        assert result.code == 0, (text, result)
