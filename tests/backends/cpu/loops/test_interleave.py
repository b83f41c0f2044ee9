"""Interleaved rows against numpy: widths, tails, bands, element sizes."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.interleave import InterleaveSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call, element_strides


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_interleave(rows: int, dtype: type, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(0)
    for batch, cols, band in [((), 1, 1), ((), 200, 64), ((3,), 58, 58), ((2, 3), 17, 8), ((4,), 64, 100)]:
        x = rng.integers(0, 200, (*batch, rows, cols + 3)).astype(dtype)[..., 1 : 1 + cols]
        out = np.full((*batch, cols * rows + 5), 9, dtype)
        spec = InterleaveSpec(x.itemsize, rows, len(batch))
        xs, outs = element_strides(x), element_strides(out)
        slots = {f"batch{d}": n for d, n in enumerate(batch)}
        slots |= {f"in_s{d}": xs[d] for d in range(len(batch))} | {f"out_s{d}": outs[d] for d in range(len(batch))}
        slots |= {"cols": cols, "band": band, "in_row": xs[-2], "in": x.ctypes.data, "out": out.ctypes.data}
        call(spec, target, slots, int(np.prod(batch)) * -(-cols // band), [x, out], checked)
        want = np.full_like(out, 9)
        want[..., : cols * rows] = x.swapaxes(-1, -2).reshape(*batch, cols * rows)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("to", [DType.BF16, DType.F16], ids=lambda t: t.value)
def test_rounding_on_the_way(to: DType, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(1)
    for rows, cols, band in [(3, 200, 64), (2, 33, 33), (4, 1, 1)]:
        x = rng.normal(size=(rows, cols)).astype(np.float32)
        out = np.zeros(rows * cols + 2, np.uint16)
        spec = InterleaveSpec(2, rows, 0, to)
        slots = {"cols": cols, "band": band, "in_row": cols, "in": x.ctypes.data, "out": out.ctypes.data}
        call(spec, target, slots, -(-cols // band), [x, out], checked)
        want = x.T.reshape(-1).astype(to.numpy).view(np.uint16)
        np.testing.assert_array_equal(out, [*want, 0, 0])


@pytest.mark.parametrize(("size", "rows"), [(3, 2), (4, 1), (4, 5)])
def test_bad_specs_are_refused(size: int, rows: int) -> None:
    with pytest.raises(ValueError, match="interleave"):
        InterleaveSpec(size, rows, 0)


def test_rounding_needs_a_type_of_its_size() -> None:
    with pytest.raises(ValueError, match="round"):
        InterleaveSpec(4, 3, 0, DType.BF16)
