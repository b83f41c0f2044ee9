"""These tests look at arrays; what Vars add is tested with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from MNN.cv import _array
from MNN.expr.build import picture


@pytest.fixture(autouse=True)
def arrays() -> Iterator[None]:
    _array.set_wrapper(lambda array: array)
    yield
    _array.set_wrapper(picture)
