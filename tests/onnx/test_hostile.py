"""Damaged ONNX files end in a right load or an MNNError, never in a crash, a hang or much memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.onnx.hostile import MODELS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_damaged_models(name):
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.onnx.hostile", name],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, f"status {child.returncode}\n{child.stdout}\n{child.stderr}"
