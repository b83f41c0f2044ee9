"""Pictures as inputs of models against plain Python, pixel by pixel: every format, filter, wrap; checked builds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from MNN.backends.cpu.image.preprocess import LUMINANCE, NOTHING, OPAQUE, Chroma, PreprocessSpec, Wrap
from MNN.backends.cpu.image.sample import Interpolation
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call

ROWS, COLUMNS, WIDTH, HEIGHT, GAP = 6, 22, 37, 5, 3
MATRIX = np.array([[0.61, 0.17, -1.3], [-0.06, 1.3, 0.4]])
MEANS, NORMALS = np.float32([3, 5, 7, 11]), np.float32([0.5, 0.25, 2, 1])
ORDERS = {1: ((0,), (0, 0, 0, OPAQUE)), 3: ((2, 1, 0), (LUMINANCE,)), 4: ((0, 1, 2), (2, 1, 0, 3), (LUMINANCE, -2))}
CASES = [
    (pixel, Chroma.NONE, how, wrap, ORDERS[pixel][(i + j) % len(ORDERS[pixel])], (DType.U8, DType.F32)[i % 2], j % 2)
    for i, how in enumerate(Interpolation)
    for j, wrap in enumerate(Wrap)
    for pixel in ((1, 3, 4)[(i + j) % 3],)
] + [
    (1, chroma, Interpolation.NEAREST, wrap, order, dtype, 0)
    for chroma, wrap, order, dtype in zip(
        (*list(Chroma)[1:], Chroma.UV), (*Wrap, Wrap.EDGE), ((2, 1, 0), (0, 1, 2, OPAQUE), (0, 1, 2), (LUMINANCE,)),
        (DType.U8, DType.F32, DType.F32, DType.U8), strict=True,
    )
]  # fmt: skip
BUILDS = [(target, False) for target in TARGETS] + [(TARGETS[-1], True)]


def _weight(x: float, how: Interpolation) -> float:
    x = abs(x)
    if how is Interpolation.LINEAR:
        return max(1 - x, 0.0)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def _sampled(plane: Any, u: float, v: float, how: Interpolation) -> Any:
    if how is Interpolation.NEAREST:
        return plane[math.floor(v + 0.5), math.floor(u + 0.5)].astype(np.float64)
    total = np.zeros(plane.shape[2])
    for y in range(math.floor(v) - 1, math.floor(v) + 3):
        for x in range(math.floor(u) - 1, math.floor(u) + 3):
            pixel = plane[min(max(y, 0), ROWS - 1), min(max(x, 0), COLUMNS - 1)].astype(np.float64)
            total += _weight(u - x, how) * _weight(v - y, how) * pixel
    return np.clip(np.rint(total), 0, 255)


def _pixel(planes: list[Any], x: int, y: int, spec: PreprocessSpec, number: int) -> list[float]:
    """The channels of a pixel of the result, before they are scaled."""
    u, v = (float(np.float32(m[0] * x + m[1] * y + m[2])) for m in MATRIX)
    outside = spec.wrap is Wrap.NUMBER and not (0 <= u <= COLUMNS - 1 and 0 <= v <= ROWS - 1)
    if spec.wrap is Wrap.REPEAT:
        u, v = u % COLUMNS, v % ROWS
    u, v = min(max(u, 0), COLUMNS - 1), min(max(v, 0), ROWS - 1)
    if spec.chroma is Chroma.NONE:
        found = _sampled(planes[0], u, v, spec.how)
        levels = [number] * spec.pixel if outside else [int(n) for n in found]
        red, green, blue = (levels[i % spec.pixel] for i in spec.rgb)
        luminance = (19 * red + 38 * green + 7 * blue) >> 6
    else:
        row, column = math.floor(v + 0.5), math.floor(u + 0.5)
        luminance = number if outside else int(planes[0][row, column, 0])
        of_u, of_v = (0 if outside else int(p[row // 2, column // 2]) - 128 for p in planes[1:])
        mixed = (73 * of_v, -25 * of_u - 37 * of_v, 130 * of_u)
        levels = [min(max(((luminance << 6) + m) >> 6, 0), 255) for m in mixed]
    return [{OPAQUE: 255, NOTHING: 0, LUMINANCE: luminance}[c] if c < 0 else levels[c] for c in spec.order]


@pytest.mark.parametrize(("target", "checked"), BUILDS, ids=[f"{t.name}{' checked' if c else ''}" for t, c in BUILDS])
@pytest.mark.parametrize(("pixel", "chroma", "how", "wrap", "order", "dtype", "planar"), CASES)
def test_preprocess(
    pixel: int, chroma: Chroma, how: Interpolation, wrap: Wrap, order: tuple[int, ...], dtype: DType, planar: int,
    target: Target, checked: bool,
) -> None:  # fmt: skip
    spec = PreprocessSpec(pixel, chroma, how, wrap, order, (2, 1, 0) if pixel == 3 else (0, 1, 2), dtype, bool(planar))
    random = np.random.default_rng(pixel)
    step = COLUMNS * pixel + GAP
    source = random.integers(0, 256, step * (ROWS - 1) + COLUMNS * pixel).astype(np.uint8)
    wide = np.append(source, np.zeros(GAP, np.uint8)).reshape(ROWS, step)
    u, v = random.integers(0, 256, (2, (ROWS + 1) // 2, (COLUMNS + 1) // 2)).astype(np.uint8)
    parts = {Chroma.UV: [np.stack([u, v], 2)], Chroma.VU: [np.stack([v, u], 2)], Chroma.PLANES: [u.copy(), v.copy()]}
    colours = parts.get(chroma, [source])
    planes = [wide[:, : COLUMNS * pixel].reshape(ROWS, COLUMNS, pixel), u, v]
    channels, number = len(order), 77
    out = np.full((channels, HEIGHT, WIDTH) if planar else (HEIGHT, WIDTH, channels), 9, dtype.numpy)
    slots = {
        "src": source.ctypes.data, "src_row": step, "src_width": COLUMNS, "src_height": ROWS, "last": source.size - 4,
        "chroma": colours[0].ctypes.data, "chroma_v": colours[-1].ctypes.data,
        "chroma_row": 0 if chroma is Chroma.NONE else colours[0].strides[0], "out": out.ctypes.data,
        "out_row": WIDTH if planar else WIDTH * channels, "out_channel": HEIGHT * WIDTH, "width": WIDTH,
        "height": HEIGHT, "band": 2, "number": number, "mean": MEANS.ctypes.data, "normal": NORMALS.ctypes.data,
        **{f"m{i}": int(n) for i, n in enumerate(MATRIX.ravel().view(np.int64).tolist())},
    }  # fmt: skip
    call(spec, target, slots, 3, [source, *colours, out, MEANS, NORMALS], checked)
    want = np.array([[_pixel(planes, x, y, spec, number) for x in range(WIDTH)] for y in range(HEIGHT)], np.float64)
    level = 0 if how is Interpolation.NEAREST else 1
    found = np.moveaxis(out, 0, 2) if planar else out
    if dtype is DType.F32:
        kept = np.array([c != NOTHING for c in order])
        want = np.where(kept, (want - MEANS[:channels]) * NORMALS[:channels], 0)
        level = level * NORMALS[:channels]
    assert (np.abs(found - want) <= level + 1e-6).all()
    assert (found != want).mean() < 0.01  # sums that end between two levels
