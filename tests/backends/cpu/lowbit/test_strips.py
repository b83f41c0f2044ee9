"""Weights in few bits on matrix units, taken apart panel by panel, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.tiles import ROWS
from MNN.backends.cpu.lowbit.strips import STEP, STRIP, StripRowsSpec, StripTilesSpec, step_bytes
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.targets.base import _host_target
from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.quant import QuantizedArray
from MNN.ir.scalar import body_of
from tests.backends.cpu import util
from tests.backends.cpu.lowbit.test_lowbit import book, laid, weights
from tests.pairs import pairs

F32 = DType.F32
LOSS = {1: 2.0**-8, 2: 2.0**-15, 3: 2.0**-20}
"""Of sums of sizes, by parts."""


def tiles() -> Target | None:
    """A processor with tiles, where the one at hand lacks them in plain code."""
    try:
        return _host_target("avx512,+amx-tile,+amx-bf16,+amx-int8")
    except UnsupportedError:  # no such vectors here
        return None


needs_wide_vectors = pytest.mark.skipif(tiles() is None, reason="vectors of this processor are narrower than tiles")


def product(
    w: QuantizedArray, a: np.ndarray, parts: int, block: tuple[int, int, int], checked: bool, dtype: DType = F32,
    entries: tuple[int, ...] = (), high: int = 0,
) -> np.ndarray:  # fmt: skip
    """A times ``w`` transposed, in a ``block`` of rows, columns and steps; rows of ``a`` lie apart and out of order."""
    target = tiles()
    assert target is not None
    (m, k), n = a.shape, w.shape[0]
    layout, packed = laid(target, w, entries=entries, high=high)
    order = np.random.default_rng(1).permutation(m)
    spread = np.zeros((m, k + 3), np.float32)
    spread[order, :k] = a
    if dtype is DType.BF16:
        spread = (spread.view(np.uint32) >> 16).astype(np.uint16)
    rows, steps = (order * (k + 3)).astype(np.int32), k // STEP
    strips = np.full(-(-m // STRIP) * steps * step_bytes(parts) + 64, 255, np.uint8)
    strips = strips[-strips.ctypes.data % 64 :][: strips.size - 64]
    slots = {"x": spread.ctypes.data, "rows_x": rows.ctypes.data, "y": strips.ctypes.data, "m": m, "steps": steps}
    util.call(StripRowsSpec(dtype, parts), target, slots, -(-m // ROWS), [spread, rows, strips], checked)
    c = np.full((m, n + 2), 7, np.float32)
    bias = np.arange(n, dtype=np.float32)
    body = body_of([F32, F32], lambda b, x, y: b("add", x, y))
    spec = StripTilesSpec(F32, layout.width, layout.zeros, layout.factors, parts, body, ("n",), bool(entries), high)
    arrays = {"a": strips, "b": packed, "c": c, "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "op0": bias}
    arrays |= book(entries)
    mb, nb, chunk = block
    numbers = {"m": m, "n": n, "mb": mb, "nb": nb, "steps": steps, "chunk": chunk}
    numbers |= {"blocks": layout.blocks, "groups": layout.groups}
    slots = numbers | {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, -(-m // mb) * -(-n // nb), list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n] - bias


@needs_wide_vectors
@pairs(
    width=[2, 4, 8], zeros=["none", "i8", "offset"], run=[16, 32, 64, 0], parts=[1, 2, 3], dtype=[F32, DType.BF16],
    half=[False, True],
)  # fmt: skip
def test_numbers_of_all_forms(width: int, zeros: str, run: int, parts: int, dtype: DType, half: bool) -> None:
    """In one piece and in several, whatever lies behind the last row and column."""
    for m, n, steps in ((1, 70, 4), (33, 130, 2), (64, 16, 1), (77, 65, 7)):
        k = steps * STEP
        blocks = k // (run or k) if k % (run or k) == 0 else steps
        w = weights(n, k, width, blocks, zeros, half=half)
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        if dtype is DType.BF16:
            a = (a.view(np.uint32) & 0xFFFF0000).view(np.float32)
        wide = w.dequantize().astype(np.float64).T
        expected, sizes = a.astype(np.float64) @ wide, np.abs(a) @ np.abs(wide)
        whole = -(-m // STRIP) * STRIP, -(-n // 64) * 64, steps
        for block, checked in ((whole, False), ((STRIP, 96, -(-steps // 2)), True)):
            found = product(w, a, parts, block, checked, dtype)
            assert (np.abs(found - expected) <= sizes * LOSS[parts] + 1e-7 * n).all()  # the latter for the bias
