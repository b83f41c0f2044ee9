"""Second parts of B as bytes against numpy in float64: whole and cut panels, tall sums, chunks, zeros, many sizes."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.byte_parts import fits, uses_weights24
from MNN.backends.cpu.amx.layout import HEIGHT, rows_layout, tall_layout, window_layout
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu.amx.test_tiles import BOUNDS, TARGETS, WINDOWS, assert_close, contract, windows

F32 = DType.F32
_CASES = [(1, 1, 1, 16), (20, 40, 33, 32), (49, 70, 288, 64), (100, 33, 200, 48), (64, 96, 260, 64)]


@TARGETS
@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "mb"), _CASES)
def test_products(target: Target, tall: bool, overlap: bool, m: int, n: int, k: int, mb: int) -> None:
    """Weights of all sizes, some of them zero, in columns of very different sizes."""
    rng = np.random.default_rng(m + n)
    a = rng.uniform(-1, 1, (2, m, k + 3)).astype(np.float32)
    b = (rng.standard_normal((2, k, n)) * 2.0 ** rng.integers(-20, 5, n)).astype(np.float32)
    b[rng.random(b.shape) < 0.1] = 0
    assert fits(b)
    layout = rows_layout(np.arange(m) * (k + 3), np.zeros(1, np.int64), k, mb, 0 if tall else 64)
    layout = tall_layout(layout, 3) if tall else layout
    body = body_of([F32, F32], lambda s, x, y: s("add", x, y))
    spec = AmxSpec(F32, F32, 2, body, ("n",), ahead=6, overlap=overlap, passing=True, tall=tall, w24=True)
    bias = rng.uniform(-1, 1, (2, n)).astype(np.float32) * np.abs(b).max(1)
    found = contract(spec, target, layout, a, b, m, 64, (bias,), checked=True)
    left, right = a[:, :, :k].astype(np.float64), b.astype(np.float64)
    allowed = (BOUNDS[2] + 1e-7) * (np.abs(left) @ np.abs(right) + np.abs(bias[:, None])) + 1e-30
    assert (np.abs(found - (left @ right + bias[:, None])) <= allowed).all()


@TARGETS
def test_errors_are_those_of_24_bits(target: Target) -> None:
    """One product per sum, of a left side without second parts: what is left is the error of the weights."""
    rng = np.random.default_rng(0)
    m, n, k = 32, 160, 32
    a, b = np.zeros((1, m, k), np.float32), rng.standard_normal((1, k, n)).astype(np.float32)
    a[0, np.arange(m), np.arange(m)] = 1
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, m)
    found = contract(AmxSpec(F32, F32, 2, w24=True), target, layout, a, b, m)
    error = np.abs(found[0] / b[0] - 1)
    assert error.max() < 0.0029 * 2.0**-8 + 2.0**-15.9  # second parts are enlarged a little, see ``parts.MEND``
    assert np.sqrt((error**2).mean()) < 2.0**-16.8


@TARGETS
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_windows(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 1)
    layout = window_layout(w, int(case[-1]))  # type: ignore[call-overload]
    for tall in (False, True):
        if tall and layout.tiles > HEIGHT:
            continue
        spec = AmxSpec(F32, F32, 2, ahead=12, passing=True, tall=tall, w24=True)
        chosen = tall_layout(layout, 4) if tall else layout
        found = contract(spec, target, chosen, a[None], b, left.shape[1], 64, checked=True)
        assert_close(found, left, b.astype(np.float64), 2)


def test_which_weights_fit() -> None:
    usual = np.random.default_rng(0).standard_normal((3, 1 << 20)).astype(np.float32)
    assert fits(usual)
    assert fits(np.zeros((2, 3), np.float32))
    for bad in (np.inf, np.nan, 256.0, -1e30, 1e-30):
        usual[1, 77] = bad
        assert not fits(usual), bad


def test_only_second_parts_are_bytes() -> None:
    with pytest.raises(ValueError, match="second parts"):
        AmxSpec(F32, F32, 1, w24=True)


@TARGETS
def test_weights_are_bytes_where_they_take_longer_than_the_products(target: Target) -> None:
    cache = target.l2_bytes // 4  # weights of 4 bytes that fill it
    assert uses_weights24(target, cache // 2, 49, 1, 1)
    assert not uses_weights24(target, cache // 8, 49, 1, 1)
    assert not uses_weights24(target, 4 * cache, 200, 1, 1)
    assert not uses_weights24(target, 4 * cache, 200, 4, 1)
    assert uses_weights24(target, 4 * cache, 200, 4, 2), "each of two threads has few rows"
    assert not uses_weights24(target, 4 * cache, 200, 1, 2), "threads share the columns"
    assert not uses_weights24(target, cache // 2, 200, 2, 2)
