"""Functions of matrices, by what they promise: factors that give the matrix again, orthogonal ones, numpy's answers."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


def compute(kind: str, *arrays: np.ndarray, count: int = 1, **attrs: bool) -> list[np.ndarray]:
    inputs = [Value(f"x{i}") for i in range(len(arrays))]
    outputs = [Value(f"y{i}") for i in range(count)]
    graph = Graph("g", inputs, outputs, [Node("MatrixFunction", "here", inputs, outputs, {"kind": kind, **attrs})])
    return list(Session(graph).run({v.name: a for v, a in zip(inputs, arrays, strict=True)}).values())


def turned(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


@pytest.mark.parametrize("seed", range(12))
def test_factors_give_the_matrix_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = rng.choice([np.float32, np.float64])
    batch, (m, n) = rng.integers(1, 4, rng.integers(0, 3)), rng.integers(1, 7, 2)
    a = rng.standard_normal((*batch, m, n)).astype(dtype)
    bound = {"rtol": 0, "atol": 40 * np.finfo(dtype).eps * max(np.abs(a).max(), 1) * max(m, n)}
    full = bool(rng.integers(2))
    q, r = compute("qr", a, count=2, full=full)
    assert q.shape[-2:] == (m, m if full else min(m, n))
    np.testing.assert_allclose(q @ r, a, **bound)
    np.testing.assert_allclose(
        turned(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), turned(q).shape[:-1] + q.shape[-1:]), **bound
    )
    np.testing.assert_allclose(np.tril(r, -1), 0, **bound)
    u, s, v = compute("svd", a, count=3, full=full)
    k = min(m, n)
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ v[..., :k, :], a, **bound)
    assert (np.diff(s) <= 0).all()
    packed, pivots = compute("lu", a, count=2)
    for at in np.ndindex(*batch):
        order = list(range(m))
        for i, p in enumerate(pivots[at]):
            order[i], order[p - 1] = order[p - 1], order[i]
        lower = np.tril(packed[at][:, :k], -1) + np.eye(m, k)
        np.testing.assert_allclose(lower @ np.triu(packed[at][:k]), a[at][order], **bound)
        assert np.abs(lower).max() <= 1  # rows were exchanged for the largest pivot
    both = a @ turned(a)
    w, v = compute("eigh", np.triu(both), count=2, upper=True)
    np.testing.assert_allclose((v * w[..., None, :]) @ turned(v), both, rtol=0, atol=20 * bound["atol"])


def test_one_singular_matrix_of_several() -> None:
    """It alone has no answer."""
    a = np.stack([np.diag([2.0, 4.0]), np.ones((2, 2)), np.eye(2)])
    (found,) = compute("inverse", a)
    np.testing.assert_allclose(found[[0, 2]], np.linalg.inv(a[[0, 2]]))
    assert np.isnan(found[1]).all()
    (found,) = compute("solve", a, np.ones((3, 2, 1)))
    np.testing.assert_allclose(found[0, :, 0], [0.5, 0.25])
    assert np.isnan(found[1]).all()
    lower, rows = compute("cholesky", np.stack([np.eye(2), np.diag([1.0, -1.0])]), count=2)
    assert rows.tolist() == [0, 2]
    np.testing.assert_allclose(lower[0], np.eye(2))


@pytest.mark.parametrize(
    ("kind", "arrays", "said"),
    [
        ("inverse", [np.ones((2, 3))], "square"),
        ("sqrt", [np.eye(2)], "no function 'sqrt'"),
        ("solve", [np.eye(2), np.ones((3, 1))], "does not fit"),
        ("qr", [np.ones(3)], "matrices"),
    ],
)
def test_what_is_no_matrix_of_its_kind(kind: str, arrays: list[np.ndarray], said: str) -> None:
    with pytest.raises(MNNError, match=f"here.*{said}"):
        compute(kind, *arrays)


def test_divisors() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(-(10**9), 10**9, (3, 4)), rng.integers(-60, 60, 4)
    inputs, out = [Value("x"), Value("y")], Value("z")
    graph = Graph("g", inputs, [out], [Node("GreatestCommonDivisor", "here", inputs, [out])])
    assert (Session(graph).run({"x": x, "y": y})["z"] == np.gcd(x, y)).all()
    with pytest.raises(MNNError, match=r"here.*integers of one type"):
        Session(graph).run({"x": x, "y": y.astype(np.float32)})
