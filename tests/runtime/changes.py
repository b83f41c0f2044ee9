"""One session through changing sizes, beside fresh ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Feeds = Mapping[str, np.ndarray]


def changed(fresh: Callable[[], Any], feeds: Mapping[int, Feeds], order: Sequence[int], tolerance: float) -> int:
    """Runs one session through sizes in this order and compares with fresh ones; how many results were the same bit for
    bit. ``fresh`` makes a session; differences may be ``tolerance`` of the largest number."""
    session, same = fresh(), 0
    expected = {size: fresh().run(given) for size, given in feeds.items()}
    for size in order:
        found = session.run(feeds[size])
        assert found.keys() == expected[size].keys()
        for name, numbers in expected[size].items():
            assert found[name].shape == numbers.shape
            largest = float(np.abs(numbers).max(initial=0)) or 1.0
            assert float(np.abs(found[name] - numbers).max(initial=0)) <= tolerance * largest, (size, name)
            same += found[name].tobytes() == numbers.tobytes()
    return same
