"""Kernels of regions, borders, points, histograms and masks in checked builds: they stay within their
memory, also where it is too small."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.borders import BORDER, BorderSpec
from MNN.backends.cpu.image.histogram import COPIES, NOWHERE, HistogramSpec, LevelSpec
from MNN.backends.cpu.image.labels import SPARE, STATS, LabelSpec
from MNN.backends.cpu.image.points import NUMBERS, Measure, PointsSpec
from MNN.backends.cpu.image.runs import BoundsSpec, MaskedSpec
from MNN.ir.dtype import DType
from tests.backends.cpu.util import ENTRY_TYPE, TARGETS, address, ranges


def _run(spec: KernelSpec, kernel: object, numbers: dict[str, int], memory: dict[str, np.ndarray]) -> None:
    table = np.array([0, len(memory), *ranges(list(memory.values()))], np.int64)
    slots = numbers | {name: array.ctypes.data for name, array in memory.items()}
    args = np.array([*(slots[name] for name in spec.slots()), table.ctypes.data], np.int64)
    kernel(args.ctypes.data, 0, 1, None)  # type: ignore[operator]
    assert table[0] == 0, f"access number {table[0]} is out of bounds"


def test_memory() -> None:
    labels, borders = LabelSpec(), BorderSpec()
    label, border = (ENTRY_TYPE(address(spec, TARGETS[-1], True)) for spec in (labels, borders))
    random = np.random.default_rng(3)
    for number in range(60):
        height, width = (int(n) for n in random.integers(1, [12, 140]))
        src = (random.random((height, width)) < random.choice([0.1, 0.5, 0.9, 1])).astype(np.uint8)
        size = {"row": width, "width": width, "height": height}
        most = height * ((width + 1) // 2)
        memory = {
            "src": src, "labels": np.zeros(src.size + SPARE, np.int32), "stats": np.zeros((most + 1, STATS), np.int32),
            "sums": np.zeros((most + 1, 2)), "count": np.zeros(1, np.int64),
            "changes": np.zeros(2 * most + 2, np.int32), "rows": np.zeros(height + 1, np.int64),
            "parents": np.zeros(most + 1, np.int32), "numbers": np.zeros(most + 1, np.int32),
        }  # fmt: skip
        _run(labels, label, size | {"eight": number % 2}, memory)
        assert memory["labels"].max() == memory["count"][0] - 1
        assert ((memory["labels"][: src.size].reshape(src.shape) > 0) == (src > 0)).all()
        counts = random.integers(1, 40, 2)  # rooms, and then what would have been needed
        for _ in range(2):
            rooms = tuple(int(n) for n in counts)
            found = {
                "src": src, "borders": np.zeros((rooms[0], BORDER), np.int32),
                "points": np.zeros((rooms[1], 2), np.int32), "counts": counts,
                "marks": np.zeros((height + 2) * (width + 2), np.int32), "changes": np.zeros(width + 2, np.int32),
            }  # fmt: skip
            more = {"corners": number // 2 % 2, "borders_room": rooms[0], "points_room": rooms[1]}
            _run(borders, border, size | more, found)
        assert (counts <= rooms).all()
        x, y = found["points"][: counts[1]].T
        assert src[y, x].all()


def test_points_and_bounds() -> None:
    points, bounds = PointsSpec(), BoundsSpec()
    point, bound = (ENTRY_TYPE(address(spec, TARGETS[-1], True)) for spec in (points, bounds))
    random = np.random.default_rng(4)
    for number in range(60):
        count = int(random.integers(1, 60))
        p = random.integers(-9, 9, (count, 2)) * 1.0
        order, done, chain = (np.zeros(count + 2, np.int32) for _ in range(3))
        memory = {"points": p, "result": np.zeros(NUMBERS), "order": order, "sorted": done, "chain": chain}
        for what in Measure:
            _run(points, point, {"count": count, "what": int(what), "clockwise": number % 2}, memory)
        src = (random.random(tuple(random.integers(1, 40, 2))) < 0.02).astype(np.uint8)
        size = {"row": src.shape[1], "width": src.shape[1], "height": src.shape[0]}
        _run(bounds, bound, size, {"src": src, "bounds": np.zeros(4, np.int64)})


def test_histograms() -> None:
    random = np.random.default_rng(5)
    for kind, masked in ((DType.U8, False), (DType.F32, True)):
        spec, level = HistogramSpec(2, kind, masked), LevelSpec(masked)
        kernels = [ENTRY_TYPE(address(s, TARGETS[-1], True)) for s in (spec, level)]
        for number in range(20):
            height, width = (int(n) for n in random.integers(1, 40, 2))
            img = (random.random((height, width)) * 300 - 20).astype(kind.numpy)
            mask = (random.random((height, width)) < 0.5).astype(np.uint8)
            size = {"width": width, "height": height, "mask_row": width, "mask": mask.ctypes.data}
            lines = {"row": img.strides[0], "step": img.itemsize}
            tables = [
                (np.where(np.arange(256) < 9 * (number + 1), stride, NOWHERE)).astype(np.int32) for stride in (0, 5)
            ]
            numbers = {"low": 0.0, "high": 256.0, "scale": 7 / 256, "shift": 0.0}
            own: dict[str, int] = {}
            for i, stride in enumerate((7, 1)):
                values = {"size": 7, "stride": stride, "img": img.ctypes.data, **lines, "table": tables[i].ctypes.data}
                values |= {name: int(np.float64(n).view(np.int64)) for name, n in numbers.items()}
                own |= {f"{name}{i}": n for name, n in values.items()}
            counts = np.zeros((COPIES, 50), np.int32)
            known = {name: n for name, n in (size | own).items() if name in spec.slots()} | {"bins": 49, "spread": 50}
            memory = {"counts": counts} if masked else {"counts": counts, "a": tables[0], "b": tables[1]}
            _run(spec, kernels[0], known, memory | {"i": img, "m": mask})
            assert counts.sum() == img.size
            if kind is DType.U8:
                levels = np.zeros((COPIES, 256), np.int32)
                _run(level, kernels[1], size | lines, {"img": img, "counts": levels, "m": mask})
                np.testing.assert_array_equal(levels.sum(0), np.bincount(img.ravel(), minlength=256))


def test_masked_copies() -> None:
    random = np.random.default_rng(6)
    for size in (1, 3, 12):
        spec = MaskedSpec(size)
        kernel = ENTRY_TYPE(address(spec, TARGETS[-1], True))
        for _ in range(20):
            height, width = (int(n) for n in random.integers(1, [9, 200]))
            mask = (random.random((height, width)) < random.choice([0.1, 0.9])).astype(np.uint8)
            src = random.integers(1, 256, (height, width, size)).astype(np.uint8)
            out, changes = np.zeros(src.shape, np.uint8), np.zeros(width + 2, np.int32)
            memory = {"src": src, "out": out, "mask": mask, "changes": changes}
            _run(spec, kernel, {"width": width, "height": height}, memory)
            np.testing.assert_array_equal(out, src * mask[..., None])
