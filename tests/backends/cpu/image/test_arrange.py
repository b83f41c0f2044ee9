"""Pixels that are moved against views in numpy: sizes of pixels, tails of rows, blocks, directions; checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.arrange import MirrorSpec, PlanesSpec, TurnSpec
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import TARGETS, call

CHECKED = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
SIZES = ((1, 1), (5, 16), (70, 37))


def _pixels(height: int, width: int, size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 256, (height, width, size)).astype(np.uint8)


@CHECKED
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("size", [1, 3, 6, 12])
def test_mirror_and_turn(size: int, target: Target, checked: bool) -> None:
    for height, width in SIZES:
        source, row = _pixels(height, width, size), width * size
        slots = {"width": width, "height": height, "band": 16}
        for back in (False, True):
            out = np.full((height * width + 1, size), 7, np.uint8)
            start = source.ctypes.data + (height - 1) * row * back
            given = {**slots, "src": start, "src_row": -row if back else row, "out": out.ctypes.data}
            call(MirrorSpec(size), target, given, -(-height // 16), [source, out], checked)
            want = source[::-1, ::-1] if back else source[:, ::-1]
            np.testing.assert_array_equal(out[:-1].reshape(want.shape), want)
            assert (out[-1] == 7).all()
            out[:] = 7
            given |= {"out_row": height * size}
            call(TurnSpec(size), target, given, -(-width // 16), [source, out], checked)
            want = np.rot90(source, 3) if back else source.swapaxes(0, 1)
            np.testing.assert_array_equal(out[:-1].reshape(want.shape), want)
            assert (out[-1] == 7).all()


@CHECKED
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("size", "planes"), [(1, 3), (2, 2), (4, 4), (8, 3)])
def test_planes(size: int, planes: int, target: Target, checked: bool) -> None:
    for count in (1, 16, 77):
        pixels = _pixels(count, planes, size)
        parts = [np.full((count + 1, size), 7, np.uint8) for _ in range(planes)]
        again = np.full((count * planes + 1, size), 7, np.uint8)
        for split, whole in ((True, pixels), (False, again)):
            slots = {"pixels": whole.ctypes.data, "count": count, "band": 33}
            slots |= {f"p{i}": part.ctypes.data for i, part in enumerate(parts)}
            call(PlanesSpec(size, planes, split), target, slots, -(-count // 33), [whole, *parts], checked)
        for c, part in enumerate(parts):
            np.testing.assert_array_equal(part[:-1], pixels[:, c])
            assert (part[-1] == 7).all()
        np.testing.assert_array_equal(again[:-1].reshape(pixels.shape), pixels)
        assert (again[-1] == 7).all()
