"""TensorProto to numpy, checked: no array is made before its size is known to fit the bytes that are there."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.schema.external import ExternalSource

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.F32,
    TensorProto.UINT8: DType.U8,
    TensorProto.INT8: DType.I8,
    TensorProto.UINT16: DType.U16,
    TensorProto.INT16: DType.I16,
    TensorProto.INT32: DType.I32,
    TensorProto.INT64: DType.I64,
    TensorProto.STRING: DType.STR,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.FLOAT16: DType.F16,
    TensorProto.DOUBLE: DType.F64,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT64: DType.U64,
    TensorProto.BFLOAT16: DType.BF16,
    **{
        getattr(TensorProto, name): dtype
        for name, dtype in {
            "FLOAT8E4M3FN": DType.F8E4M3FN,
            "FLOAT8E4M3FNUZ": DType.F8E4M3FNUZ,
            "FLOAT8E5M2": DType.F8E5M2,
            "FLOAT8E5M2FNUZ": DType.F8E5M2FNUZ,
            "FLOAT8E8M0": DType.F8E8M0,
            "FLOAT4E2M1": DType.F4E2M1,
            "INT4": DType.I4,
            "UINT4": DType.U4,
            "INT2": DType.I2,
            "UINT2": DType.U2,
        }.items()
        if hasattr(TensorProto, name)  # the newest ones came one by one
    },
}
_PACKED: dict[DType, tuple[int, bool]] = {
    DType.I4: (4, True),
    DType.U4: (4, False),
    DType.F4E2M1: (4, False),
    DType.I2: (2, True),
    DType.U2: (2, False),
}
"""Bits and signedness of what a file stores several to a byte."""


def type_name(code: int) -> str:
    """ONNX's own name of an element type."""
    known = TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(code)) if code in known else f"type number {code}"


def dtype_of(code: int, where: str) -> DType:
    """The element type of an ONNX type number. Raises :class:`UnsupportedError` naming ``where`` when there is none."""
    if code not in DTYPES:
        raise UnsupportedError(
            f"{where}: element type {type_name(code)} is not supported; cast to float16, float or int8 in the model"
        )
    return DTYPES[code]


def array_of(tensor: TensorProto, external: ExternalSource | None, where: str) -> np.ndarray:
    """The numbers of a tensor; read-only, without a copy where the file keeps raw bytes.

    ``external`` opens files beside the model; None when the model did not come from a file.
    Raises :class:`FormatError` when dims and data disagree, :class:`UnsupportedError` for element types that have no
    numpy form.
    """
    dims = tuple(int(d) for d in tensor.dims)
    code = tensor.data_type
    if any(d < 0 for d in dims):
        raise FormatError(f"{where}: negative size in dims {list(dims)}")
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{where}: segmented tensors are not supported; save the model with a newer exporter")
    count = elements(dims)
    dtype = dtype_of(code, where)
    if dtype in _PACKED:
        return _unpack(tensor, dtype, external, dims, count, where)
    if dtype is DType.STR:
        return _strings(tensor, dims, count, where)
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external(tensor, external, count * dtype.size, where)
    elif tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, dtype=np.uint8)
    else:
        return _typed(tensor, dtype, dims, count, where)
    if data.size != count * dtype.size:
        raise FormatError(
            f"{where}: {list(dims)} of {dtype.value} needs {count * dtype.size} bytes, {data.size} are there"
        )
    return _as_dtype(data, dtype).reshape(dims)


def _as_dtype(data: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is DType.BOOL:
        return np.asarray(data != 0)
    if data.ctypes.data % dtype.size:  # a view into a mapped file may start anywhere; kernels want aligned numbers
        data = data.copy()
    return data.view(dtype.numpy)


def _typed(tensor: TensorProto, dtype: DType, dims: tuple[int, ...], count: int, where: str) -> np.ndarray:
    """Numbers in the typed repeated fields; small integers and halves share ``int32_data``."""
    field, held = {
        DType.F32: (tensor.float_data, DType.F32),
        DType.F64: (tensor.double_data, DType.F64),
        DType.I64: (tensor.int64_data, DType.I64),
        DType.U32: (tensor.uint64_data, DType.U64),
        DType.U64: (tensor.uint64_data, DType.U64),
    }.get(dtype, (tensor.int32_data, DType.I32))
    if len(field) != count:
        raise FormatError(f"{where}: {list(dims)} needs {count} numbers, {len(field)} are there")
    data: np.ndarray = np.fromiter(field, dtype=held.numpy, count=count)
    if dtype is DType.F16:
        data = data.astype(np.uint16).view(np.float16)
    elif dtype is DType.BF16:
        data = data.astype(np.uint16).view(ml_dtypes.bfloat16)
    elif dtype.is_narrow:
        data = data.astype(np.uint8).view(dtype.numpy)
    return np.asarray(data.astype(dtype.numpy, copy=False)).reshape(dims)


def _strings(tensor: TensorProto, dims: tuple[int, ...], count: int, where: str) -> np.ndarray:
    if len(tensor.string_data) != count:
        raise FormatError(f"{where}: {list(dims)} needs {count} strings, {len(tensor.string_data)} are there")
    out = np.empty(count, dtype=object)
    for i, text in enumerate(tensor.string_data):
        out[i] = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)
    return out.reshape(dims)


def _unpack(
    tensor: TensorProto, dtype: DType, external: ExternalSource | None, dims: tuple[int, ...], count: int, where: str
) -> np.ndarray:
    bits, signed = _PACKED[dtype]
    per_byte = 8 // bits
    size = -(-count // per_byte)
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external(tensor, external, size, where)
    elif tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, dtype=np.uint8)
    else:
        data = np.fromiter((v & 0xFF for v in tensor.int32_data), dtype=np.uint8, count=len(tensor.int32_data))
    if data.size != size:
        raise FormatError(f"{where}: {list(dims)} of {dtype.value} needs {size} bytes, {data.size} are there")
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    numbers = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if signed:
        half = 1 << (bits - 1)
        numbers = ((numbers ^ half).astype(np.int8) - half).astype(np.int8)
    whole = numbers.view(dtype.numpy) if dtype is DType.F4E2M1 else numbers.astype(dtype.numpy)
    return whole.reshape(dims)


def _external(tensor: TensorProto, external: ExternalSource | None, size: int, where: str) -> np.ndarray:
    """The bytes of a tensor kept in a file beside the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if external is None:
        raise FormatError(f"{where}: its data is in another file; load the model from its path, not from bytes")
    if not entries.get("location"):
        raise FormatError(f"{where}: external data without a location")
    try:
        offset = int(entries.get("offset", "0") or 0)
        length = int(entries["length"]) if entries.get("length") else size
    except ValueError:
        raise FormatError(f"{where}: offset or length of its external data is not a number") from None
    if length != size:
        raise FormatError(f"{where}: external data has {length} bytes, its dims need {size}")
    return external.open(entries["location"]).array(offset, length, np.uint8)
