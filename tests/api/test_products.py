"""Products against numpy: all ranks, empty axes, element types; integers exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.errors import ShapeError

KINDS = {np.float32: F.float, np.int32: F.int, np.uint8: F.uint8, np.int64: F.int64}
SHAPES = [(), (3,), (2, 3), (3, 2), (2, 2, 3), (4, 3, 2), (0, 3), (2, 0), (3, 0, 2), (1, 1, 3), (2, 1, 2, 3), (0,)]


@pytest.mark.parametrize("function", ["dot", "inner", "vdot", "outer"])
@pytest.mark.parametrize("kind", list(KINDS), ids=lambda k: k.__name__)
@pytest.mark.parametrize(("left", "right"), list(itertools.product(SHAPES, SHAPES)), ids=str)
def test_as_numpy(function: str, kind: type, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.integers(0, 200, s).astype(kind)) for s in (left, right))
    x, y = (F.const(v, list(v.shape), F.NCHW, KINDS[kind]) for v in (a, b))
    try:
        wanted = np.asarray(getattr(np, function)(a, b))
    except ValueError:
        with pytest.raises(ShapeError):
            getattr(mp, function)(x, y)
        return
    found = getattr(mp, function)(x, y)
    if isinstance(found, F.Var):
        assert found.dtype is KINDS[kind]
    else:
        assert type(found) is (float if kind is np.float32 else int)
    assert tuple(np.shape(found)) == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


def test_integers_beyond_what_floats_hold() -> None:
    a = np.int32([[2**24 + 1, 1], [3, 2**30]])
    np.testing.assert_array_equal(mp.matmul(mp.array(a), mp.array(np.int32([[1], [0]]))).read(), [[2**24 + 1], [3]])
    np.testing.assert_array_equal((mp.array(a) @ mp.array(np.eye(2, dtype=np.int32))).read(), a)
    assert mp.array(a[0]).dot(mp.array(np.int32([1, 1]))) == 2**24 + 2


def test_products_follow_placeholders() -> None:
    p = F.placeholder([2, 2, 3])
    rng = np.random.default_rng(1)
    b = rng.standard_normal((4, 3, 2)).astype(np.float32)
    lazy = mp.dot(p, mp.array(b)), mp.inner(p, mp.array(b.swapaxes(1, 2)))
    a = rng.standard_normal((2, 2, 3)).astype(np.float32)
    p.write(a)
    for found in lazy:
        np.testing.assert_allclose(found.read(), np.dot(a, b), rtol=1e-5)


def test_what_setdiff1d_leaves_keeps_order_and_number() -> None:
    for kind in (np.int32, np.float32, np.int64):
        x, y = np.asarray([3, 1, 2, 3, 5, 1], kind), np.asarray([2, 7], kind)
        found = F.setdiff1d(x, y)
        np.testing.assert_array_equal(found.read(), [3, 1, 3, 5, 1])
    assert F.setdiff1d([1, 2], [2, 1]).shape == [0]
    with pytest.raises(ShapeError, match="tensors of one axis"):
        F.setdiff1d([[1, 2]], [1])
