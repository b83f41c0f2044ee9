# ruff: noqa: N802, N815 - the names are PyMNN's
"""PyMNN's Tensor: an array with an order of its sizes, on the host or bound to a session."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from MNN.errors import CallError, MNNError, ShapeError
from MNN.expr import memory
from MNN.expr.types import channels_first, channels_last, data_format
from MNN.expr.var import Var
from MNN.ir.dtype import DType


@dataclass(frozen=True)
class HalideType:
    """An element type of tensors."""

    name: str
    kind: DType

    def __repr__(self) -> str:
        return f"Halide_Type_{self.name}"


Halide_Type_Float = HalideType("Float", DType.F32)
Halide_Type_Double = HalideType("Double", DType.F64)
Halide_Type_Int = HalideType("Int", DType.I32)
Halide_Type_Int64 = HalideType("Int64", DType.I64)
Halide_Type_Uint8 = HalideType("Uint8", DType.U8)
Halide_Type_String = HalideType("String", DType.STR)
_TYPES = {
    t.kind: t
    for t in (Halide_Type_Float, Halide_Type_Double, Halide_Type_Int, Halide_Type_Int64, Halide_Type_Uint8,
              Halide_Type_String)
}  # fmt: skip

Tensor_DimensionType_Tensorflow = 0
"""Sizes as (batch, height, width, channels)."""
Tensor_DimensionType_Caffe = 1
"""Sizes as (batch, channels, height, width)."""
Tensor_DimensionType_Caffe_C4 = 2
"""Sizes as Caffe's; another engine packs the memory, this one does not."""
_LAYOUTS = {data_format.NHWC: 0, data_format.NCHW: 1, data_format.NC4HW4: 2}


