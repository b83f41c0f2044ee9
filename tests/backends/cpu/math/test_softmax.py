"""Exponentials of softmax: which programs hold one, its error, and what numbers that are none give, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.math.softmax import decays, maxima_of_numbers
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder
from tests.backends.cpu.loops.test_rows import reduce, run_rows, softmax
from tests.backends.cpu.util import TARGETS

LENGTHS = (1, 5, 16, 33, 197)


def _given_away(b: BodyBuilder, e: int, total: int, z: int) -> list[int]:
    return [b("div", e, total), e]


def _multiplied(b: BodyBuilder, e: int, total: int, z: int) -> list[int]:
    return [b("div", b("mul", e, z), total)]


def _upside_down(b: BodyBuilder, e: int, total: int, z: int) -> list[int]:
    return [b("div", total, e)]


def _body(function: object, of: str = "max") -> Body:
    b = BodyBuilder()
    x = b.arg(DType.F32)
    z = b("sub", x, reduce(b, of, x))
    e = b("exp", z)
    return b.build(*function(b, e, reduce(b, "sum", e), z))  # type: ignore[operator]


def _plain(b: BodyBuilder, e: int, total: int, z: int) -> list[int]:
    return [b("div", e, total)]


def test_where_it_applies() -> None:
    body = softmax(DType.F32)
    assert len(decays(body)) == 1
    assert len(maxima_of_numbers(body)) == 1
    assert len(decays(softmax(DType.F32, log=True))) == 1
    assert not maxima_of_numbers(softmax(DType.F32, log=True)), "its results depend on the distance itself, too"
    assert not decays(softmax(DType.F64))


@pytest.mark.parametrize("function", [_given_away, _multiplied, _upside_down])
def test_powers_that_count_themselves_are_exact(function: object) -> None:
    assert not decays(_body(function))


def test_distances_from_anything_else_may_be_positive() -> None:
    assert decays(_body(_plain))
    assert not decays(_body(_plain, "min"))
    assert not decays(_body(_plain, "sum"))


def _run(x: np.ndarray, target: Target, log: bool = False) -> np.ndarray:
    out = np.full_like(x, 7)
    run_rows(softmax(DType.F32, log), [x], [out], target, checked=True)
    return out


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spread", [0.1, 4.0, 60.0, 1e4, 1e30])
def test_error(target: Target, spread: float) -> None:
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        x = (rng.normal(size=(20, n)) * spread).astype(np.float32)
        distance = (x - x.max(1, keepdims=True)).astype(np.float64)  # as f32 gives it
        want = np.exp(distance) / np.exp(distance).sum(1, keepdims=True)
        np.testing.assert_allclose(_run(x, target), want, rtol=6e-7, atol=2.0**-125)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_special_numbers(target: Target) -> None:
    """Masked elements are exactly 0; a NaN, +inf, or nothing but -inf makes the whole row NaN."""
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        for place in {0, n // 2, n - 1}:
            for log in (False, True):
                for bad in (np.nan, np.inf):
                    x = rng.normal(size=(3, n)).astype(np.float32)
                    x[1, place] = bad
                    got = _run(x, target, log)
                    assert np.isnan(got[1]).all()
                    assert np.isfinite(got[[0, 2]]).all()
            x = rng.normal(size=(1, n)).astype(np.float32)
            x[0, place] = -np.inf
            got = _run(x, target)
            if n == 1:
                assert np.isnan(got).all()
            else:
                assert got[0, place] == 0
                assert np.isclose(got.sum(), 1, rtol=1e-6)
        assert np.isnan(_run(np.full((2, n), -np.inf, np.float32), target)).all()
        assert np.isnan(_run(np.full((2, n), np.nan, np.float32), target)).all()
