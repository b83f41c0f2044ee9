"""What is given as an input: arrays of the model's element type, or of another one of the same kind.

Floating point numbers of any width are taken where floating point numbers are wanted, whole numbers (and truth values)
of any width where whole numbers are, as long as their values fit. Whole numbers are not taken for floating point ones:
a picture of bytes is mostly one that has yet to be scaled. Lists and Python's own numbers have no type, and take the
model's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.runtime.info import TensorInfo


def as_input(info: TensorInfo, value: object) -> np.ndarray:
    """The array for an input. Raises :class:`ShapeError` when its elements are of another kind or do not fit."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ShapeError(f"input '{info.name}' takes an array, not {type(value).__name__}: {error}") from error
    try:
        have = DType.of(array)
    except KeyError as error:
        what = f"arrays of {array.dtype}" if array.dtype != object else f"a {type(value).__name__}"
        raise ShapeError(
            f"input '{info.name}': {what} {'are' if array.dtype != object else 'is'} not supported"
        ) from error
    want = info.dtype
    if want is None or have is want:
        return array
    untyped = not hasattr(value, "dtype") and (have.is_int or have is DType.BOOL)
    if (have.is_float and want.is_float) or (_whole(have) and _whole(want)) or (untyped and want.is_float):
        return _converted(info, array, want)
    raise ShapeError(
        f"input '{info.name}' is {have.value} but the model takes {want.value}; convert it first{_advice(have, want)}"
    )


def _whole(dtype: DType) -> bool:
    return dtype.is_int or dtype is DType.BOOL


def _converted(info: TensorInfo, array: np.ndarray, want: DType) -> np.ndarray:
    with np.errstate(over="ignore"):
        found: np.ndarray = array.astype(want.numpy)
    if want.is_float:
        fits = bool((np.isfinite(found) == np.isfinite(array)).all())
    else:
        fits = bool((found.astype(array.dtype) == array).all() and ((found < 0) == (array < 0)).all())
    if not fits:
        raise ShapeError(
            f"input '{info.name}' holds numbers that {want.value}, which the model takes, cannot hold: they are from "
            f"{array.min()} to {array.max()}"
        )
    return found


def _advice(have: DType, want: DType) -> str:
    if have is DType.U8 and want.is_float:
        return " and scale it as the model was trained, for example array.astype(np.float32) / 255"
    return f", for example by array.astype(np.{want.numpy.name})" if want is not DType.STR else ""


def named(inputs: dict[str, TensorInfo], value: object) -> dict[str, Any]:
    """Inputs by name, from whatever was given in place of a dict: one array for the only input of a model."""
    if value is None or isinstance(value, str):
        given = "nothing" if value is None else f"the text '{value:.40}'"
    elif hasattr(value, "keys"):
        return {str(name): value[name] for name in value.keys()}  # type: ignore[index]  # noqa: SIM118
    elif len(inputs) == 1:
        return {next(iter(inputs)): value}
    else:
        given = f"a {type(value).__name__}"
    shown = ", ".join(f"'{name}': array" for name in inputs)
    raise ShapeError(f"a run takes a dict of arrays by name, not {given}: {{{shown}}}")


__all__ = ["as_input", "named"]
