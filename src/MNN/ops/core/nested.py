"""Values that are more than one tensor: lists (sequences), dicts (maps), None (an empty optional).

Inside a plan they are :class:`~MNN.ops.control.sequence.ListTensor`, of which only the leaves, plain tensors, reach a
program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.classical.maps import MapTensor
from MNN.ops.control.sequence import ListTensor

Nested: TypeAlias = "np.ndarray | list[Nested] | dict[object, object] | None"


def checked(name: str, value: object) -> Nested:
    """What a user gave for an input that may be a sequence, a map or an optional: arrays in place of the like."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        keys, values = (_array(name, list(part)) for part in (value.keys(), value.values()))
        if keys.ndim != 1 or keys.dtype.kind not in "iO" or values.ndim != 1:
            raise ShapeError(f"input '{name}': a map is a dict from strings or integers to numbers or strings")
        return dict(value)
    if isinstance(value, (list, tuple)):
        return [checked(name, v) for v in value]
    return _array(name, value)


def _array(name: str, value: object) -> np.ndarray:
    """Raises :class:`ShapeError` for what is no array of an element type that there is."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"input '{name}': {str(error)[:200]}") from error
    if array.dtype.kind in "SU":
        return array.astype(object)
    try:
        DType.of(array)
    except KeyError as error:
        raise ShapeError(f"input '{name}': arrays of {array.dtype} are not supported") from error
    return array


def arrays(value: Nested) -> list[np.ndarray]:
    """The arrays of a value, in the order of :func:`leaves`."""
    if isinstance(value, dict):
        return list(_pair(value))
    if isinstance(value, list):
        return [a for v in value for a in arrays(v)]
    return [] if value is None else [value]


def _pair(value: Mapping[object, object]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values of a map; floats as ONNX has them, in 32 bits."""
    keys, values = _array("a map", list(value)), _array("a map", list(value.values()))
    if not value:
        keys = keys.astype(object)
    return keys, values.astype(np.float32) if values.dtype == np.float64 else values


def signature(value: Nested, numbers: bool = False) -> Hashable:
    """What tells values apart for planning: kinds, element types and shapes, on demand also the numbers."""
    if isinstance(value, (dict, list)):
        parts = arrays(value) if isinstance(value, dict) else value
        return type(value).__name__, *(signature(p, numbers) for p in parts)
    if value is None:
        return None
    if not numbers:
        return value.dtype, value.shape
    return value.dtype, value.shape, tuple(value.reshape(-1)) if value.dtype == object else value.tobytes()


def tensor_of(name: str, value: Nested, make: Callable[[str, np.ndarray], Tensor]) -> Tensor:
    """The tensor that stands for a value; ``make`` gives those of its arrays."""
    if isinstance(value, dict):
        keys, values = _pair(value)
        return MapTensor.pair(make(f"{name}.keys", keys), make(f"{name}.values", values))
    if isinstance(value, list):
        return ListTensor.of([tensor_of(f"{name}.{i}", v, make) for i, v in enumerate(value)])
    return ListTensor.of(None) if value is None else make(name, value)


def leaves(tensor: Tensor) -> Iterator[Tensor]:
    """The plain tensors of a value."""
    if isinstance(tensor, ListTensor):
        for item in tensor.items or ():
            yield from leaves(item)
    else:
        yield tensor


def is_constant(tensor: Tensor) -> bool:
    """Whether all of a value is known."""
    return all(t.const is not None for t in leaves(tensor))


def assemble(tensor: Tensor, number: Callable[[Tensor], np.ndarray]) -> Nested:
    """A value in the form users see; ``number`` gives the numbers of its plain tensors."""
    if isinstance(tensor, ListTensor):
        return tensor.assemble([assemble(t, number) for t in tensor.items or ()])  # type: ignore[return-value]
    return number(tensor)
