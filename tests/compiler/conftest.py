"""What tests of the compiler share."""

from __future__ import annotations

import pytest

from MNN.backends.cpu import compile as compiler


@pytest.fixture(autouse=True)
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are computed as a whole, also by tests whose caches are small; slices have tests of their own."""
    monkeypatch.setattr(compiler, "sliced", lambda *args: None)
