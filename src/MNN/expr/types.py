"""Enumerations of the API: element types, layouts, and settings. They print as PyMNN's do (``dtype.float``)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from MNN.errors import MNNError
from MNN.ir.dtype import DType


class _Named(Enum):
    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__
    __hash__ = object.__hash__  # members are the only ones of their kind; Enum's own way is slow


class data_format(_Named):  # noqa: N801 - PyMNN's name
    """How the sizes of a tensor are listed. NC4HW4 lists them as NCHW does; its packing is another engine's own."""

    NCHW = 0
    NHWC = 1
    NC4HW4 = 2


class dtype(_Named):  # noqa: N801 - PyMNN's name
    """Element types that a Var can have."""

    float = DType.F32
    double = DType.F64
    int = DType.I32
    int64 = DType.I64
    uint8 = DType.U8
    int8 = DType.I8


class Backend(_Named):
    """Where a model runs; this engine has the CPU."""

    CPU = 0
    METAL = 1
    CUDA = 2
    OPENCL = 3
    OPENGL = 6
    VULKAN = 7
    TRT = 9
    HIAI = 10


class PrecisionMode(_Named):
    """How exactly to compute; see the settings of a session."""

    Normal = 0
    High = 1
    Low = 2
    Low_BF16 = 3


class MemoryMode(_Named):
    """How much memory may be used; taken for PyMNN's sake."""

    Normal = 0
    High = 1
    Low = 2


class PowerMode(_Named):
    """Which cores to use; taken for PyMNN's sake."""

    Normal = 0
    High = 1
    Low = 2


class Padding_Mode(_Named):  # noqa: N801 - PyMNN's name
    """Explicit padding (CAFFE), none (VALID), or as much as keeps the size (SAME)."""

    CAFFE = 0
    VALID = 1
    SAME = 2


class PadValue_Mode(_Named):  # noqa: N801 - PyMNN's name
    """What a border holds: zeros, the mirrored tensor, the mirrored tensor with its edge."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2


class Pooling_Mode(_Named):  # noqa: N801 - PyMNN's name
    """Maximum or mean."""

    MAXPOOL = 0
    AVEPOOL = 1


class Interp_Method(_Named):  # noqa: N801 - PyMNN's name
    """Interpolation between pixels."""

    NEAREST = 0
    BILINEAR = 1


Ints: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | np.ndarray
"""Sizes, axes, positions: a whole number, or a sequence or array of them (a Var, too)."""
Axes: TypeAlias = Ints | None
"""Axes to work along; None means all of them."""
_Place: TypeAlias = slice | EllipsisType | ArrayLike | None
Index: TypeAlias = _Place | tuple[_Place, ...]
"""What stands between brackets: positions, slices, masks, ``...`` and None, or a tuple of them."""
ElementType: TypeAlias = dtype | DTypeLike
"""What stands for an element type: one of :class:`dtype`, or numpy's."""
VarOrNumber: TypeAlias = Any
"""What gives a Python number where a single element of constants is left, and a Var otherwise. Which of the two it is
depends on values, so that type checkers are told as much as they are by numpy in the same place."""

NCHW, NHWC, NC4HW4 = data_format
_BY_DTYPE: dict[DType, dtype] = {member.value: member for member in dtype}
_STORED = {
    DType.BOOL: DType.I32,
    DType.I16: DType.I32,
    DType.U16: DType.I32,
    DType.U32: DType.I64,
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
}
"""Element types that a Var does not have, and the one that holds their numbers without loss."""


def public(kind: DType) -> dtype:
    """The API's name of an element type that a Var can hold."""
    return _BY_DTYPE[kind]


def storable(kind: DType) -> DType:
    """The element type in which a Var keeps numbers of ``kind``: truth values become 32-bit integers."""
    kind = _STORED.get(kind, kind)
    if kind not in _BY_DTYPE:
        raise MNNError(f"a Var cannot hold elements of type {kind.value}; use MNN.load, which gives numpy arrays")
    return kind


def dtype_of(value: object) -> DType:
    """The element type that a user names: a ``dtype``, a numpy dtype, ``float`` or ``int``."""
    if isinstance(value, dtype):
        return value.value
    if isinstance(value, DType):
        return storable(value)
    if value is float:
        return DType.F32
    if value is int:
        return DType.I32
    try:
        return storable(DType.of(np.dtype(value)))  # type: ignore[call-overload]
    except (TypeError, KeyError, ValueError) as error:
        found = value if isinstance(value, (str, type, np.dtype)) else type(value).__name__
        raise MNNError(f"{found!r} is no element type; they are {', '.join(map(str, dtype))}") from error


def promote(a: DType, b: DType) -> DType:
    """The element type in which two operands meet: the wider one, floats before integers, at least 32 bits."""
    if a is b:
        return a
    order = (DType.F64, DType.F32, DType.I64, DType.I32)
    return next((kind for kind in order if kind in (a, b)), DType.I32)


def format_of(value: object) -> data_format:
    """A layout that a user gives."""
    if not isinstance(value, data_format):
        raise MNNError(f"{value!r} is no data format; they are {', '.join(map(str, data_format))}")
    return value


def channels_first(rank: int) -> tuple[int, ...]:
    """The order of axes that turns NHWC sizes into NCHW ones."""
    return tuple(range(rank)) if rank < 3 else (0, rank - 1, *range(1, rank - 1))


def channels_last(rank: int) -> tuple[int, ...]:
    """The order of axes that turns NCHW sizes into NHWC ones."""
    return tuple(range(rank)) if rank < 3 else (0, *range(2, rank), 1)
