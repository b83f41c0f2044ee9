"""These tests look at arrays; what Vars add is tested with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from MNN.cv import _array
from MNN.cv.kernels.run import Settings
from MNN.expr.build import picture

SMALL = 1 << 12
"""Numbers of pictures up to which these tests are of the code in numpy: kernels are compared with it, and it with
OpenCV."""


@pytest.fixture(autouse=True)
def arrays() -> Iterator[None]:
    _array.set_wrapper(lambda array: array)
    usual, Settings.least = Settings.least, SMALL
    yield
    _array.set_wrapper(picture)
    Settings.least = usual
