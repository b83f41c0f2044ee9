"""Networks of drawn blocks over open sizes, memory being poisoned; :mod:`tests.runtime.open_networks` tries more."""

from __future__ import annotations

import pytest

from MNN.backends.base import poison
from tests.runtime import open_networks

PRECISIONS = list(open_networks.TOLERANCE)
pytestmark = pytest.mark.onnxruntime("1.32")  # before, pads that wrap around more than once were of other memory


@pytest.mark.parametrize("seed", range(9))
def test_answers_of_random_networks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(poison.VARIABLE, "1")
    found = open_networks.check(seed, PRECISIONS[seed % 3], 1 + seed % 2, 6)
    assert found.compared, found.reasons


@pytest.mark.parametrize("block", ["padded", "sampled", "largest", "pooled", "recurrent", "attention"])
def test_blocks_are_in_ranges(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(poison.VARIABLE, "1")
    tried = [open_networks.check(seed, "high", 1, 6, block) for seed in range(1, 5)]
    assert 3 * sum(t.ranged for t in tried) >= sum(t.compared for t in tried) > 6, [t.reasons for t in tried]


@pytest.mark.parametrize(("seed", "precision", "threads"), [(7, "normal", 1), (10, "high", 2), (23, "low", 2)])
def test_batches_sample_by_sample(seed: int, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of images have one range, whatever their number, where nothing else is open."""
    monkeypatch.setenv(poison.VARIABLE, "1")
    with open_networks.sample_by_sample():
        found = open_networks.check(seed, precision, threads, 5, batches=True)
    assert found.sliced > 2, found


def test_windows_that_fit_at_some_sizes_only() -> None:
    """SAME padding that is nothing at all sizes that are tried: lengths of all residues."""
    found = open_networks.check(1068, "high", 1, 9)
    assert found.compared == 9
    assert found.ranged > 2
    assert any("at the sizes tried, not at" in reason for reason in found.reasons)
