"""Small whole networks as every processor computes them: the answers of ONNX Runtime, whatever memory held before."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import MNN
from MNN.backends.cpu.targets import host_target
from MNN.runtime.session import Session
from tests.processors.networks import NETWORKS, feeds, made
from tests.processors.processors import processors
from tests.programs import Tried

BOUNDS = {"high": 2e-5, "normal": 5e-4, "low": 5e-2}
"""Of the largest output. ``normal`` is where users find it; what is special to ``low`` has tests of its own."""
SEEDS = (0, 1)


@pytest.fixture(params=list(processors()))
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    text = processors()[request.param]
    monkeypatch.setenv("MNN_TARGET", text) if text else monkeypatch.delenv("MNN_TARGET", raising=False)
    return str(request.param)


def answers(session: Session, inputs: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """What it gives for each of the inputs, the second time too, when outputs are written in place."""
    return [list(session.run(x).values()) for x in (*inputs, *inputs)]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_answers(name: str, processor: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert processors()[processor].split(",")[0] in (host_target().name, "")
    for number in SEEDS:
        model, path = made(name, number), str(tmp_path / f"{name}{number}.onnx")
        onnx.save(model, path)
        inputs = [feeds(model, 2 * number), feeds(model, 2 * number + 1)]
        reference = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        want = [reference.run(None, x) for x in inputs]
        tried = Tried()
        for precision, bound in BOUNDS.items():
            monkeypatch.setenv("MNN_POISON", "0")
            session = MNN.load(path, precision=precision, threads=2)
            if tried.before(session, inputs, bound):
                continue
            found = answers(session, inputs)
            monkeypatch.setenv("MNN_POISON", "1")
            poisoned = answers(MNN.load(path, precision=precision, threads=2), inputs)
            for i, (given, other) in enumerate(zip(found, poisoned, strict=True)):
                for x, y, z in zip(given, other, want[i % len(inputs)], strict=True):
                    error = np.abs(x.astype(np.float64) - z).max() / np.abs(z).max()
                    assert error < bound, f"{precision}, model {number}, inputs {i}: {error:.1e}"
                    assert x.tobytes() == y.tobytes(), f"{precision}: unwritten memory was read"
