"""Products of one row with weights of 24 bits: as exact as f32, at odd sizes, and which weights are taken."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing.weights24 import fits, has_weights24, nbytes, pack_weights24, panel_bytes, weights24_tile
from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util

F32 = DType.F32
TARGETS = pytest.mark.parametrize(
    "target", [t for t in (host_target(), *util.TARGETS) if has_weights24(t)], ids=lambda t: t.name
)


def product(target: Target, x: np.ndarray, w: np.ndarray, nv: int, checked: bool = True) -> np.ndarray:
    """``x @ w + 1`` by the kernel."""
    k, n = w.shape
    body = body_of([F32, F32], lambda b, s, o: b("add", s, o))
    spec = ContractSpec(F32, DType.I8, F32, F32, 1, nv, True, body, ("n",), w24=True)
    nr = spec.nr(target)
    packed = np.full(nbytes(k, n, nr), 255, np.uint8)
    pack_weights24(w, nr, packed)
    y, ones = np.full(n + 1, 5, np.float32), np.ones(n, np.float32)
    zeros, batch = np.zeros(1, np.int32), np.zeros((1, 4), np.int64)
    slots = {
        "a": x.ctypes.data, "b": packed.ctypes.data, "c": y.ctypes.data, "rows_a": zeros.ctypes.data,
        "rows_c": zeros.ctypes.data, "taps": zeros.ctypes.data, "n_taps": 1, "k": k, "ldb": 0,
        "panel": panel_bytes(k, nr), "m": 1, "n": n, "batch": batch.ctypes.data, "n_batch": 1, "mb": 1, "nb": 2 * nr,
        "ub": 1, "op0": ones.ctypes.data,
    }  # fmt: skip
    blocks = spec.blocks(1, n, 1, 1, 2 * nr)
    util.call(spec, target, slots, blocks, [x, packed, y, ones, zeros, batch], checked)
    assert y[n] == 5
    return y[:n]


@TARGETS
@pytest.mark.parametrize("nv", [1, 4, 5])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 16), (33, 100), (240, 129)])
def test_sizes(target: Target, k: int, n: int, nv: int) -> None:
    rng = np.random.default_rng(k + n)
    x, w = rng.normal(size=k).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64) + 1
    np.testing.assert_allclose(product(target, x, w, nv), exact, rtol=0, atol=2e-6 * np.sqrt(k))


@TARGETS
def test_error_is_that_of_f32(target: Target) -> None:
    rng = np.random.default_rng(7)
    w = rng.normal(size=(1280, 512)).astype(np.float32)
    assert fits(w)
    ours, plain = [], []
    for _ in range(8):
        x = rng.normal(size=1280).astype(np.float32)
        exact = x.astype(np.float64) @ w.astype(np.float64) + 1
        total = np.zeros(512, np.float32)
        for xk, row in zip(x, w, strict=True):
            total += xk * row
        ours.append(product(target, x, w, 4, checked=False) - exact)
        plain.append(total + 1 - exact)
    assert np.std(ours) < 1.5 * np.std(plain)


@TARGETS
def test_infinities_and_the_largest_numbers(target: Target) -> None:
    """A weight that is not zero stays so, and nothing overflows on the way."""
    w = np.ones((64, 16), np.float32)
    w[5], w[6] = 1e-9, 0
    x = np.full(64, 1e-3, np.float32)
    x[5] = np.inf
    assert (product(target, x, w, 1) == np.inf).all()
    x[5], x[6] = 0, np.inf
    assert np.isnan(product(target, x, w, 1)).all()
    x[:] = 0
    x[0] = 3e38
    np.testing.assert_allclose(product(target, x, w, 1), 3e38, rtol=1e-6)


def test_tiles() -> None:
    assert [weights24_tile(n, 16) for n in (1000, 1280, 168, 240, 80)] == [(1, 4), (1, 4), (1, 4), (1, 5), (1, 5)]
    assert [weights24_tile(n, 8) for n in (1000, 1280, 168, 240, 80)] == [(1, 5), (1, 4), (1, 4), (1, 6), (1, 5)]


def test_which_weights() -> None:
    w = np.random.default_rng(1).normal(size=(400, 9)).astype(np.float32)
    assert fits(w)
    assert not fits(w[:16])
    for value in (np.nan, np.inf, 100.0):
        odd = w.copy()
        odd[3, 4] = value
        assert not fits(odd)
    w[:, 2] = 0
    assert fits(w)
    assert not fits(w * np.float32(1e-30))
    assert has_weights24(named_target("avx2"))
    assert not has_weights24(named_target("avx512"))
    assert not has_weights24(named_target("neon"))
    with pytest.raises(ValueError, match="24 bits"):
        ContractSpec(F32, F32, F32, F32, 1, 4, w24=True)
