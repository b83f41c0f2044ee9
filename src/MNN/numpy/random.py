"""Random arrays. ``seed`` makes them repeat."""

from __future__ import annotations

from typing import Any

import numpy as _np

from MNN.errors import MNNError
from MNN.expr import build, compute
from MNN.expr.types import ElementType, Ints, dtype, dtype_of, public
from MNN.expr.var import Var

_state = [_np.random.default_rng()]


def seed(value: int | None = None) -> None:
    """Starts the sequence anew."""
    _state[0] = _np.random.default_rng(value)


def random(shape: Ints = ()) -> Var:
    """Uniform in [0, 1)."""
    return build.leaf(_np.asarray(_state[0].random(compute.shape_of(shape), _np.float32)))


def rand(*args: int) -> Var:
    """Uniform in [0, 1); the sizes are the arguments."""
    return random(args)


def randn(*args: int) -> Var:
    """Normal with mean 0 and deviation 1; the sizes are the arguments."""
    return build.leaf(_np.asarray(_state[0].standard_normal(compute.shape_of(args), _np.float32)))


def randint(low: int, high: int | None = None, size: Ints | None = None, dtype: ElementType = dtype.int) -> Var:
    """Whole numbers from ``low`` to below ``high``, or from 0 to below ``low``."""
    first, last = (0, low) if high is None else (low, high)
    dims = compute.shape_of([1] if size is None else size)
    if first >= last:
        raise MNNError(f"randint(): there is no whole number from {first} to below {last}")
    kind = dtype_of(dtype)
    ends: Any = _np.iinfo(_np.int64 if kind.is_float else kind.numpy)
    if first < ends.min or last - 1 > ends.max:
        raise MNNError(f"randint(): not all from {first} to below {last} are {public(kind)}; name a wider dtype")
    return build.leaf(_np.asarray(_state[0].integers(first, last, dims)).astype(kind.numpy))
