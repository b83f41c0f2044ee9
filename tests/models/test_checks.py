"""The checks can fail: wrong numbers, shapes and hashes are noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import zoo
from tests.models.answers import TASKS
from tests.models.light import LIGHT
from tests.models.runners import onnxruntime_runner
from tests.models.task import Array, Feeds, Outputs, Run, Task, largest_error


def _spoiled(run: Run) -> Run:
    """Outputs of ``run`` reversed along the last axis, with noise of up to half the largest value."""
    rng = np.random.default_rng(0)

    def spoil(value: Array) -> Array:
        turned = np.flip(value, -1) if value.ndim else value
        noise = rng.random(value.shape) * 0.5 * float(np.abs(value).max(initial=0))
        return (turned + noise).astype(value.dtype)

    def changed(feeds: Feeds) -> Outputs:
        return {name: spoil(value) for name, value in run(feeds).items()}

    return changed


@pytest.mark.real
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_a_wrong_engine_fails_every_task(task: Task) -> None:
    runs = [_spoiled(onnxruntime_runner(zoo.path(key))) for key in task.models]
    with pytest.raises(AssertionError):
        task.check(*runs)


def test_a_light_model_with_wrong_output_fails() -> None:
    light = next(m for m in LIGHT if m.name == "squeezenet")
    run = onnxruntime_runner(light.path)
    with pytest.raises(AssertionError):
        light.check(lambda feeds: {k: v * 1.01 for k, v in run(feeds).items()})


def test_largest_error() -> None:
    want = {"a": np.array([1.0, -4.0], np.float32), "n": np.array([1, 2])}
    assert largest_error(want, want) == 0
    assert largest_error({**want, "a": np.array([1.0, -4.4], np.float32)}, want) == pytest.approx(0.1)
    assert largest_error({**want, "n": np.array([1, 3])}, want) == np.inf
    assert largest_error({"a": want["a"]}, want) == np.inf
    assert largest_error({**want, "a": want["a"][None]}, want) == np.inf
    assert largest_error({**want, "a": np.array([1.0, np.nan], np.float32)}, want) == np.inf


def test_unknown_model_is_an_error() -> None:
    with pytest.raises(zoo.ZooError, match="no test model"):
        zoo.path("no_such_model")


@pytest.mark.real
def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = next(p for p in zoo.packages() if "swift_f0" in p.keys)
    member = package.keys["swift_f0"]
    data = bytearray(zoo.path("swift_f0").read_bytes())
    monkeypatch.setenv("MNN_TEST_MODELS", str(tmp_path))
    copy = package.folder / member
    copy.parent.mkdir(parents=True)
    data[1000] ^= 1
    copy.write_bytes(data)
    with pytest.raises(zoo.ZooError, match="SHA-256"):
        zoo.path("swift_f0")


def test_the_packaged_digit_classifier_is_right_on_its_samples() -> None:
    data = Path(__file__).resolve().parents[2] / "src" / "MNN" / "assets"
    run = onnxruntime_runner(data / "digits.onnx")
    with np.load(data / "digits_samples.npz") as samples:
        images, labels = samples["images"], samples["labels"]
    found = run({"image": images[:, None].astype(np.float32) / 16})["probability"]
    assert np.bincount(labels).tolist() == [4] * 10
    assert np.argmax(found, 1).tolist() == labels.tolist()
