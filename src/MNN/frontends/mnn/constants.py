"""Constants as Blobs that both engines can read, and back: the official one knows 32- and 8-bit numbers only."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.ir.dtype import DType
from MNN.schema.blobs import array_to_blob
from MNN.schema.record import Record

_HALF_MAX = 65504.0
_SMALL = 64
"""Constants of at most this many elements keep their digits in a model with fp16 weights."""
_I32 = np.iinfo(np.int32)
_FAR = 1 << 30
_SHORT = (DType.BOOL, DType.I16, DType.U16)
_WIDE = (DType.I64, DType.U64, DType.U32)


def blob_of(array: np.ndarray, fp16: bool = False) -> Record:
    """The Blob of a constant; ``fp16`` stores large float ones as halves.

    Wider integers are limited to 32 bits; where that loses something, the exact numbers lie in ``int64s`` beside them
    (bits of unsigned ones). Doubles are rounded, and lie in ``uint8s`` exactly. The reader needs the element type from
    the side notes to bring them back.
    """
    dtype = DType.of(array)
    if dtype.is_narrow:  # the bytes as they are
        return array_to_blob(np.ascontiguousarray(array).view(np.uint8))
    if dtype in _SHORT:
        return array_to_blob(array.astype(np.int32))
    if dtype in _WIDE:
        # beyond 32 bits they mean "as far as possible"; less than the largest number, as sums must not overflow
        fits = (array <= _I32.max) if dtype is not DType.I64 else (array <= _I32.max) & (array >= _I32.min)
        narrow = np.where(fits, array, np.where(array > 0, _FAR, -_FAR)).astype(np.int32)
        blob = array_to_blob(narrow)
        if not np.array_equal(narrow.astype(array.dtype), array):
            blob.int64s = array.reshape(-1).astype(np.int64 if dtype is DType.I64 else np.uint64).view(np.int64)
        return blob
    if dtype is DType.F64:
        with np.errstate(over="ignore"):
            blob = array_to_blob(array.astype(np.float32))
        if not np.array_equal(array.astype(np.float32).astype(np.float64), array, equal_nan=True):
            blob.uint8s = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return blob
    if fp16 and dtype is DType.F32 and array.size > _SMALL:
        with np.errstate(invalid="ignore"):
            return array_to_blob(np.clip(array, -_HALF_MAX, _HALF_MAX).astype(np.float16))
    return array_to_blob(array)


def restored(blob: Record, array: np.ndarray, dtype: DType) -> np.ndarray:
    """A constant in the type it was written from. Numbers that the official types cannot hold lie beside them."""
    if dtype in (DType.I64, DType.U32, DType.U64) and blob.get("int64s") is not None:
        wide: np.ndarray = blob.int64s
    elif dtype is DType.F64 and blob.dataType == "DT_FLOAT" and blob.get("uint8s") is not None:
        raw: np.ndarray = blob.uint8s
        if raw.size != array.size * dtype.size:
            raise FormatError(f"Blob: {raw.size} raw bytes for {array.size} elements of {dtype.value}")
        wide = raw.view(dtype.numpy) if raw.flags.aligned else raw.copy().view(dtype.numpy)
    else:
        wide = array
    if dtype is DType.STR or wide.dtype.kind == "O":
        if DType.of(array) is not dtype:
            raise FormatError(f"Blob: a constant of {dtype.value} holds {blob.dataType}")
        return array
    if dtype.is_narrow and wide.dtype == np.uint8:
        wide = np.ascontiguousarray(wide).view(dtype.numpy)
    if wide.size != array.size:
        raise FormatError(f"Blob: {wide.size} exact numbers for {array.size} elements")
    with np.errstate(all="ignore"):
        return wide.reshape(array.shape).astype(dtype.numpy, copy=False)
