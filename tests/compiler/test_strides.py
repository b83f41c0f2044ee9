"""Strides: rows apart by what caches like."""

from __future__ import annotations

import pytest

from MNN.compiler import strides as st


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_rows_of_an_odd_number_of_lines(size: int) -> None:
    for elements in range(1, 600):
        more = st.to_odd_lines(elements, size)
        assert (elements + more) * size % 128 == 64
        assert 0 <= more * size < 128
