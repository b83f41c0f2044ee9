"""MNN.numpy against numpy, on constants and on expressions of placeholders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.errors import MNNError

X = np.float32([[1.5, -2.0, 3.25], [4.0, 0.0, -6.75]])

SAME: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.abs(x), lambda m, x: m.exp(x), lambda m, x: m.exp2(x), lambda m, x: m.sqrt(m.abs(x)),
    lambda m, x: m.log10(m.abs(x) + 1), lambda m, x: m.log2(m.abs(x) + 1), lambda m, x: m.cbrt(x),
    lambda m, x: m.trunc(x), lambda m, x: m.floor(x), lambda m, x: m.ceil(x),
    lambda m, x: m.deg2rad(x), lambda m, x: m.degrees(x), lambda m, x: m.hypot(x, 2.0), lambda m, x: m.sign(x),
    lambda m, x: m.copysign(x, -1.0), lambda m, x: m.clip(x, -1, 3), lambda m, x: m.sum(x, 0), lambda m, x: m.sum(x),
    lambda m, x: m.prod(x, 1), lambda m, x: m.max(x, 1), lambda m, x: m.min(x), lambda m, x: m.mean(x, 1),
    lambda m, x: m.var(x), lambda m, x: m.var(x, 1, ddof=1), lambda m, x: m.std(x, 0), lambda m, x: m.ptp(x, 0),
    lambda m, x: m.argmax(x), lambda m, x: m.argmax(x, 1), lambda m, x: m.argmin(x, 0), lambda m, x: m.sort(x, 0),
    lambda m, x: m.argsort(x, 1), lambda m, x: m.cumsum(x, 1), lambda m, x: m.cumprod(x, 0), lambda m, x: m.dot(x, x.T)
    if m is np else m.dot(x, m.transpose(x)), lambda m, x: m.matmul(m.transpose(x), x), lambda m, x: m.inner(x, x),
    lambda m, x: m.outer(x, x), lambda m, x: m.vdot(x, x), lambda m, x: m.where(x > 0, x, -1.0),
    lambda m, x: m.reshape(x, (3, 2)), lambda m, x: m.ravel(x), lambda m, x: m.transpose(x), lambda m, x: m.flip(x),
    lambda m, x: m.flip(x, 1), lambda m, x: m.flipud(x), lambda m, x: m.fliplr(x), lambda m, x: m.roll(x, 2),
    lambda m, x: m.roll(x, -1, 1), lambda m, x: m.roll(x, 3, 1), lambda m, x: m.tile(x, (2, 1, 2)),
    lambda m, x: m.tile(x, 2), lambda m, x: m.repeat(x, 2, 1), lambda m, x: m.repeat(x, 3),
    lambda m, x: m.pad(x, ((1, 0), (2, 1))), lambda m, x: m.pad(x, 1, "reflect"), lambda m, x: m.pad(x, 1, "symmetric"),
    lambda m, x: m.concatenate([x, x], 1), lambda m, x: m.concatenate([x, x], None), lambda m, x: m.stack([x, x], -1),
    lambda m, x: m.vstack([x, x]), lambda m, x: m.hstack([x, x]), lambda m, x: m.dstack([x, x]),
    lambda m, x: m.column_stack([x[0], x[1]]), lambda m, x: m.moveaxis(m.reshape(x, (1, 2, 3)), 0, 2),
    lambda m, x: m.moveaxis(m.reshape(x, (1, 2, 3)), [0, 1], [-1, -2]), lambda m, x: m.swapaxes(x, 0, 1),
    lambda m, x: m.squeeze(m.expand_dims(x, 0), 0), lambda m, x: m.atleast_3d(x), lambda m, x: m.atleast_2d(x[0]),
    lambda m, x: m.average(x, 1, [1.0, 2.0, 3.0]), lambda m, x: m.average(x), lambda m, x: m.floor_divide(x, 2),
    lambda m, x: m.fmod(x, 2), lambda m, x: m.power(m.abs(x), 1.5), lambda m, x: m.maximum(x, 0.5),
    lambda m, x: m.arctan2(x, 2.0), lambda m, x: m.broadcast_to(x, (2, 2, 3)), lambda m, x: m.square(x),
    lambda m, x: m.tanh(x), lambda m, x: m.arcsinh(x), lambda m, x: m.expm1(x), lambda m, x: m.linalg.norm(x),
    lambda m, x: m.linalg.norm(x, axis=1),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(SAME)))
def test_as_numpy(case: int) -> None:
    function = SAME[case]
    wanted = np.asarray(function(np, X))
    found = function(mp, mp.array(X))
    kind = found.read().dtype.kind if isinstance(found, F.Var) else np.asarray(found).dtype.kind
    assert kind == wanted.dtype.kind
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)
    p = F.placeholder([2, 3])
    lazy = function(mp, p) if case != len(SAME) else None
    p.write(X)
    assert isinstance(lazy, F.Var)
    assert lazy.shape == list(wanted.shape)
    np.testing.assert_allclose(lazy.read(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda m, f: m.arange(5), lambda m, f: m.arange(2, 9, 3), lambda m, f: m.eye(3, 4, 1, dtype=f),
        lambda m, f: m.full((2, 2), 7), lambda m, f: m.linspace(0, 1, 5, dtype=f), lambda m, f: m.identity(2, dtype=f),
        lambda m, f: m.linspace(0, 1, 5, False, dtype=f), lambda m, f: m.ones((2, 3), dtype=f),
        lambda m, f: m.zeros(4, dtype=f), lambda m, f: m.array([[1, 2], [3, 4]], dtype=f, ndmin=3),
    ],
)  # fmt: skip
def test_making_arrays(make: Callable[[Any, Any], Any]) -> None:
    wanted, found = make(np, np.float32), make(mp, mp.float32)
    np.testing.assert_allclose(found.read(), wanted, rtol=1e-6)
    assert found.shape == list(wanted.shape)


EMPTY: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.sum(x), lambda m, x: m.sum(x, 1), lambda m, x: m.prod(x, -1), lambda m, x: m.all(x),
    lambda m, x: m.any(x), lambda m, x: m.all(x, 1), lambda m, x: m.any(x, 1), lambda m, x: m.roll(x, 1),
    lambda m, x: m.tile(x, (2, 1, 1)), lambda m, x: m.tile(x, 2), lambda m, x: m.repeat(x, 2),
    lambda m, x: m.array(x, ndmin=4), lambda m, x: m.flip(x), lambda m, x: m.transpose(x), lambda m, x: m.abs(x),
    lambda m, x: m.add(x, 1), lambda m, x: m.concatenate([x, x], 1), lambda m, x: m.stack([x, x]), lambda m, x: x > 0,
    lambda m, x: m.expand_dims(x, 0), lambda m, x: m.sort(x, 1), lambda m, x: m.outer(x, x), lambda m, x: m.ravel(x),
    lambda m, x: m.count_nonzero(x), lambda m, x: m.where(x > 0, x, x), lambda m, x: m.pad(x, 1),
]  # fmt: skip


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("case", range(len(EMPTY)))
def test_nothing_is_a_shape_too(case: int, kind: type) -> None:
    x = np.ones((2, 0), kind)
    v = F.const(x, [2, 0], F.NCHW, {np.float32: F.float, np.int32: F.int, np.uint8: F.uint8}[kind])
    wanted, found = np.asarray(EMPTY[case](np, x)), np.asarray(EMPTY[case](mp, v))
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_a_number_reduces_like_a_list_of_one() -> None:
    for axis in (0, -1):
        assert [float(f(mp.array(2.5), axis)) for f in (mp.sum, mp.max, mp.min, mp.mean)] == [2.5] * 4
    with pytest.raises(MNNError, match="do not fit"):
        mp.sum(mp.array(2.5), 1)


def test_splitting() -> None:
    v = mp.array(X)
    for ours, theirs in (
        (mp.split(v, 3, 1), np.split(X, 3, 1)), (mp.split(v, [1, 2], 1), np.split(X, [1, 2], 1)),
        (mp.array_split(v, 2, 1), np.array_split(X, 2, 1)), (mp.hsplit(v, 3), np.hsplit(X, 3)),
        (mp.vsplit(v, 2), np.vsplit(X, 2)), (mp.nonzero(v), np.nonzero(X)),
    ):  # fmt: skip
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.read(), b)


def test_counting_and_comparing() -> None:
    v = mp.array(X)
    assert mp.count_nonzero(v) == 5
    assert mp.array_equal(v, X)
    assert not mp.array_equal(v, X[0])
    assert mp.all(v > -10) is True
    assert mp.any(v > 10) is False
    np.testing.assert_array_equal(mp.argwhere(v > 0).read(), np.argwhere(X > 0))
    np.testing.assert_array_equal(mp.flatnonzero(v > 0).read(), np.flatnonzero(X > 0))
    with pytest.raises(TypeError):
        mp.where(v > 0, v)


def test_random_repeats() -> None:
    mp.random.seed(3)
    first = [mp.random.rand(2, 3), mp.random.randn(4), mp.random.randint(2, 5, [100])]
    mp.random.seed(3)
    again = [mp.random.rand(2, 3), mp.random.randn(4), mp.random.randint(2, 5, [100])]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.read(), b.read())
    assert set(first[2].read()) == {2, 3, 4}
    assert not np.array_equal(F.randomuniform([8]).read(), F.randomuniform([8]).read())


def test_linear_algebra() -> None:
    a = np.float32([[3, 1], [1, 2]])
    np.testing.assert_allclose(mp.linalg.solve(a, np.float32([9, 8])).read(), [2, 3], rtol=1e-5)
    u, s, v = (t.read() for t in mp.linalg.svd(X))
    np.testing.assert_allclose(u @ np.diag(s) @ v[:2], X, atol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_of_nothing(shape: tuple[int, ...]) -> None:
    """As numpy: sums are 0, products 1, and there is no extreme; along other axes there is nothing to be told."""
    a = np.zeros(shape, np.float32)
    x = mp.array(a)
    for name in ("max", "min", "ptp", "argmax", "argmin", "sum", "prod", "any", "all", "cumsum"):
        for axis in (None, 0, -1):
            try:
                wanted = np.asarray(getattr(np, name)(a, axis=axis))
            except ValueError:
                with pytest.raises(MNNError, match="nothing"):
                    getattr(mp, name)(x, axis=axis)
            else:
                np.testing.assert_array_equal(np.asarray(getattr(mp, name)(x, axis=axis)), wanted)
