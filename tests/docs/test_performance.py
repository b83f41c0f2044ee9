"""The commands of the page on performance run as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import MNN
from MNN.backends.cpu.measuring import machine
from MNN.cache.entries import Cache
from tests.cli.conftest import run_command

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
COMMANDS = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
EXPECTED = {
    "--check": ["float64", "GFLOP/s"],
    "--machine": ["f32 multiply-adds", "GB/s"],
    "--profile": ["slowest commands", "% of roof", "total"],
    "--html": ["wrote report.html"],
    "--asm": ["define void @kernel", "hottest loop"],
    "--tune": ["choices changed"],
}


@pytest.fixture(autouse=True)
def _quick(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    monkeypatch.setattr(machine, "_RUN_NS", 2e4)
    monkeypatch.setattr(machine, "_TRIES", 1)
    monkeypatch.setattr(machine, "_ROUNDS", 1)
    monkeypatch.setattr(machine, "_MOST_BYTES", 4 << 20)
    shutil.copy(Path(MNN.__file__).parent / "assets" / "digits.onnx", "digits.onnx")


def test_every_view_is_shown():
    assert len(COMMANDS) == len(EXPECTED)


@pytest.mark.parametrize("text", COMMANDS, ids=lambda t: t.split("--")[1].split()[0])
def test_commands_run(text):
    words = shlex.split(text)
    assert words[:2] == ["mnn", "bench"]
    result = run_command(*words[1:])
    assert result.code == 0, result
    option = next(o for o in EXPECTED if o in words)
    for wanted in EXPECTED[option]:
        assert wanted in result.out
