"""Linear algebra, computed with numpy on the numbers at hand."""

from __future__ import annotations

from typing import Any

import numpy as _np

from MNN.errors import MNNError
from MNN.expr import build, math, reducing
from MNN.expr.var import Var


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Var:
    """The Euclidean norm over axes (all when none is given); any other ``ord`` as numpy defines it."""
    if ord is None:
        return math.sqrt(reducing.reduce_sum(math.square(build.floats(x)), axis, keepdims))
    axes = tuple(reducing.axes_of(axis)) if isinstance(axis, (tuple, list)) else axis
    return _numbers(_np.linalg.norm, x, ord=ord, axis=axes, keepdims=keepdims)


def solve(a: Any, b: Any) -> Var:
    """``x`` with ``a @ x = b``."""
    return _numbers(_np.linalg.solve, a, build.floats(b)._array())


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The singular value decomposition: u, s, vh, or s alone."""
    found: Any = _np.linalg.svd(build.floats(a)._array(), full_matrices, compute_uv, hermitian)  # type: ignore[call-overload]
    return tuple(build.leaf(_np.asarray(f)) for f in found) if compute_uv else build.leaf(_np.asarray(found))


def _numbers(function: Any, a: Any, *rest: Any, **options: Any) -> Var:
    try:
        return build.leaf(_np.asarray(function(build.floats(a)._array(), *rest, **options), _np.float32))
    except (_np.linalg.LinAlgError, ValueError) as error:
        raise MNNError(f"{function.__name__}(): {error}") from error
