"""Indexing of Vars: views as operators where the index is plain, whole arrays otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.arrays import few
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_COMPARISONS = {"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOTEQUAL"}


class VarIndexError(MNNError, IndexError):
    """An index outside of a Var, or of a kind that Vars do not take."""


def get(x: Var, key: object) -> Any:
    """``x[key]`` as numpy has it; a single element is a Python number unless it is yet to be computed."""
    found = few.part(x, key)
    if found is not None:
        return found
    parts = key if isinstance(key, tuple) else (key,)
    if not x._expr.sources:
        return result(_by_numpy(x, parts))
    if any(isinstance(p, (bool, np.bool_)) for p in parts):
        return _with_truths(x, parts)
    if all(p is None or p is Ellipsis or isinstance(p, (int, np.integer, slice)) for p in parts):
        return _by_operator(x, parts)
    if len(parts) == 1 and not _is_mask(parts[0]):
        index = build.to_var(parts[0])
        if index._kind.is_float:
            raise VarIndexError(f"{parts[0]!r} is no index")
        if _is_truth(index) and index.shape == x.shape:
            return build.apply("GatherND", x, build.apply("Where", index), layout=x.data_format)
        return build.apply("GatherV2", x, build.cast(index, DType.I32), build.number(0, DType.I32))
    raise VarIndexError("lists and masks index only constants (and whole rows): read() it, or use gather and where")


def result(x: Var) -> Any:
    """A scalar constant as a Python number, as PyMNN gives it; anything else as it is."""
    expr = x._expr
    if expr.op == "Const":
        return x if expr.leaf_type[1] else x._array().item()
    return x if x.ndim or expr.sources else x._array().item()


def _is_mask(part: object) -> bool:
    return isinstance(part, (list, tuple, np.ndarray)) and np.asarray(part).dtype == np.bool_


def _is_truth(x: Var) -> bool:
    """Whether an expression is a comparison's."""
    operand = x._expr.inputs[0] if x._expr.op == "Cast" else None
    return operand is not None and operand[0].op == "BinaryOp" and str(operand[0].attrs.get("opType")) in _COMPARISONS


def _plain(part: object) -> Any:
    """An index for numpy."""
    if isinstance(part, Var):
        return part._array()
    return np.asarray(part, None if np.size(part) else np.intp) if isinstance(part, list) else part


def _by_numpy(x: Var, parts: tuple[Any, ...]) -> Var:
    array = x._array()
    try:
        found = array[_numpy_key(array, parts)]
    except (IndexError, TypeError, ValueError) as error:
        raise VarIndexError(f"index {parts} of a Var of shape {x.shape}: {error}") from error
    return build.leaf(np.array(found, array.dtype), x.data_format)


def _numpy_key(array: np.ndarray, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index for numpy. Truth values are ints in Vars, so a Var of the same shape that holds nothing but 0 and 1
    is a mask, as in PyMNN."""
    key = []
    for part in parts:
        plain = _plain(part)
        if isinstance(part, Var):
            if plain.dtype.kind == "f":
                raise VarIndexError(f"a Var of {part.dtype} is no index")
            if plain.ndim and plain.shape == array.shape and len(parts) == 1 and plain.min(initial=0) >= 0:
                plain = plain.astype(np.bool_) if plain.max(initial=1) <= 1 else plain
        key.append(plain)
    return tuple(key)


def _with_truths(x: Var, parts: tuple[Any, ...]) -> Var:
    """One truth value between slices: another axis, of one element or of none."""
    places = [i for i, p in enumerate(parts) if isinstance(p, (bool, np.bool_))]
    others = [p for i, p in enumerate(parts) if i not in places]
    if len(places) > 1 or not all(p is None or p is Ellipsis or isinstance(p, slice) for p in others):
        raise VarIndexError("a truth value beside other numbers indexes only constants: read() it, or use None")
    (at,) = places
    found = _by_operator(x, (*parts[:at], None, *parts[at + 1 :]))
    if parts[at]:
        return found
    behind = [p for p in parts[at + 1 :] if p is not Ellipsis]
    axis = found.ndim - 1 - len(behind) if Ellipsis in parts[:at] else at
    return _by_operator(found, (*[slice(None)] * axis, slice(0, 0)))


def _by_operator(x: Var, parts: tuple[Any, ...]) -> Var:
    """A StridedSlice, with TensorFlow's masks."""
    begin: list[int] = []
    end: list[int] = []
    step: list[int] = []
    masks = dict.fromkeys(("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask"), 0)
    if Ellipsis not in [p for p in parts if not isinstance(p, np.ndarray)]:
        parts = (*parts, Ellipsis)
    shape, axis = x.shape, 0
    after = 0
    for i, part in enumerate(parts):
        bit, (a, z, s) = 1 << i, (0, 0, 1)
        if part is Ellipsis:
            masks["ellipsisMask"] |= bit
            after = sum(p is not None for p in parts[i + 1 :])
            axis = len(shape) - after
        elif part is None:
            masks["newAxisMask"] |= bit
        else:
            if not 0 <= axis < len(shape):
                raise VarIndexError(f"too many indices for a Var of shape {shape}")
            if isinstance(part, slice):
                a, z, s = part.start or 0, part.stop or 0, 1 if part.step is None else part.step
                masks["beginMask"] |= bit * (part.start is None)
                masks["endMask"] |= bit * (part.stop is None)
            else:
                a, z = int(part), int(part) + 1
                if not -shape[axis] <= a < shape[axis]:
                    raise VarIndexError(f"index {a} is outside of axis {axis} of a Var of shape {shape}")
                masks["shrinkAxisMask"] |= bit
            axis += 1
        begin.append(a)
        end.append(z)
        step.append(s)
    given = [build.ints(begin), build.ints(end), build.ints(step)]
    return build.apply("StridedSlice", x, *given, layout=x.data_format, **masks)


def assigned(array: np.ndarray, key: object, value: object) -> np.ndarray:
    """A copy of an array with ``copy[key] = value`` done."""
    parts = key if isinstance(key, tuple) else (key,)
    copy: np.ndarray = array.copy()
    try:
        # numpy tells of plain numbers that the element type does not have, and cuts off those of arrays
        copy[_numpy_key(array, parts)] = value if type(value) in (int, float) else np.asarray(value)
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise VarIndexError(f"assignment to index {parts} of a Var of shape {list(array.shape)}: {error}") from error
    return copy
