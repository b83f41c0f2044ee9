"""Element types of tensors, and how they map to numpy and to LLVM."""

from __future__ import annotations

import enum
import functools

import ml_dtypes
import numpy as np

PARTED = 32
"""Neighbours of which ``BF16X2`` keeps the first parts before the second ones; vectors do not reach across."""


class DType(enum.Enum):
    """An element type. The value is the short name used in kernels' names, messages and the docs."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F64 = "f64"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"
    BF16X2 = "bf16x2"
    """f32 kept as two bf16 whose sum it is: of :data:`PARTED` neighbours the first parts and behind them the second
    ones, in the memory of the f32. Only tensors between kernels are of this type, whose last dimension in memory is
    whole thirty-twos (:mod:`MNN.backends.cpu.amx.split_storage`). Numbers within 2^-16 of the largest f32 may become
    infinite."""
    STR = "str"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0 = "f8e8m0"
    F4E2M1 = "f4e2m1"
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"
    U2 = "u2"

    __hash__ = object.__hash__  # members are the only ones of their kind; Enum's own way is slow

    @functools.cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype that holds this type (``object`` for strings)."""
        return _NUMPY[self]

    @functools.cached_property
    def size(self) -> int:
        """Bytes per element in memory; booleans take one byte."""
        return self.numpy.itemsize

    @functools.cached_property
    def is_float(self) -> bool:
        return self in (DType.F32, DType.F16, DType.BF16, DType.F64, DType.BF16X2)

    @property
    def is_signed(self) -> bool:
        return self in (DType.I8, DType.I16, DType.I32, DType.I64)

    @property
    def is_unsigned(self) -> bool:
        return self in (DType.U8, DType.U16, DType.U32, DType.U64)

    @property
    def is_int(self) -> bool:
        return self.is_signed or self.is_unsigned

    @property
    def is_narrow(self) -> bool:
        """Whether this is a type of 8 bits or less that is only stored and converted, one element to a byte: nothing
        is computed with it, and it counts neither as a float nor as an integer."""
        return self in _NARROW

    @staticmethod
    def of(array_or_dtype: object) -> DType:
        """The DType of a numpy array or numpy dtype-like. Raises ``KeyError`` for types without one (complex)."""
        if isinstance(array_or_dtype, np.ndarray) and (found := _FROM_NUMPY.get(array_or_dtype.dtype)) is not None:
            return found
        dtype = np.dtype(getattr(array_or_dtype, "dtype", array_or_dtype))  # type: ignore[call-overload]
        if dtype.kind in "OSU":
            return DType.STR
        return _FROM_NUMPY[dtype.newbyteorder("=")]


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.BF16X2: np.dtype([("first", ml_dtypes.bfloat16), ("second", ml_dtypes.bfloat16)]),
    DType.STR: np.dtype(object),
    DType.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.F4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.U2: np.dtype(ml_dtypes.uint2),
}
_NARROW = frozenset(list(DType)[list(DType).index(DType.STR) + 1 :])
_FROM_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items() if dtype is not DType.STR}
