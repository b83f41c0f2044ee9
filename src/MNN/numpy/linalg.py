"""Linear algebra, computed with numpy on the numbers at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import MNNError
from MNN.expr import build, math, reducing
from MNN.expr.types import Axes
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.numpy._at_hand import made


def norm(x: ArrayLike, ord: int | float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Var:
    """The Euclidean norm over axes (all when none is given); any other ``ord`` as numpy defines it."""
    if ord is None:
        return math.sqrt(reducing.reduce_sum(math.square(build.floats(x)), axis, keepdims))
    axes = tuple(reducing.axes_of(axis)) if isinstance(axis, (tuple, list)) else axis
    return _numbers(_np.linalg.norm, x, ord=ord, axis=axes, keepdims=keepdims)


def solve(a: ArrayLike, b: ArrayLike) -> Var:
    """``x`` with ``a @ x = b``."""
    x, y = build.pair(a, b)
    return _numbers(_np.linalg.solve, x, build.floats(y)._array())


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> tuple[Var, Var, Var]: ...
@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False) -> Var: ...
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> tuple[Var, ...] | Var:
    """The singular value decomposition: u, s, vh, or s alone."""
    array = build.floats(a)._array()
    if not compute_uv:
        return build.leaf(_np.linalg.svd(array, full_matrices, False, hermitian))
    return tuple(build.leaf(part) for part in _np.linalg.svd(array, full_matrices, True, hermitian))


def _numbers(function: Callable[..., object], a: ArrayLike, *rest: object, **options: object) -> Var:
    try:
        v = build.floats(a)
        return build.to_var(made(function(v._array(), *rest, **options), v._kind is DType.F64))
    except (_np.linalg.LinAlgError, ValueError) as error:
        raise MNNError(f"{function.__name__}(): {error}") from error
