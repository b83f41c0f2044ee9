"""Kernels that draw, in checked builds: every pixel that they write is in the picture, wherever shapes are."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.pixels import repeated
from MNN.backends.cpu.image.polygons import EDGE, PolygonSpec
from MNN.backends.cpu.image.strokes import INLINE, Stroke, StrokeSpec
from tests.backends.cpu.util import ENTRY_TYPE, TARGETS, address, ranges

SIZE = 3


def _call(function: ENTRY_TYPE, spec: KernelSpec, slots: dict[str, int], arrays: list[np.ndarray]) -> None:  # type: ignore[valid-type]
    table = np.array([0, len(arrays), *ranges(arrays)], np.int64)
    args = np.array([*(slots.get(name, 0) for name in spec.slots()), table.ctypes.data], np.int64)
    function(args.ctypes.data, 0, 1, None)
    assert table[0] == 0, f"access number {table[0]} is out of bounds"


def test_nothing_outside_is_touched() -> None:
    strokes, polygons = StrokeSpec(SIZE), PolygonSpec(SIZE)
    stroke, polygon = (ENTRY_TYPE(address(spec, TARGETS[-1], True)) for spec in (strokes, polygons))
    random = np.random.default_rng(0)
    ink = np.tile(np.array([7, 8, 9], np.uint8), repeated(SIZE))
    for number in range(300):
        height, width = (int(n) for n in random.integers(1, 70, 2))
        image = np.zeros((height, width, SIZE), np.uint8)
        far = 10 ** int(random.integers(1, 8))
        counts = random.integers(1, 6, int(random.integers(1, 4)))
        points = random.integers(-far, max(far, 70), (int(counts.sum()), 2))
        fixed = points << 16 if number % 2 else (points << 16) + random.integers(0, 1 << 16, points.shape)
        canvas = {
            "img": image.ctypes.data, "row": width * SIZE, "width": width, "height": height, "ink": ink.ctypes.data,
            "kind": int(random.choice([4, 8])), "shapes": len(counts), "counts": counts.ctypes.data,
            "points": fixed.ctypes.data,
        }  # fmt: skip
        what = Stroke(number % 4)
        more = {"what": int(what), "thickness": int(random.integers(1, 20))}
        _call(stroke, strokes, canvas | more, [image, ink, counts])
        x, y = (int(n) for n in points[0])
        circle = {"points": 0, "count": 2, "x0": x, "y0": y, "x1": int(random.integers(0, 50)), "y1": 0}
        assert INLINE >= 2
        _call(stroke, strokes, canvas | more | circle | {"what": int(Stroke.CIRCLE) + number % 2}, [image, ink])
        edges = np.zeros(EDGE * (len(points) + 1), np.int64)
        live = np.zeros(2 * len(points), np.int64)
        memory = {"edges": edges.ctypes.data, "live": live.ctypes.data}
        _call(polygon, polygons, canvas | memory, [image, ink, counts, fixed, edges, live])
        drawn = image.any(-1)
        np.testing.assert_array_equal(image[drawn], np.broadcast_to(ink[:SIZE], (int(drawn.sum()), SIZE)))
