"""What every function of this package does with its arguments and results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from MNN.errors import MNNError, ShapeError
from MNN.expr.build import picture
from MNN.expr.var import Var

Array = NDArray[Any]

_USUAL = frozenset((np.dtype(np.uint8), np.dtype(np.float32)))
_result: list[Callable[[Array], Var]] = [picture]


def set_wrapper(wrap: Callable[[Array], Var]) -> None:
    """Has every public function return ``wrap(array)`` instead of a Var (for tests of the arrays themselves)."""
    _result[0] = wrap


def _wrap(array: Array) -> Var:
    return _result[0](array)


def as_array(value: object, what: str = "src") -> Array:
    """A numpy array of anything with ``__array__``, or of a (nested) sequence of numbers."""
    array = value._array() if isinstance(value, Var) else np.asarray(value)  # a Var itself would give a copy
    if array.dtype.kind not in "biuf":
        raise MNNError(f"{what} must hold numbers; it is a {type(value).__name__} of dtype {array.dtype}")
    return array


def as_pictures(value: object, what: str = "src") -> Array:
    """The same for a picture or a batch of pictures, none of whose sizes is 0."""
    if type(value) is np.ndarray and value.dtype in _USUAL and len(value.shape) in (2, 3) and value.size:
        return value  # what most are, before what takes longer to ask
    array = as_array(value, what)
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ShapeError(f"{what} has shape {array.shape}; {_SHAPES}")
    return array


def as_image(value: object, what: str = "src") -> Array:
    """The same for one picture, (height, width) or (height, width, channels): a batch of one loses its first axis, with
    the channels moved to the end where it is a Var that has them elsewhere."""
    array = as_pictures(value, what)
    if array.ndim < 4:
        return array
    if len(array) != 1:
        raise ShapeError(f"{what} is a batch of {len(array)} pictures, {array.shape}; give them one by one")
    layout = getattr(value, "data_format", None)
    channels_first = layout is not None and getattr(layout, "name", "NHWC") != "NHWC"
    picture: Array = array[0].transpose(1, 2, 0) if channels_first else array[0]
    return picture


_SHAPES = "a picture has shape (height, width) or (height, width, channels)"


def as_planes(value: object, what: str = "src") -> Array:
    """The same with the channels always there: shape (height, width, channels)."""
    array = as_image(value, what)
    return array if array.ndim == 3 else array[:, :, None]


def to_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Converts as OpenCV does: to integers by rounding half to even and clamping, to floats as they are."""
    if dtype.kind not in "iu":
        return values.astype(dtype, copy=False)
    if values.dtype.kind == "f":
        values = np.rint(values)
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


_FINITE = sys.float_info.max


def pair(value: object, what: str) -> tuple[float, float]:
    """Two finite numbers, such as a point or a size (x first)."""
    if type(value) is tuple and len(value) == 2 and all(type(n) in (int, float) for n in value):
        x, y = value  # what most callers give: an array takes longer to make than some pictures to compute
        if -_FINITE <= x <= _FINITE and -_FINITE <= y <= _FINITE:
            return float(x), float(y)
    array = as_array(value, what).astype(np.float64).ravel()
    if array.shape != (2,) or not np.isfinite(array).all():
        raise MNNError(f"{what} must be two numbers (x first); it is {value!r}")
    return float(array[0]), float(array[1])


def size(value: object, what: str = "dsize") -> tuple[int, int]:
    """Two positive whole numbers: width, height."""
    width, height = pair(value, what)
    if width < 1 or height < 1 or width != int(width) or height != int(height):
        raise MNNError(f"{what} must be (width, height), whole and positive; it is {value!r}")
    return int(width), int(height)