class Tensor:
    """An array whose sizes are listed in the order of its dimension type.

    - ``Tensor(var)``: the numbers of a Var.
    - ``Tensor(tensor_or_var, dimension_type)``: room for the same numbers in another order.
    - ``Tensor(shape, type, dimension_type)``: zeros.
    - ``Tensor(shape, type, data, dimension_type)``: numbers in row-major order (array, sequence, bytes, an
      address as a plain ``int`` or a capsule, whose memory is copied).
    """

    @overload
    def __init__(self, var: Var, /) -> None: ...
    @overload
    def __init__(self, source: Tensor | Var, dimension_type: int, /) -> None: ...
    @overload
    def __init__(self, shape: Sequence[int] | np.ndarray, kind: HalideType, dimension_type: int, /) -> None: ...
    @overload
    def __init__(
        self, shape: Sequence[int] | np.ndarray, kind: HalideType, data: ArrayLike, dimension_type: int, /
    ) -> None: ...
    def __init__(self, *args: Any) -> None:
        self._resized = False
        if len(args) == 1 and isinstance(args[0], Var):
            self._array, self._order = args[0].read(), _LAYOUTS[args[0].data_format]
        elif len(args) == 2 and isinstance(args[0], (Tensor, Var)):
            source = args[0] if isinstance(args[0], Tensor) else Tensor(args[0])
            self._order = _dimension_type(args[1])
            self._array = np.zeros(_reordered(source._array, source._order, self._order).shape, source._array.dtype)
        elif len(args) in (3, 4) and isinstance(args[1], HalideType):
            self._order = _dimension_type(args[-1])
            shape = _shape(args[0])
            if len(args) == 3:
                self._array = np.zeros(shape, args[1].kind.numpy)
            else:
                self._array = _numbers(args[2], args[1].kind, shape)
        else:
            raise CallError(
                "Tensor takes (Var), (Tensor or Var, dimension type), (shape, type, dimension type) or "
                f"(shape, type, data, dimension type); found {tuple(type(a).__name__ for a in args)}"
            )

    @classmethod
    def of(cls, array: np.ndarray, order: int = Tensor_DimensionType_Caffe) -> Tensor:
        """A tensor around an array, which is shared."""
        tensor = cls.__new__(cls)
        tensor._array, tensor._order, tensor._resized = array, order, False
        return tensor

    # -- what it is -----------------------------------------------------------------------------------------------

    def getShape(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self._array.shape)

    def getDataType(self) -> HalideType:
        """The element type; those without a name of their own have that of the next wider one."""
        kind = DType.of(self._array)
        return _TYPES.get(kind) or (Halide_Type_Float if kind.is_float else Halide_Type_Int)

    def getDimensionType(self) -> int:
        """The order of the sizes, one of ``Tensor_DimensionType_*``."""
        return self._order

    # -- numbers --------------------------------------------------------------------------------------------------

    def getData(self) -> tuple[Any, ...]:
        """The numbers in row-major order, as Python's."""
        return tuple(self._array.reshape(-1).tolist())

    def getNumpyData(self) -> np.ndarray:
        """The numbers as an array that shares this tensor's memory."""
        return self._array

    def getHost(self) -> int:
        """The address of the numbers in memory."""
        return int(self._array.ctypes.data)

    def copyFrom(self, source: Tensor) -> bool:
        """Takes the numbers of another tensor, in this one's order. Raises :class:`ShapeError` for other sizes."""
        if not isinstance(source, Tensor):
            raise MNNError(f"copyFrom() takes a Tensor, found {type(source).__name__}; use fromNumpy() for arrays")
        given = _reordered(source._array, source._order, self._order)
        if given.shape != self._array.shape:
            raise ShapeError(
                f"copyFrom(): a tensor of shape {list(source._array.shape)} does not fit one of shape "
                f"{list(self._array.shape)}; resizeTensor() and resizeSession() change a session's inputs"
            )
        self._array[...] = given
        return True

    copyFromHostTensor = copyFrom

    def copyToHostTensor(self, target: Tensor) -> bool:
        """Gives its numbers to another tensor, in that one's order."""
        if not isinstance(target, Tensor):
            raise MNNError(f"copyToHostTensor() takes a Tensor, found {type(target).__name__}")
        return target.copyFrom(self)

    def fromNumpy(self, data: ArrayLike) -> bool:
        """Takes as many numbers in row-major order. Raises :class:`ShapeError` for another count."""
        self._array[...] = _numbers(data, DType.of(self._array), self._array.shape)
        return True

    def printTensorData(self) -> None:
        """Prints the numbers."""
        print(self._array)

    def __repr__(self) -> str:
        return repr(self._array)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        found: np.ndarray = self._array if dtype is None else self._array.astype(dtype)
        return found.copy() if copy else found

    def _resize(self, shape: tuple[int, ...]) -> None:
        if shape != self._array.shape:
            self._array = np.zeros(shape, self._array.dtype)
        self._resized = True


def _shape(value: Any) -> tuple[int, ...]:
    try:
        fits = isinstance(value, (Sequence, np.ndarray)) and all(int(d) == d and d >= 0 for d in value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ShapeError(f"a shape is a sequence of whole numbers, found {value!r}")
    return tuple(int(d) for d in value)


def _dimension_type(value: object) -> int:
    if value not in (0, 1, 2) or isinstance(value, bool):
        raise MNNError(f"{value!r} is no dimension type; use one of MNN.Tensor_DimensionType_*")
    return int(value)


def _numbers(data: object, kind: DType, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(data, (bytes, bytearray, memoryview)):
        array = np.frombuffer(data, kind.numpy)
    elif kind is not DType.STR and (type(data) is int or memory.is_capsule(data)):
        array = memory.read(memory.address_of(data, "Tensor"), math.prod(shape), np.dtype(kind.numpy), "Tensor")
    else:
        array = np.asarray(data)
    if kind is not DType.STR and array.dtype.kind not in "biuf":
        raise MNNError(f"{type(data).__name__} of {array.dtype} is not numbers")
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise ShapeError(f"{array.size} numbers for a tensor of shape {list(shape)}")
    return np.array(array, kind.numpy).reshape(shape)


def _reordered(array: np.ndarray, source: int, target: int) -> np.ndarray:
    last = Tensor_DimensionType_Tensorflow
    if (source == last) == (target == last):
        return array
    order = channels_first(array.ndim) if source == last else channels_last(array.ndim)
    return np.transpose(array, order)
