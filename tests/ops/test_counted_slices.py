"""Slices counted in plain arithmetic are Python's."""

from __future__ import annotations

import itertools

from MNN.ir.shape import counted

BOUNDS = (None, *range(-8, 9))


def test_slices_are_pythons() -> None:
    for size, start, stop, step in itertools.product(range(7), BOUNDS, BOUNDS, (None, 1, 2, 3, -1, -2, -3)):
        found, own_step, count = counted(slice(start, stop, step), size)
        begin, end, by = slice(start, stop, step).indices(size)
        wanted = range(begin, end, by)
        assert (own_step, count) == (by, len(wanted))
        assert not wanted or found == wanted[0]
