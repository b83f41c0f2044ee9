"""Products of bytes that were widened to 16 bits, in pairs: exactly the integers, also at the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import pack_int16
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from tests.backends.cpu import util

TARGETS = [t for t in util.TARGETS if t.family == "x86"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("m", "n", "k", "taps"), [(1, 1, 1, 1), (7, 20, 3, 6), (23, 50, 33, 1), (13, 33, 64, 2)])
@pytest.mark.parametrize("tile", [(1, 1), (6, 2), (4, 3)], ids=str)
def test_exact_products(target: Target, tile: tuple[int, int], m: int, n: int, k: int, taps: int) -> None:
    spec = ContractSpec(DType.I16, DType.I16, DType.I32, DType.I32, *tile, group=DOT2)
    rng, nr, depth = np.random.default_rng(m + k), spec.nr(target), taps * k
    a, b = rng.integers(-128, 256, (2, m, depth)).astype(np.int16), rng.integers(-255, 256, (2, depth, n))
    a[:, 0], b[..., 0] = 255, -255
    packed, c = pack_int16(b.astype(np.int16), nr, k).reshape(2, -1), np.full((2, m, n + 1), 7, np.int32)
    arrays = {
        "a": a, "b": np.ascontiguousarray(packed), "c": c, "rows_a": (np.arange(m) * depth).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 1)).astype(np.int32), "taps": (np.arange(taps) * k).astype(np.int32),
        "batch": np.array([[z * a[0].size, z * packed[0].size, z * c[0].size] for z in range(2)], np.int64),
    }  # fmt: skip
    panels = -(-n // nr)
    slots = {
        "n_taps": taps, "k": k, "ldb": 2 * nr, "panel": packed.shape[1] // panels, "m": m, "n": n, "n_batch": 2,
        "mb": 2 * tile[0], "nb": nr, "ub": 2 * tile[0],
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, 2, 2 * tile[0], nr), list(arrays.values()), True)
    assert (c[..., n:] == 7).all(), "wrote past the columns"
    np.testing.assert_array_equal(c[..., :n], a.astype(np.int64) @ b)


def test_plain_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="no contraction of i16"):
        ContractSpec(DType.I16, DType.I16, DType.I32, DType.I32, 4, 2, False, group=DOT2)
