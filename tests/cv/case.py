"""One call of ``MNN.cv`` and the same call of OpenCV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    name: str
    ours: Callable[[Any], Any]
    """From the module MNN.cv to the result."""
    theirs: Callable[[Any], Any]
    most: float
    """Largest allowed difference; for 8-bit pictures in levels."""
    few: float = 0.0
    """Share of the values that may differ by more (rounding of positions at exact ties)."""


def border(cv: Any, number: int) -> int:
    """OpenCV's number of one of our borders."""
    return int((cv.BORDER_CONSTANT, cv.BORDER_REFLECT_101, cv.BORDER_REFLECT)[number])
