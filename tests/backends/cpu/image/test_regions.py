"""Kernels of regions and their borders in checked builds: they stay within their memory, also where it is too small."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.borders import BORDER, BorderSpec
from MNN.backends.cpu.image.labels import SPARE, STATS, LabelSpec
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
