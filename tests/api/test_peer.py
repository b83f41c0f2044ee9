"""The same calls in PyMNN and here, on the same file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.api.models import classifier, write

HERE = Path(__file__).parent


def run(python: str, path: str, model: str, given: Path, result: Path) -> dict[str, np.ndarray]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    command = [python, str(HERE / "official_run.py"), model, str(given), str(result)]
    subprocess.run(command, env={**environment, "PYTHONPATH": path}, check=True, capture_output=True, timeout=300)
    with np.load(result) as arrays:
        return dict(arrays)


@pytest.mark.peer
@pytest.mark.parametrize("batch", [1, 2])
def test_one_program_under_both_engines(tmp_path: Path, batch: int) -> None:
    from tests.interop.official import interpreter

    model = write(classifier(), tmp_path, "mnn")
    image = np.random.default_rng(1).standard_normal((batch, 3, 224, 224)).astype(np.float32)
    np.save(tmp_path / "image.npy", image)
    theirs = run(str(interpreter()), "", model, tmp_path / "image.npy", tmp_path / "theirs.npz")
    ours = run(sys.executable, str(HERE.parents[1] / "src"), model, tmp_path / "image.npy", tmp_path / "ours.npz")
    for name in ("session", "last", "module"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-5, err_msg=name)
        assert ours[name].shape == theirs[name].shape
    for name in ("orders", "what"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    wanted = [op for op in theirs["ops"] if op in ("Convolution", "Softmax")]
    assert [op for op in ours["ops"] if op in ("Convolution", "Softmax")] == wanted or "MatMul" in ours["ops"]
