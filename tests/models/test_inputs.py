"""Every architecture and real model on many seeded inputs, at every precision, against ONNX Runtime; none may become
NaN, and nothing may depend on what memory held before. Precisions that come to the same program are tried as one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import MNN
from benchmarks.architectures.catalog import ARCHITECTURES
from MNN.backends.cpu.targets import host_target
from tests import zoo
from tests.models.answers import SINGLE
from tests.models.clips import clip, is_video, with_clip
from tests.models.runners import onnxruntime_runner
from tests.models.task import Task, largest_error
from tests.programs import Tried

BOUNDS = {"high": 1e-4, "normal": 5e-4, "low": 3e-1}
"""Of the largest output: of random weights, which amplify errors more than trained ones do."""
TRAINED = {"high": 1e-4, "normal": 1e-3, "low": 5e-1}
"""The same for trained models, most of which end in probabilities: of noise, the largest may be 0.001."""
LOOSE: dict[str, dict[str, float]] = {"magika": {"low": 1.01}}
"""What kind of file random bytes are is a guess, of which rounding to 16 bits may make another."""
CONTROL = 4
"""Errors may be so many times as large as what ONNX Runtime's optimiser changes: a largest probability of 4e-7 is no
more exact than 5e-2 of itself."""
INPUTS = 20
SIZES = {"batch": 1, "sequence": 128}
Feeds = dict[str, npt.NDArray[np.generic]]

pytestmark = [pytest.mark.real, pytest.mark.slow]


def drawn(base: Mapping[str, npt.NDArray[np.generic]]) -> Iterator[Feeds]:
    """Numbers from N(0,1) and from [0, 1) in turns; whole numbers within those of ``base``."""
    for seed in range(INPUTS):
        rng, found = np.random.default_rng(seed), {}
        for name, value in base.items():
            if value.dtype.kind == "f":
                numbers = rng.uniform(size=value.shape) if seed % 2 else rng.standard_normal(value.shape)
            else:
                numbers = rng.integers(int(value.min()), int(value.max()), value.shape, endpoint=True)
            found[name] = np.asarray(numbers).astype(value.dtype)
        yield found


def compare(
    path: Path, inputs: list[Feeds], bounds: Mapping[str, float], monkeypatch: pytest.MonkeyPatch, certain: int = 0
) -> None:
    """``certain``: so many of the last inputs keep the strictest bound, whatever ONNX Runtime's optimiser changes."""
    reference, plain = onnxruntime_runner(path), functools.cache(lambda: onnxruntime_runner(path, optimise=False))
    expected = [reference(feeds) for feeds in inputs]
    several = len({tuple([a.shape for a in feeds.values()]) for feeds in inputs}) > 1

    def control(seed: int) -> float:  # only where it decides: without its optimiser, ONNX Runtime is slow
        return CONTROL * largest_error(plain()(inputs[seed]), expected[seed])

    tried = Tried()
    for precision, bound in bounds.items():
        monkeypatch.delenv("MNN_POISON", raising=False)
        session = MNN.load(path, precision=precision, threads=2)
        if tried.before(session, inputs, bound):
            continue
        found = [session.run(feeds) for feeds in inputs]
        for seed, (given, want) in enumerate(zip(found, expected, strict=True)):
            error = largest_error(given, want)
            strict = precision == "high" and seed >= len(inputs) - certain
            assert error < bound or (not strict and error < control(seed)), (
                f"{precision}, input {seed}: largest error {error:.1e} of the largest output"
            )
        monkeypatch.setenv("MNN_POISON", "1")
        poisoned = MNN.load(path, precision=precision, threads=2)
        for given, feeds in zip(found[:2], inputs, strict=False):
            for name, numbers in poisoned.run(feeds).items():
                # Where sizes change, a plan for a range that is stored by now may be found instead of one for a size.
                same = several and largest_error({name: numbers}, {name: given[name]}) < bound
                same = same or numbers.tobytes() == given[name].tobytes()
                assert same, f"{precision}: '{name}' came of unwritten memory"


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_architecture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_video(name):
        compare(with_clip(zoo.architecture(name), tmp_path), list(drawn(clip(7))), BOUNDS, monkeypatch)
    else:
        base, other = (ARCHITECTURES[name].feeds(seed, **SIZES) for seed in (7, 8))
        compare(zoo.architecture(name), [*drawn(base), other], BOUNDS, monkeypatch, certain=1)


@pytest.mark.parametrize("name", ["mobilenet_v3_large", "resnet18", "vit_tiny", "distilbert"])
@pytest.mark.parametrize("target", ["avx2", "without_tiles"])
def test_architecture_on_weaker_processors(
    name: str, target: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = host_target()
    request.getfixturevalue(target) if target == "without_tiles" else monkeypatch.setenv("MNN_TARGET", target)
    if host_target() == own:
        pytest.skip("this is how test_architecture has them computed here, from these inputs and more")
    inputs = list(drawn(ARCHITECTURES[name].feeds(7, **SIZES)))[:4]
    compare(zoo.architecture(name), inputs, BOUNDS, monkeypatch)


@pytest.mark.parametrize("task", SINGLE, ids=lambda t: t.name)
def test_real_model(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    real = task.feeds()
    compare(zoo.path(task.models[0]), [*real, *drawn(real[0])], TRAINED | LOOSE.get(task.name, {}), monkeypatch)
