"""Sampling between pixels against plain Python, pixel by pixel: all borders, interpolations, places; checked builds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from MNN.backends.cpu.image.places import Places
from MNN.backends.cpu.image.sample import Border, Interpolation, SampleSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call

_TYPES = (DType.U8, DType.F32, DType.I16, DType.U8)
CASES = [
    (where, how, border, channels, _TYPES[(i + j + k + channels) % 4])
    for i, where in enumerate(Places)
    for j, how in enumerate(Interpolation)
    for k, border in enumerate(Border)
    for channels in (1 + (i + 2 * j + k) % 4,)
]


def _weight(x: float, how: Interpolation) -> float:
    x = abs(x)
    if how is Interpolation.LINEAR:
        return max(1 - x, 0.0)
    if x <= 1:
        return 1.25 * x**3 - 2.25 * x**2 + 1
    return -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3 if x < 2 else 0.0


def _folded(p: int, n: int, border: Border) -> int | None:
    if border is Border.CONSTANT:
        return p if 0 <= p < n else None
    while not 0 <= p < n:
        first, last = (-1, 2 * n - 1) if border is Border.REFLECT else (0, 2 * n - 2)
        p = first - p if p < 0 else last - p
        if n == 1:
            p = 0
    return p


def _sampled(source: Any, u: float, v: float, how: Interpolation, border: Border, fill: Any) -> Any:
    rows, columns = source.shape[:2]
    reach = {Interpolation.LINEAR: (0, 2), Interpolation.CUBIC: (-1, 3)}.get(how)
    if reach is None:
        taps = [(round(v), round(u), 1.0)]
    else:
        ys, xs = ([math.floor(p) + i for i in range(*reach)] for p in (v, u))
        taps = [(y, x, _weight(y - v, how) * _weight(x - u, how)) for y in ys for x in xs]
    total = np.zeros(source.shape[2])
    for y, x, weight in taps:
        row, column = _folded(y, rows, border), _folded(x, columns, border)
        total += weight * (fill if row is None or column is None else source[row, column]).astype(np.float64)
    return total


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("where", "how", "border", "channels", "dtype"), CASES)
def test_sample(
    where: Places, how: Interpolation, border: Border, channels: int, dtype: DType, target: Target, checked: bool
) -> None:
    spec = SampleSpec(dtype, channels, where, how, border)
    random = np.random.default_rng(channels)
    rows, columns, width, height = 7, 41, 37, 5
    source = (random.random((rows, columns, channels)) * 255).astype(dtype.numpy)
    fill = (random.random(channels) * 255).astype(dtype.numpy)
    matrix = np.array([[0.9, 0.3, -1.3], [0.05, 1.1, -2.1], [1e-3, -2e-2, 1]])
    ys, xs = np.mgrid[0:height, 0:width].astype(np.float64)
    if where is Places.MAPS:
        u, v = ((random.random((height, width)) * n * 3 - n).astype(np.float32) for n in (columns, rows))
        u[:3], v[:3] = xs[:3] + np.float32(0.25), ys[:3] + np.float32(1.75)  # a part lies inside
        maps = {"map_x": u, "map_y": v}
        places = {name: m.ctypes.data for name, m in maps.items()}
    else:
        maps = {}
        count = 6 if where is Places.AFFINE else 9
        places = {f"m{i}": int(n) for i, n in enumerate(matrix.ravel()[:count].view(np.int64).tolist())}
        u, v, w = (row[0] * xs + row[1] * ys + row[2] for row in matrix)
        u, v = (u / w, v / w) if where is Places.PERSPECTIVE else (u, v)
    want = np.array([[_sampled(source, float(u[y, x]), float(v[y, x]), how, border, fill) for x in range(width)]
                     for y in range(height)])  # fmt: skip
    out = np.full((height, width * channels + 3), 7, dtype.numpy)
    arrays = {"src": source, "fill": fill, "out": out}
    slots = {
        "src_row": columns * channels, "src_width": columns, "src_height": rows, "out_row": width * channels + 3,
        "width": width, "height": height, "band": 2, **{name: a.ctypes.data for name, a in arrays.items()}, **places,
        **spec.places(target, width),
    }  # fmt: skip
    call(spec, target, slots, 3, [*arrays.values(), *maps.values()], checked)
    found = out[:, : width * channels].reshape(want.shape)
    if dtype is not DType.F32:
        info = np.iinfo(dtype.numpy)
        want = np.clip(np.rint(want), info.min, info.max)
    tolerance = 2e-2 if dtype is DType.F32 else 0 if how is Interpolation.NEAREST else 1
    assert np.abs(found - want).max() <= tolerance
    assert (out[:, width * channels :] == 7).all()
