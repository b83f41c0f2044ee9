"""What tests of the compiler share."""

from __future__ import annotations

import pytest

from MNN.compiler import compile as compiler
from MNN.compiler.emit import amx


@pytest.fixture(autouse=True)
def vectors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products on vectors also where the processor has tiles, so that every machine tests the same choices and errors.

    Tiles have tests of their own, which run on every machine too (``test_amx.py``).
    """
    monkeypatch.setattr(amx, "available", lambda target: False)


@pytest.fixture(autouse=True)
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are computed as a whole, also by tests whose caches are small; slices have tests of their own."""
    monkeypatch.setattr(compiler, "sliced", lambda *args: None)
