"""The package's types serve its users: their programs pass ``mypy --strict``, and wrong ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import PAGES, blocks

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")
WRONG = """
a: int = F.const([1.0], [1], F.NCHW)
F.const([1.0], [1], 'NCHW')
MNN.load('x', threads='2')
F.softmax(F.no_such_name)
F.reshape([1.0, 2.0], '2')
F.conv2d([1.0], [1.0], None, padding_mode='SAME')
np.zeros(2.5)
np.atleast_1d([1.0], [2.0]).shape
np.where([1, 0]).shape
MNN.nn.load_module_from_file('x', [], [], threads=2)
MNN.Tensor((1, 2), MNN.Halide_Type_Float)
a = cv.imread('x')
cv.resize(cv.imread('x'), 224)
MNN.Interpreter('x').createSession({}, {})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mypy keeps what it knows of the package: as long as its options are the same, it reads that once."""
    return tmp_path_factory.mktemp("types")


def check(programs: list[Path], folder: Path) -> str:
    """What mypy says of programs that use the package, as it does of one that is installed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    options = ["--disable-error-code=import-untyped", "--config-file=", f"--cache-dir={folder / 'cache'}"]
    done = subprocess.run(
        [*command, *options, *map(str, programs)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_programs_have_types(folder: Path) -> None:
    """One that uses everything, and the examples, where others' packages have types."""
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert check([PROGRAM, *examples], folder) == ""


@pytest.mark.slow
def test_pages_have_types(tmp_path: Path, folder: Path) -> None:
    """They leave annotations of their own functions out, to be short."""
    programs = []
    untyped = ", ".join(f"allow-{what}" for what in ("untyped-defs", "incomplete-defs", "untyped-calls"))
    for page in (p for p in PAGES if blocks(p)):
        programs.append(tmp_path / f"{page.stem.replace('-', '_')}_page.py")
        programs[-1].write_text("\n".join([f"# mypy: {untyped}", *blocks(page)]), encoding="utf-8")
    assert len(programs) > 10
    assert check(programs, folder) == ""


@pytest.mark.slow
def test_wrong_programs_are_found(tmp_path: Path, folder: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(f"import MNN, MNN.cv as cv, MNN.expr as F, MNN.numpy as np{WRONG}")
    lines = check([wrong], folder).splitlines()
    found = {int(line.split(":")[1]) for line in lines if ": error:" in line}
    missed = [text for number, text in enumerate(WRONG.splitlines(), 1) if number > 1 and number not in found]
    assert not missed, lines


def test_the_program_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "picture.png")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "has shape [1, 8, 8] but the model takes" in done.stdout
