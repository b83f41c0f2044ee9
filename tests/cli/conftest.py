from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.cli.main import app, guarded

DIGITS = Path(MNN.__file__).parent / "assets" / "digits.onnx"


@dataclass(frozen=True)
class Result:
    """How a command ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str


Mnn = Callable[..., Result]


def run_command(*arguments: object, application: object = app) -> Result:
    """The ``mnn`` command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            guarded(application, "mnn" if application is app else "mnnconvert", [str(a) for a in arguments])  # type: ignore[arg-type]
        except SystemExit as end:
            code = end.code
    return Result(code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())


@pytest.fixture
def mnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mnn:
    """Runs commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run_command


@pytest.fixture
def refused(mnn: Mnn) -> Callable[..., str]:
    """Runs a command that must end with exit code 2 and one message; gives the message."""

    def check(*arguments: object) -> str:
        result = mnn(*arguments)
        assert result.code == 2, result
        assert "Traceback" not in result.err
        assert result.err.startswith("error: "), result.err
        return result.err

    return check


@pytest.fixture
def digits() -> Path:
    return DIGITS


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx as .mnn."""
    target = tmp_path_factory.mktemp("converted") / "digits.mnn"
    result = run_command("convert", DIGITS, target)
    assert result.code == 0, result
    return target


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    from PIL import Image

    rng = np.random.default_rng(1)
    path = tmp_path / "picture.png"
    Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8)).save(path)
    return path
