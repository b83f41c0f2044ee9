"""All pairs of values meet, in few rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.pairs import meeting


@pytest.mark.parametrize("seed", range(20))
def test_every_two_values_meet_in_some_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [int(n) for n in rng.integers(1, 7, rng.integers(2, 6))]
    rows = meeting(counts)
    for i, j in combinations(range(len(counts)), 2):
        assert {(row[i], row[j]) for row in rows} == {(a, b) for a in range(counts[i]) for b in range(counts[j])}
    widest = sorted(counts)[-2:]
    assert widest[0] * widest[1] <= len(rows) <= 2 * widest[0] * widest[1]
    assert len(set(rows)) == len(rows)
