"""Families of functions of whole matrices and of their diagonals; see :mod:`tests.tensorflow.families`.

Vectors of eigenvalues and singular values are compared by what they are the same for whatever their signs are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case, call, family, floats, held, ints, shape

SIZED = {"MatrixSolveLs", "CumulativeLogsumexp", "TridiagonalMatMul"}
"""Read where sizes are known."""


def _matrices(rng: np.random.Generator, rows: int, columns: int, batch: list[int] | None = None) -> np.ndarray:
    """Far from singular."""
    batch = shape(rng, int(rng.integers(0, 3)), 3) if batch is None else batch
    return floats(rng, [*batch, rows, columns], -1, 1) + 2 * np.eye(rows, columns, dtype=np.float32)


def _symmetric(rng: np.random.Generator) -> np.ndarray:
    """Positive definite, of eigenvalues that lie apart."""
    n = int(rng.integers(1, 7))
    q = np.linalg.qr(_matrices(rng, n, n))[0]
    values = np.cumsum(rng.uniform(0.3, 1.5, n)).astype(np.float32)
    return np.asarray((q * values) @ np.swapaxes(q, -1, -2), np.float32)


@family("MatrixInverse", "LogMatrixDeterminant", "Cholesky")
def one(rng: np.random.Generator, op: str) -> Case:
    n = int(rng.integers(1, 7))
    adjoint = {"adjoint": bool(rng.integers(2))} if op == "MatrixInverse" else {}
    x = _symmetric(rng) if op == "Cholesky" else _matrices(rng, n, n)
    return lambda v: call(op, input=v, **adjoint), [x]


@family("MatrixSolve", "MatrixTriangularSolve", "MatrixSolveLs")
def systems(rng: np.random.Generator, op: str) -> Case:
    n, k = (int(v) for v in rng.integers(1, 7, 2))
    batch = shape(rng, int(rng.integers(0, 3)), 3)
    if op == "MatrixSolveLs":
        rows, fast = int(rng.integers(1, 9)), bool(rng.integers(2))
        weight = float(rng.choice([0.0, 0.3])) if fast else 0.0
        a, b = _matrices(rng, rows, n, batch), _matrices(rng, rows, k, batch)
        return lambda v, w: call(op, matrix=v, rhs=w, l2_regularizer=np.float64(weight), fast=fast), [a, b]
    a, b = _matrices(rng, n, n, batch), _matrices(rng, n, k, batch)
    more = {"adjoint": bool(rng.integers(2))}
    if op == "MatrixTriangularSolve":
        more["lower"] = bool(rng.integers(2))
        a = a + np.asarray(np.eye(n) * 3, np.float32)
    return lambda v, w: call(op, matrix=v, rhs=w, **more), [a, b]


@family("Qr")
def qr(rng: np.random.Generator, op: str) -> Case:
    rows, columns, full = int(rng.integers(1, 7)), int(rng.integers(1, 7)), bool(rng.integers(2))

    def run(v: Any) -> Any:
        q, r = call(op, input=v, full_matrices=full)
        return [tf.abs(q[..., :, : min(rows, columns)]), tf.abs(r), tf.linalg.matmul(q, r)]

    return run, [_matrices(rng, rows, columns)]


@family("SelfAdjointEigV2")
def eigenvalues(rng: np.random.Generator, op: str) -> Case:
    values_only = not rng.integers(3)

    def run(v: Any) -> Any:
        values, vectors = call(op, input=v, compute_v=not values_only)
        if values_only:
            return [values]
        turned = tf.linalg.matmul(vectors * values[..., None, :], vectors, transpose_b=True)
        return [values, tf.abs(vectors), turned]

    return run, [_symmetric(rng)]


@family("Svd")
def singular(rng: np.random.Generator, op: str) -> Case:
    n, columns = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    values_only, full = not rng.integers(3), bool(rng.integers(2))
    least = min(n, columns)
    batch = shape(rng, int(rng.integers(0, 3)), 3)
    left, right = (np.linalg.qr(_matrices(rng, m, m, batch))[0][..., :least] for m in (n, columns))
    x = (left * (1 + np.arange(least)[::-1] * 0.7)) @ np.swapaxes(right, -1, -2)

    def run(v: Any) -> Any:
        s, u, w = call(op, input=v, compute_uv=not values_only, full_matrices=full)
        if values_only:
            return [s]
        product = tf.linalg.matmul(u[..., :least] * s[..., None, :], w[..., :least], transpose_b=True)
        return [s, tf.abs(u[..., :least]), tf.abs(w[..., :least]), product, tf.linalg.matmul(w, w, transpose_a=True)]

    return run, [np.asarray(x, np.float32)]


@family("TridiagonalSolve", "TridiagonalMatMul")
def tridiagonal(rng: np.random.Generator, op: str) -> Case:
    n, batch = int(rng.integers(2, 7)), shape(rng, int(rng.integers(0, 2)), 3)
    lines = floats(rng, [*batch, 3, n], -1, 1)
    lines[..., 1, :] += 3
    right = floats(rng, [*batch, n, int(rng.integers(1, 5))])
    if op == "TridiagonalSolve":
        return lambda v, w: call(op, diagonals=v, rhs=w), [lines, right]
    rows = [lines[..., i : i + 1, :] for i in range(3)]
    return lambda a, b, c, w: call(op, superdiag=a, maindiag=b, subdiag=c, rhs=w), [*rows, right]


# -- diagonals --------------------------------------------------------------------------------------------------------


def _diagonals(rng: np.random.Generator, rows: int, columns: int) -> tuple[int, int]:
    low, high = sorted(int(k) for k in rng.integers(1 - rows, columns, 2))
    return (low, low) if rng.integers(3) == 0 else (low, high)


def _length(rows: int, columns: int, low: int, high: int) -> int:
    return min(rows + min(high, 0), columns - max(low, 0))


def _numbers(rng: np.random.Generator, sizes: list[int]) -> np.ndarray:
    return ints(rng, sizes) if rng.integers(2) else floats(rng, sizes)


@family("MatrixDiagPartV2", "MatrixDiagPartV3", "MatrixSetDiagV2", "MatrixSetDiagV3", "MatrixDiagV2", "MatrixDiagV3")
def diagonals(rng: np.random.Generator, op: str) -> Case:
    rows, columns = (int(n) for n in rng.integers(1, 7, 2))
    low, high = _diagonals(rng, rows, columns)
    batch = shape(rng, int(rng.integers(0, 3)), 3)
    k = held([low, high]) if low < high or rng.integers(2) else held(low)
    sides = ["LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT"][int(rng.integers(4))]
    more: dict[str, Any] = {"align": sides} if op.endswith("V3") else {}
    length = _length(rows, columns, low, high)
    band = _numbers(rng, [*batch, *([high - low + 1] if low < high else []), length])
    x = _numbers(rng, [*batch, rows, columns])
    x = x.astype(band.dtype)
    other = held(x.dtype.type(rng.integers(-3, 4)))
    if "Part" in op:
        return lambda v: call(op, input=v, k=k, padding_value=other, **more), [x]
    if "Set" in op:
        return lambda v, w: call(op, input=v, diagonal=w, k=k, **more), [x, band]
    given = [rows if rng.integers(2) else -1, columns if rng.integers(2) else -1]
    return lambda v: call(op, diagonal=v, k=k, num_rows=given[0], num_cols=given[1], padding_value=other, **more), [
        band
    ]


# -- sums of exponentials ---------------------------------------------------------------------------------------------


@family("CumulativeLogsumexp")
def cumulative(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)), 9)
    axis, exclusive, reverse = int(rng.integers(-len(sizes), len(sizes))), bool(rng.integers(2)), bool(rng.integers(2))
    x = floats(rng, sizes, -90, 90)

    def run(v: Any) -> Any:
        found = call(op, x=v, axis=axis, exclusive=exclusive, reverse=reverse)
        return [tf.minimum(tf.maximum(found, -1000.0), 1000.0), found < -1e30]

    return run, [x]
