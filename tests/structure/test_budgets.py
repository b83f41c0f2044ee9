"""Time budgets of test folders: a run over budget fails and says why, on one process and on several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets import SECONDS, folder_of

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests import budgets
from tests.budgets import pytest_configure

budgets.SECONDS = {"quick": 5, "slow": 0.2}
"""
TEST = "import time\n\ndef test_a():\n    time.sleep({seconds})\n\ndef test_b():\n    pass\n"


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of two folders, of which ``slow`` takes longer than its budget."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests").mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    for name, seconds in (("quick", 0), ("slow", 0.3)):
        (folder / "tests" / name).mkdir()
        (folder / "tests" / name / f"test_{name}.py").write_text(TEST.format(seconds=seconds))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    here = {**os.environ, "PYTHONPATH": paths, "MNN_TEST_BUDGET": "1", **environment}
    return subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_a_folder_over_its_budget_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, *options)
    assert done.returncode == 1, done.stdout
    assert "4 passed" in done.stdout
    assert "tests/slow took 0 s, its budget is 0 s" in done.stdout
    assert done.stdout.index("tests/slow/test_slow.py::test_a") < done.stdout.index("tests/slow/test_slow.py::test_b")
    assert "tests/quick took" not in done.stdout


@pytest.mark.parametrize("factor", ["0", "10"])
def test_a_slow_machine_has_more_time(tmp_path: Path, factor: str) -> None:
    assert run(tmp_path, MNN_TEST_BUDGET=factor).returncode == 0


def test_a_factor_is_a_number(tmp_path: Path) -> None:
    done = run(tmp_path, MNN_TEST_BUDGET="more")
    assert done.returncode == 4
    assert "MNN_TEST_BUDGET is 'more'; set it to a number" in done.stderr


def test_budgets_are_for_folders_that_exist() -> None:
    assert {name for name in SECONDS if not (ROOT / "tests" / name).is_dir()} == set()
    assert folder_of("tests/backends/cpu/test_x.py::test_y[a/b]") == "backends"
    assert folder_of("tests/test_formatting.py::test_y") == "."
