"""Frames around pictures against numpy, sizes of pixels, widths around those of vectors, and checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.frame import FrameSpec
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import TARGETS, call


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("size", [1, 3, 4, 12, 16])
def test_frame(size: int, target: Target, checked: bool) -> None:
    for number, width in enumerate((1, 21, 64, 131)):
        random = np.random.default_rng(number)
        height, left, right = int(random.integers(1, 6)), *(int(n) for n in random.integers(0, width + 5, 2))
        source = random.integers(0, 256, (height, width, size)).astype(np.uint8)
        blank = np.tile(random.integers(0, 256, size).astype(np.uint8), (width, 1))
        y = random.integers(-1, height, 7).astype(np.int32)
        x = random.integers(0, width, left + right + 1).astype(np.int32)
        foreign = int(random.integers(2))
        rows = np.where((y < 0)[:, None, None], blank, source[y])
        sides = np.broadcast_to(blank, rows.shape) if foreign else rows
        want = np.concatenate([sides[:, x[:left]], rows, sides[:, x[left : left + right]]], 1)
        out, places = np.zeros(want.shape, np.uint8), x * size
        slots = {
            "src": source.ctypes.data, "src_row": width * size, "blank": blank.ctypes.data, "foreign": foreign,
            "out": out.ctypes.data, "left": left, "right": right, "height": 7, "band": 2,
            "y_places": y.ctypes.data, "x_places": places.ctypes.data,
        }  # fmt: skip
        call(FrameSpec(size), target, slots, 4, [source, blank, out, y, places], checked)
        np.testing.assert_array_equal(out, want)
