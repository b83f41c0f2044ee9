"""Is one thing faster than another, or is it noise? Judged by how much the same measurement differs from itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
"""The same thing timed in several rounds."""
_QUARTER = 4
_FOURTH = 3


def spread(times: Times) -> float:
    """How far the least of these times may be off: what lies between it and the fastest quarter's slowest one, of few
    rounds the fourth. Infinite for a single round, which says nothing of its noise."""
    found = np.sort(np.atleast_1d(times))
    if len(found) < 2:
        return float("inf")
    place = min(max(len(found) // _QUARTER, _FOURTH), len(found) - 1)
    return float(found[place] - found[0])


def faster(new: Times, old: Times, worth: float = 1.0) -> bool:
    """Whether the least of ``new`` is below that of ``old``, by more than the spread of both, and at most ``worth``
    times as much."""
    least, before = float(np.min(new)), float(np.min(old))
    return least <= worth * before and before - least > max(spread(new), spread(old))


__all__ = ["Times", "faster", "spread"]
