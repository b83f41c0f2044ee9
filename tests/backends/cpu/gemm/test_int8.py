"""Products of 8-bit integers in groups of four: exactly the integers, on every instruction set this machine has."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.products.dot8 import DOT4, has_dot4, moved, pack_dot4
from MNN.backends.cpu.targets import Target, host_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32
_HOST = host_target()
_PLAIN = dataclasses.replace(_HOST, features=tuple(f for f in _HOST.features if "vnni" not in f))
"""This processor without VNNI."""
ALL = list(dict.fromkeys(t for t in (*util.TARGETS, _HOST, _PLAIN) if has_dot4(t)))
TARGETS = pytest.mark.parametrize("target", ALL, ids=lambda t: t.name + ("+vnni" if "vnni" in t.feature_string else ""))


def run(
    spec: ContractSpec, target: Target, m: int, n: int, k: int, taps: int = 1, batches: int = 1, checked: bool = False
) -> None:
    """Compares C with the integers; A ends where its last row does, so that reading on would be noticed."""
    rng, nr = np.random.default_rng(m * n + k), spec.nr(target)

    def numbers(dtype: DType, *shape: int) -> np.ndarray:
        info = np.iinfo(dtype.numpy)
        found = rng.integers(info.min, info.max + 1, shape)
        return np.where(rng.random(shape) < 0.3, info.max, found).astype(dtype.numpy)  # often at the end of the range

    a = numbers(spec.a, batches, m, taps * k)
    b = numbers(I8, batches, taps * k, n)
    packed = pack_dot4(b, nr, k, moved(target, spec.a)) if spec.b_packed else b
    c = np.full((batches, m, n + 2), 7, spec.out.numpy)
    order = rng.permutation(m)
    arrays = {
        "a": a, "b": packed, "c": c, "rows_a": (order * taps * k).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "taps": (np.arange(taps) * k).astype(np.int32),
        "batch": np.array([[z * a[0].size, z * packed[0].size, z * c[0].size] for z in range(batches)], np.int64),
    }  # fmt: skip
    mb, nb = 2 * spec.mr, nr
    slots = {
        "n_taps": taps, "k": k, "ldb": 4 * nr if spec.b_packed else n,
        "panel": packed.shape[-1] if spec.b_packed else nr, "m": m, "n": n, "n_batch": batches, "mb": mb, "nb": nb,
        "ub": spec.mr,
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, batches, spec.mr, nb), list(arrays.values()), checked)
    assert (c[:, :, n:] == 7).all(), "wrote past the columns"
    expected = a[:, order].astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(c[:, :, :n], expected.astype(spec.out.numpy))


@TARGETS
@pytest.mark.parametrize("a", [U8, I8], ids=["u8", "i8"])
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (5, 17, 3), (16, 48, 8), (23, 50, 33), (9, 33, 66), (30, 100, 7)])
def test_exact_products(target: Target, a: DType, packed: bool, m: int, n: int, k: int) -> None:
    spec = ContractSpec(a, I8, I32, I32, 4, 2, packed, group=group_of(target, a))
    assert spec.group == DOT4
    run(spec, target, m, n, k)
    run(spec, target, m, n, k, batches=2, checked=True)


@TARGETS
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9, 16])
@pytest.mark.parametrize("tile", [(1, 1), (5, 1), (3, 3), (1, 4)], ids=str)
def test_taps_and_tails(target: Target, k: int, tile: tuple[int, int]) -> None:
    for a in (U8, I8):
        run(ContractSpec(a, I8, I32, I32, *tile, group=DOT4), target, 11, 20, k, taps=6, checked=True)


@TARGETS
def test_the_largest_numbers_do_not_saturate(target: Target) -> None:
    """All products have the same sign and the largest size: 16-bit sums in between would saturate."""
    k, n, m = 64, 16, 4
    spec = ContractSpec(U8, I8, I32, I32, 4, 1, group=DOT4)
    for number in (-128, 127):
        a, b = np.full((1, m, k), 255, np.uint8), np.full((1, k, n), number, np.int8)
        packed, c = pack_dot4(b, spec.nr(target), k, moved(target, U8)), np.zeros((1, m, n), np.int32)
        rows = (np.arange(m) * k).astype(np.int32), (np.arange(m) * n).astype(np.int32)
        arrays = {
            "a": a, "b": packed, "c": c, "rows_a": rows[0], "rows_c": rows[1], "taps": np.zeros(1, np.int32),
            "batch": np.zeros((1, 3), np.int64),
        }  # fmt: skip
        slots = {name: array.ctypes.data for name, array in arrays.items()}
        nr = spec.nr(target)
        slots |= {"n_taps": 1, "k": k, "ldb": 4 * nr, "panel": packed.shape[-1], "m": m, "n": n, "n_batch": 1, "mb": m}
        slots |= {"nb": -(-n // nr) * nr, "ub": m}
        util.call(spec, target, slots, spec.blocks(m, n, 1, m, -(-n // nr) * nr), list(arrays.values()), True)
        assert (c == 255 * number * k).all()


@TARGETS
def test_requantising_epilogue(target: Target) -> None:
    """Sums become saturated 8-bit results at once."""
    body = body_of([I32], lambda s, x: s.cast(s("min", s("max", x, s.const(0, I32)), s.const(255, I32)), U8))
    spec = ContractSpec(U8, I8, I32, U8, 4, 2, True, body, (), DOT4)
    rng, (m, n, k), nr = np.random.default_rng(3), (13, 37, 19), spec.nr(target)
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-3, 4, (k, n)).astype(np.int8)
    packed, c = pack_dot4(b, nr, k, moved(target, U8)), np.zeros((m, n), np.uint8)
    arrays = {
        "a": a, "b": packed, "c": c, "rows_a": (np.arange(m) * k).astype(np.int32),
        "rows_c": (np.arange(m) * n).astype(np.int32), "taps": np.zeros(1, np.int32),
        "batch": np.zeros((1, 3), np.int64),
    }  # fmt: skip
    slots = {name: array.ctypes.data for name, array in arrays.items()}
    slots |= {"n_taps": 1, "k": k, "ldb": 4 * nr, "panel": packed.shape[-1], "m": m, "n": n, "n_batch": 1, "mb": m}
    slots |= {"nb": 4 * nr, "ub": m}
    util.call(spec, target, slots, spec.blocks(m, n, 1, m, 4 * nr), list(arrays.values()), True)
    np.testing.assert_array_equal(c, np.clip(a.astype(int) @ b.astype(int), 0, 255))
