"""Warnings point at the line of the user's program; two distributions in one folder are told at once."""

from __future__ import annotations

import importlib.machinery
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import MNN

HERE = Path(MNN.__file__).parent


def test_an_untrusted_cache_folder(tmp_path, monkeypatch):
    from MNN.cache.entries import Cache

    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    monkeypatch.setattr("MNN.backends.cpu.codegen.library._libraries", {})
    monkeypatch.setattr("MNN.cache.packed._SHARED", {})
    for part in ("objects", "packed", "programs"):
        (tmp_path / part).mkdir()
        (tmp_path / part).chmod(0o777)
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(RuntimeWarning, match="is not used") as caught:
        MNN.load(str(HERE / "assets" / "digits.onnx")).run({"image": [[[[0.0] * 8] * 8]]})
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, line)}


def test_a_backend_that_there_is_not():
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(UserWarning, match="no backend OPENCL") as caught:
        MNN.nn.create_runtime_manager(({"backend": "OPENCL"},))
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


@pytest.fixture
def installed(tmp_path):
    """A folder with this package, as pip would have it."""
    (tmp_path / "MNN").symlink_to(HERE, target_is_directory=True)
    (tmp_path / "program.py").write_text("import sys\nimport MNN\nprint(MNN.__file__)\n")
    return tmp_path


def _run(folder):
    command = [sys.executable, "-W", "always", str(folder / "program.py")]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == str(folder / "MNN" / "__init__.py")
    return done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_the_official_distribution_in_the_same_folder(installed):
    assert _run(installed) == ""
    (installed / f"_mnncengine{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    told = _run(installed)
    assert told.count("RuntimeWarning") == 1
    assert f"{installed / 'program.py'}:2: RuntimeWarning: the official MNN package and this one (mnn-py)" in told
    assert "pip uninstall MNN mnn-py" in told
