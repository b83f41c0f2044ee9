"""Resizing against sums in numpy: every number of channels and taps, types, places near and far, checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.resize import HalveSpec, PickSpec, ResizeSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call

U8, I16, F32 = DType.U8, DType.I16, DType.F32
SPECS = [
    ResizeSpec(U8, U8, 1, 2),
    ResizeSpec(U8, F32, 1, 4, 1),
    ResizeSpec(F32, F32, 1, 2, 3),
    ResizeSpec(I16, I16, 1, 0, 2),
    ResizeSpec(I16, U8, 2, 0),
    ResizeSpec(U8, U8, 3, 2),
    ResizeSpec(F32, F32, 3, 0),
    ResizeSpec(U8, U8, 4, 4),
]
SIZES = [(1, 1, 1, 1), (3, 70, 7, 45), (9, 40, 4, 131)]
"""Heights and widths of source and result."""


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.key())
def test_resize(spec: ResizeSpec, target: Target, checked: bool) -> None:
    for number, (rows, columns, height, width) in enumerate(SIZES):
        random = np.random.default_rng(number)
        channels, x_taps, y_taps = spec.channels, spec.taps or 3, int(random.integers(1, 4))
        source = (random.random((rows, columns, channels)) * 255).astype(spec.source.numpy)
        y_places = random.integers(0, rows, (height, y_taps)).astype(np.int32)
        before, behind = 2, x_taps
        places = random.integers(0, columns + before + 1, width)
        if spec.vectors:  # near each other, vector by vector
            lanes = target.lanes(F32)
            low = np.repeat(np.minimum(places[::lanes], columns), lanes)[:width]
            near = low + random.integers(0, spec.vectors * lanes, width)
            near[::lanes] = low[::lanes]
            places = np.where(near < columns + before + 1, near, low)
        y_weights = random.random((height, y_taps)).astype(np.float32)
        x_weights = random.random((x_taps, width)).astype(np.float32)
        down = np.einsum("yixc,yi->yxc", source.astype(np.float64)[y_places], y_weights)
        wide = np.pad(down, [(0, 0), (before, behind), (0, 0)], "edge")
        want = sum(wide[:, places + j] * x_weights[j][:, None] for j in range(x_taps))
        if spec.result is not F32:
            info = np.iinfo(spec.result.numpy)
            want = np.clip(np.rint(want), info.min, info.max)
        out = np.full((height, width * channels + 5), 7, spec.result.numpy)
        tables = {
            "src": source, "out": out, "y_places": y_places, "y_weights": y_weights, "x_weights": x_weights,
            "x_places": (places * channels).astype(np.int32),
        }  # fmt: skip
        slots = {
            "src_row": columns * channels, "src_width": columns, "out_row": width * channels + 5, "width": width,
            "height": height, "band": 3, "y_taps": y_taps, "x_taps": x_taps, "before": before, "behind": behind,
            **{name: table.ctypes.data for name, table in tables.items()},
            **spec.places(target, columns, width, before + behind),
        }  # fmt: skip
        call(spec, target, slots, -(-height // 3), list(tables.values()), checked)
        found = out[:, : width * channels].reshape(want.shape)
        apart = np.abs(found - want)
        if spec.result is F32:
            assert apart.max() <= 1e-5 * max(want.max(), 1)
        else:  # a sum in f32 may lie on the other side of a half
            assert apart.max() <= 1
            assert (apart > 0).mean() <= 0.01
        assert (out[:, width * channels :] == 7).all()


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12, 15, 16, 20])
def test_pick(size: int, target: Target, checked: bool) -> None:
    random = np.random.default_rng(size)
    source = random.integers(0, 256, (5, 9, size)).astype(np.uint8)
    y, x = random.integers(0, 5, 7).astype(np.int32), random.integers(0, 9, 30).astype(np.int32)
    out = np.zeros((7, 30, size), np.uint8)
    places = x * size
    slots = {
        "src": source.ctypes.data, "src_row": 9 * size, "out": out.ctypes.data, "out_row": 30 * size, "width": 30,
        "height": 7, "band": 2, "y_places": y.ctypes.data, "x_places": places.ctypes.data,
    }  # fmt: skip
    call(PickSpec(size), target, slots, 4, [source, out, y, places], checked)
    np.testing.assert_array_equal(out, source[y][:, x])


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [U8, DType.U16, I16, F32], ids=lambda t: t.name)
def test_halve(dtype: DType, channels: int, checked: bool) -> None:
    """The mean of four pixels; halves of whole numbers go up or to the even number, those below 0, too."""
    target = TARGETS[channels % len(TARGETS)]
    for (height, width), up in zip(((1, 1), (4, 16), (5, 37), (5, 37)), (True, False, True, False), strict=True):
        random = np.random.default_rng(width)
        info = np.iinfo(dtype.numpy) if dtype is not F32 else np.finfo(np.float16)
        source = random.uniform(info.min, info.max, (2 * height, 2 * width, channels)).astype(dtype.numpy)
        total = sum(source[i::2, j::2].astype(np.float64) for i in (0, 1) for j in (0, 1))
        want = total / 4 if dtype is F32 else np.floor((total + 2) / 4) if up else np.rint(total / 4)
        out = np.full((height, width * channels + 3), 7, dtype.numpy)
        slots = {
            "src": source.ctypes.data, "src_row": 2 * width * channels, "out": out.ctypes.data,
            "out_row": width * channels + 3, "width": width, "height": height, "band": 2,
        }  # fmt: skip
        call(HalveSpec(dtype, channels, up), target, slots, -(-height // 2), [source, out], checked)
        found = out[:, : width * channels].reshape(want.shape)
        np.testing.assert_allclose(found, want, rtol=0, atol=0.05 if dtype is F32 else 0)
        assert (out[:, width * channels :] == 7).all()
