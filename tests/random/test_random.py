"""Random single operators against ONNX Runtime and numpy: the meaning, kernels of all precisions, and .mnn files.

``MNN_RANDOM_CASES`` sets how many are drawn of window operators, and as many of the others (default 500);
``MNN_RANDOM_SEED`` is where seeds begin (default 0). A failure names the command that repeats it.
"""

from __future__ import annotations

import os

import pytest

from tests.random import second_opinion
from tests.random.families import WINDOWS
from tests.random.runner import Tally, check, family_names

CASES, FIRST = int(os.environ.get("MNN_RANDOM_CASES", "500")), int(os.environ.get("MNN_RANDOM_SEED", "0"))
CHUNK = 25


def _chunks() -> list[tuple[str, int, int]]:
    """Family, first seed and count; small pieces, so that several processes share them."""
    found = []
    for group in (sorted(WINDOWS), [name for name in family_names() if name not in WINDOWS]):
        for i, family in enumerate(group):
            count = CASES // len(group) + (i < CASES % len(group))
            found += [(family, at, min(CHUNK, count - at)) for at in range(0, count, CHUNK)]
    return found


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize(("family", "first", "count"), _chunks())
def test_random_operators(family: str, first: int, count: int) -> None:
    tally = Tally()
    for seed in range(FIRST + first, FIRST + first + count):
        tally.add(check(family, seed))
    assert not tally.failures, "\n".join(tally.failures)
    # nothing is left out in silence: every case has a judge, and every way ran
    assert tally.cases == count
    assert {tally.compared[way] for way in ("reference", "high", "file", "normal")} == {count}
    assert sum(tally.excuses.values()) + tally.asked.get("onnxruntime", 0) == count


def test_window_families_exist() -> None:
    assert set(WINDOWS) <= set(family_names())


def test_torch_agrees_with_the_oracles_of_windows() -> None:
    counts, problems = second_opinion.compare(160, FIRST)
    assert not problems, "\n".join(problems)
    assert counts["Conv"] == counts["ConvTranspose"] == 40
    assert min(counts["MaxPool"], counts["AveragePool"]) >= 8
