"""Tiles belong to processors with vectors as wide as their rows."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def wide(wide_vectors: None) -> None:
    """Every test of this room has them."""
