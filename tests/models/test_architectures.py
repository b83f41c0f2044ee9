"""The benchmark architectures, exported by torch, give the same numbers as ONNX Runtime at more than one input size."""

from __future__ import annotations

import pytest

import MNN
from benchmarks.architectures.catalog import ARCHITECTURES
from tests import zoo
from tests.models.clips import is_video
from tests.models.runners import REFERENCE, RUNNERS, onnxruntime_runner
from tests.models.task import largest_error

TOLERANCE = 5e-4  # of the largest output: what the default precision promises
EXACT = 1e-4
SIZES = ({"batch": 1, "sequence": 128}, {"batch": 2, "sequence": 37})

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("engine", sorted(set(RUNNERS) - {REFERENCE}))
@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_same_numbers_as_reference(name: str, engine: str) -> None:
    path = zoo.architecture(name)
    run, reference = RUNNERS[engine](path), onnxruntime_runner(path)
    for extents in SIZES:
        feeds = ARCHITECTURES[name].feeds(7, **extents)
        error = largest_error(run(feeds), reference(feeds))
        assert error < TOLERANCE, f"{extents}: largest error {error:.2e} of the largest output"


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if is_video(name)])
def test_high_is_as_exact(name: str) -> None:
    """With two threads, and on the processor's matrix unit where it multiplies fp16. Smaller clips, and all other
    architectures as they are, are in tests/models/test_inputs.py."""
    path = zoo.architecture(name)
    feeds = ARCHITECTURES[name].feeds(8, **SIZES[0])
    found = MNN.load(path, threads=2, precision="high").run(feeds)
    error = largest_error(found, onnxruntime_runner(path)(feeds))
    assert error < EXACT, f"largest error {error:.2e} of the largest output"
