"""Files that fuzzing found to end badly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.attempt import attempt

FINDS = sorted((Path(__file__).parent / "finds").glob("*.*"))


def test_there_are_some() -> None:
    assert FINDS


@pytest.mark.parametrize("way", ["meaning", "kernels", "checked", "convert"])
@pytest.mark.parametrize("path", FINDS, ids=lambda p: p.name)
def test_ends_well_now(path: Path, way: str) -> None:
    attempt(path.read_bytes(), path.suffix[1:], way)
