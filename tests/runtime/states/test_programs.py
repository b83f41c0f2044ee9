"""Random programs on the states of random models, a few of the many that ``tests.runtime.states.programs`` runs."""

from __future__ import annotations

import pytest

from tests.runtime.states.kinds import KINDS
from tests.runtime.states.programs import check


@pytest.mark.parametrize("seed", range(len(KINDS)), ids=lambda seed: KINDS[seed].__name__)
def test_random_programs(seed: int) -> None:
    assert not check(seed)
