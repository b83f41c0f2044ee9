"""Frames filled with a number against numpy: borders on every side, bands, batches, element sizes."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.frame import FrameSpec
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import TARGETS, call, element_strides

CASES = [
    ((), (1, 5), (0, 0), (2, 1), 1),
    ((), (7, 200), (1, 2), (3, 70), 2),
    ((2,), (5, 66), (0, 1), (0, 0), 5),
    ((2, 3), (9, 300), (2, 3), (64, 64), 4),
    ((3,), (4, 33), (2, 2), (16, 17), 3),
    ((), (6, 40), (0, 0), (0, 9), 6),
]
"""Batches, rows and columns, first and last rows, first and last columns, rows of a block."""


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("dtype", "value"), [(np.uint8, 250), (np.int16, -3), (np.float32, -0.0), (np.float64, 1.5)])
def test_frame(dtype: type, value: float, target: Target, checked: bool) -> None:
    for batch, (rows, cols), (low, high), (left, right), band in CASES:
        memory = np.full((*batch, rows, cols + 5), 9, dtype)
        out = memory[..., 2 : 2 + cols]
        want = memory.copy()
        inner = want[..., 2 : 2 + cols]
        kept = inner[..., low : rows - high, left : cols - right].copy()
        inner[...] = value
        inner[..., low : rows - high, left : cols - right] = kept
        steps = element_strides(out)
        slots = {f"batch{d}": n for d, n in enumerate(batch)} | {f"out_s{d}": steps[d] for d in range(len(batch))}
        slots |= {"rows": rows, "cols": cols, "low": low, "high": high, "left": left, "right": right, "band": band}
        bits = int(np.array([value], dtype).view(f"i{out.itemsize}")[0])
        slots |= {"value": bits, "out": out.ctypes.data, "out_row": steps[-2]}
        call(FrameSpec(out.itemsize, len(batch)), target, slots, int(np.prod(batch)) * -(-rows // band), [out], checked)
        np.testing.assert_array_equal(memory.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("run", [1, 7, 64, 130])
def test_columns_apart(run: int, target: Target, checked: bool) -> None:
    rows, cols, low, high, left, right, band = 6, 5, 1, 2, 2, 1, 4
    memory = np.full((2, rows, cols, run + 3), 9, np.float32)
    out, want = memory[..., :run], memory.copy()
    inner = want[:, low : rows - high, left : cols - right, :run].copy()
    want[..., :run] = 4
    want[:, low : rows - high, left : cols - right, :run] = inner
    steps = element_strides(out)
    slots = {"batch0": 2, "out_s0": steps[0], "out_row": steps[1], "out_col": steps[2], "run": run, "band": band}
    slots |= {"rows": rows, "cols": cols, "low": low, "high": high, "left": left, "right": right}
    slots |= {"value": int(np.array([4], np.float32).view(np.int32)[0]), "out": out.ctypes.data}
    call(FrameSpec(4, 1, True), target, slots, 2 * -(-rows // band), [out], checked)
    np.testing.assert_array_equal(memory, want)


def test_traffic_is_the_border() -> None:
    slots = {"batch0": 3, "rows": 10, "cols": 100, "low": 1, "high": 2, "left": 4, "right": 5}
    assert FrameSpec(4, 1).traffic(slots) == {"out": 3 * (3 * 100 + 7 * 9) * 4}
    assert FrameSpec(4, 1, True).traffic({**slots, "run": 5}) == {"out": 3 * (3 * 100 + 7 * 9) * 5 * 4}


def test_bad_specs_are_refused() -> None:
    with pytest.raises(ValueError, match="fill"):
        FrameSpec(3, 0)
