from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def whole_batches() -> None:
    """Batches may be cut into slices here: what runs them is tested."""
