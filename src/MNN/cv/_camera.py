"""Linear equations, rotations, and where a camera is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv._array import Array, _wrap, as_array
from MNN.cv._constants import (
    DECOMP_CHOLESKY,
    DECOMP_EIG,
    DECOMP_LU,
    DECOMP_NORMAL,
    DECOMP_QR,
    DECOMP_SVD,
    SOLVEPNP_ITERATIVE,
    SOLVEPNP_SQPNP,
)
from MNN.errors import MNNError, ShapeError
from MNN.expr.var import Var


def solve(src1: ArrayLike, src2: ArrayLike, method: int = DECOMP_LU) -> tuple[bool, Var]:
    """Whether ``src1 @ x = src2`` has a solution, and x (of least squares where there are more equations); zeros where
    there is none. ``method`` is one of ``DECOMP_*``; with ``DECOMP_NORMAL`` the normal equations are solved."""
    a, b = as_array(src1, "src1").astype(np.float64), as_array(src2, "src2").astype(np.float64)
    kind = np.float64 if np.asarray(src1).dtype == np.float64 else np.float32
    b = b if b.ndim == 2 else b.reshape(-1, 1)
    if a.ndim != 2 or len(a) != len(b):
        raise ShapeError(f"solve(): {a.shape} and {b.shape} are no equations")
    if method & DECOMP_NORMAL:
        a, b, method = a.T @ a, a.T @ b, method & ~DECOMP_NORMAL
    if method in (DECOMP_LU, DECOMP_CHOLESKY, DECOMP_EIG) and a.shape[0] != a.shape[1]:
        raise ShapeError(f"solve(): {a.shape} is not square; use DECOMP_SVD, DECOMP_QR or DECOMP_NORMAL")
    nothing = np.zeros((a.shape[1], b.shape[1]), kind)
    try:
        if method == DECOMP_CHOLESKY:
            lower = np.linalg.cholesky(a)
            x = np.linalg.solve(lower.T, np.linalg.solve(lower, b))
        elif method == DECOMP_LU:
            x = np.linalg.solve(a, b)
        elif method in (DECOMP_SVD, DECOMP_EIG, DECOMP_QR):
            x, _, rank, _ = np.linalg.lstsq(a, b, rcond=None)
            if method == DECOMP_QR and rank < a.shape[1]:
                return False, _wrap(nothing)
        else:
            raise MNNError(f"method is {method}; it must be one of DECOMP_*")
    except np.linalg.LinAlgError:
        return False, _wrap(nothing)
    return True, _wrap(x.astype(kind))


def Rodrigues(src: ArrayLike) -> Var:  # noqa: N802
    """The rotation matrix (3, 3) of a vector (its axis times the angle), or the vector (3, 1) of a matrix."""
    given = as_array(src).astype(np.float64)
    if given.size == 3:
        return _wrap(rotation(given.ravel()).astype(np.float32))
    if given.shape != (3, 3):
        raise ShapeError(f"Rodrigues() takes 3 numbers or a 3 x 3 matrix, found shape {given.shape}")
    return _wrap(turn_of(nearest_rotation(given)).astype(np.float32)[:, None])


def rotation(turn: Array) -> Array:
    """The matrix of a rotation vector (Rodrigues, 1840)."""
    angle = float(np.linalg.norm(turn))
    if angle < 1e-12:
        return np.eye(3) + _cross(turn)
    axis = _cross(turn / angle)
    return np.eye(3) + math.sin(angle) * axis + (1 - math.cos(angle)) * (axis @ axis)


def turn_of(matrix: Array) -> Array:
    """The vector of a rotation matrix."""
    twist = np.array([matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]]) / 2
    sine, cosine = float(np.linalg.norm(twist)), (float(np.trace(matrix)) - 1) / 2
    angle = math.atan2(sine, cosine)
    if sine > 1e-6:
        return twist * (angle / sine)
    if cosine > 0:
        return twist
    squares = (matrix + np.eye(3)) / 2  # axis times axis: half a turn
    largest = int(np.argmax(np.diag(squares)))
    axis = squares[largest] / math.sqrt(squares[largest, largest])
    return np.asarray(axis / np.linalg.norm(axis) * angle)


def nearest_rotation(matrix: Array) -> Array:
    """The rotation that is closest to a matrix."""
    u, _, v = np.linalg.svd(matrix)
    return np.asarray(u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v)


def _cross(v: Array) -> Array:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


# -- pose -------------------------------------------------------------------------------------------------------------


def solvePnP(  # noqa: N802
    objectPoints: ArrayLike, imagePoints: ArrayLike, cameraMatrix: ArrayLike, distCoeffs: ArrayLike | None,
    flags: int = SOLVEPNP_ITERATIVE,
) -> tuple[bool, Var, Var]:  # fmt: skip
    """Where points (count, 3) are that a camera sees at (count, 2): True, rotation vector and translation (3, 1).

    ``cameraMatrix`` 3 x 3; ``distCoeffs`` of 0, 4, 5 or 8 numbers (k1, k2, p1, p2, k3 ...). ``SOLVEPNP_SQPNP``
    minimises distances in space (Terzakis and Lourakis, 2020), ``SOLVEPNP_ITERATIVE`` from there on in the picture."""
    points = as_array(objectPoints, "objectPoints").astype(np.float64).reshape(-1, 3)
    seen = as_array(imagePoints, "imagePoints").astype(np.float64).reshape(-1, 2)
    if flags not in (SOLVEPNP_ITERATIVE, SOLVEPNP_SQPNP):
        raise MNNError(f"flags is {flags}; it must be SOLVEPNP_ITERATIVE or SOLVEPNP_SQPNP")
    if len(points) != len(seen) or len(points) < (4 if flags == SOLVEPNP_ITERATIVE else 3):
        raise ShapeError(f"solvePnP(): {len(points)} points and {len(seen)} places in the picture")
    camera = as_array(cameraMatrix, "cameraMatrix").astype(np.float64).reshape(3, 3)
    given = np.zeros(0) if distCoeffs is None else as_array(distCoeffs, "distCoeffs").astype(np.float64).ravel()
    if given.size not in (0, 4, 5, 8):
        raise ShapeError(f"distCoeffs are 0, 4, 5 or 8 numbers, found {given.size}")
    bends = np.concatenate([given, np.zeros(8 - given.size)])
    plain = _straightened((seen - camera[:2, 2]) / camera[[0, 1], [0, 1]], bends)
    try:
        turn, shift = _in_space(points, plain)
        if flags == SOLVEPNP_ITERATIVE:
            turn, shift = _in_picture(points, seen, camera, bends, turn, shift)
    except np.linalg.LinAlgError:
        raise MNNError("solvePnP(): no pose follows from points that lie on each other or on a line, or places that "
                       "are no finite numbers; give others") from None  # fmt: skip
    return True, _wrap(turn[:, None]), _wrap(shift[:, None])


def _bent(plain: Array, bends: Array) -> Array:
    """Directions as a lens shows them (Brown's model)."""
    k1, k2, p1, p2, k3, k4, k5, k6 = bends
    x, y = plain.T
    r = x * x + y * y
    radial = (1 + r * (k1 + r * (k2 + r * k3))) / (1 + r * (k4 + r * (k5 + r * k6)))
    u = x * radial + 2 * p1 * x * y + p2 * (r + 2 * x * x)
    v = y * radial + p1 * (r + 2 * y * y) + 2 * p2 * x * y
    return np.stack([u, v], 1)


def _straightened(seen: Array, bends: Array) -> Array:
    """The directions that a lens shows at ``seen``; where it shows none there, one that it shows near by."""
    plain = kept = seen.copy()
    least = np.full(len(seen), np.inf)
    for _ in range(50 if bends.any() else 0):
        missing = seen - _bent(plain, bends)
        apart = np.abs(missing).max(1)
        closer = apart < least
        if not closer.any():
            break
        least, kept = np.where(closer, apart, least), np.where(closer[:, None], plain, kept)
        plain = np.where(closer[:, None], plain + missing, kept)
    return np.asarray(kept)


def _in_space(points: Array, plain: Array) -> tuple[Array, Array]:
    """The pose that minimises squared distances of points from the rays on which they are seen."""
    weights = np.array([_weight(p) for p in plain])
    spread = np.zeros((len(points), 3, 9))
    for i in range(3):
        spread[:, i, 3 * i : 3 * i + 3] = points
    middle = weights.sum(0)
    to_shift = -np.linalg.solve(middle, np.einsum("nij,njk->ik", weights, spread))
    parts = spread + to_shift
    cost = np.einsum("nji,njk,nkl->il", parts, weights, parts)
    best: tuple[float, Array] | None = None
    _, vectors = np.linalg.eigh(cost)
    for vector in vectors.T[:3]:
        for sign in (1, -1):
            matrix = _descend(cost, nearest_rotation(sign * vector.reshape(3, 3)))
            shift = to_shift @ matrix.ravel()
            ahead = (points @ matrix.T + shift)[:, 2].mean() > 0
            value = float(matrix.ravel() @ cost @ matrix.ravel()) + (0 if ahead else 1e12)
            if best is None or value < best[0]:
                best = value, matrix
    assert best is not None
    return turn_of(best[1]), to_shift @ best[1].ravel()


def _weight(plain: Array) -> Array:
    """What squares ``x - u z`` and ``y - v z`` of a point seen at (u, v)."""
    u, v = plain
    return np.array([[1, 0, -u], [0, 1, -v], [-u, -v, u * u + v * v]])


def _descend(cost: Array, matrix: Array) -> Array:
    """Newton's steps (damped) on rotations for the quadratic cost of a matrix's nine elements."""
    damping = 1e-3 * float(np.trace(cost)) / 9
    value = float(matrix.ravel() @ cost @ matrix.ravel())
    for _ in range(100):
        ways = np.stack([(_cross(np.eye(3)[i]) @ matrix).ravel() for i in range(3)], 1)
        slope, bend = ways.T @ cost @ matrix.ravel(), ways.T @ cost @ ways
        step = -np.linalg.solve(bend + damping * np.eye(3), slope)
        trial = rotation(step) @ matrix
        found = float(trial.ravel() @ cost @ trial.ravel())
        if found < value:
            matrix, value, damping = trial, found, damping * 0.3
        else:
            damping *= 4
        if float(np.linalg.norm(step)) < 1e-13:
            break
    return nearest_rotation(matrix)


def _in_picture(
    points: Array, seen: Array, camera: Array, bends: Array, turn: Array, shift: Array
) -> tuple[Array, Array]:
    """Levenberg and Marquardt's steps for the distances in the picture."""

    def apart(pose: Array) -> Array:
        placed = points @ rotation(pose[:3]).T + pose[3:]
        shown = _bent(placed[:, :2] / placed[:, 2:], bends) * camera[[0, 1], [0, 1]] + camera[:2, 2]
        return np.asarray(shown - seen).ravel()

    pose, damping = np.concatenate([turn, shift]), 1e-3
    errors = apart(pose)
    for _ in range(100):
        nudge = 1e-6 * np.maximum(np.abs(pose), 1e-3)
        ways = np.stack([(apart(pose + n) - apart(pose - n)) / (2 * n.sum()) for n in np.diag(nudge)], 1)
        normal = ways.T @ ways
        step = -np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), ways.T @ errors)
        found = apart(pose + step)
        if float(found @ found) <= float(errors @ errors):
            pose, errors, damping = pose + step, found, damping * 0.2
        else:
            damping *= 5
        if float(np.linalg.norm(step)) < 1e-12 * float(np.linalg.norm(pose)):
            break
    return pose[:3], pose[3:]
