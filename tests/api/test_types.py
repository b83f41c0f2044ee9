"""The package's types serve its users: a small program passes ``mypy --strict``, and wrong ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")


def check(program: Path, folder: Path) -> str:
    """What mypy says of a program that uses the package, as it does of one that is installed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [*command, "--config-file=", f"--cache-dir={folder / 'cache'}", str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_program_has_types(tmp_path: Path) -> None:
    assert (ROOT / "src" / "MNN" / "py.typed").exists()
    assert check(PROGRAM, tmp_path) == ""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import MNN\nimport MNN.expr as F\n"
        "a: int = F.const([1.0], [1], F.NCHW)\n"
        "F.const([1.0], [1], 'NCHW')\n"
        "MNN.load('x', threads='2')\n"
        "F.softmax(F.no_such_name)\n"
    )
    lines = check(wrong, tmp_path).splitlines()
    assert [line.split(":")[1] for line in lines if ": error:" in line] == ["3", "4", "5", "6"], lines


def test_the_program_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "picture.png")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "has shape [1, 8, 8] but the model takes" in done.stdout
