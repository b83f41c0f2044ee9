"""Names of element types in operators' attributes: those of the .mnn schema's ``DataType``."""

from __future__ import annotations

from MNN.errors import ShapeError
from MNN.ir.dtype import DType

_NAMES: dict[DType, str] = {
    DType.F32: "DT_FLOAT",
    DType.F64: "DT_DOUBLE",
    DType.F16: "DT_HALF",
    DType.BF16: "DT_BFLOAT16",
    DType.I8: "DT_INT8",
    DType.I16: "DT_INT16",
    DType.I32: "DT_INT32",
    DType.I64: "DT_INT64",
    DType.U8: "DT_UINT8",
    DType.U16: "DT_UINT16",
    DType.U32: "DT_UINT32",
    DType.U64: "DT_UINT64",
    DType.BOOL: "DT_BOOL",
    DType.STR: "DT_STRING",
    DType.F8E4M3FN: "DT_FLOAT8E4M3FN",
    DType.F8E4M3FNUZ: "DT_FLOAT8E4M3FNUZ",
    DType.F8E5M2: "DT_FLOAT8E5M2",
    DType.F8E5M2FNUZ: "DT_FLOAT8E5M2FNUZ",
    DType.F8E8M0: "DT_FLOAT8E8M0",
    DType.F4E2M1: "DT_FLOAT4E2M1",
    DType.I4: "DT_INT4",
    DType.U4: "DT_UINT4",
    DType.I2: "DT_INT2",
    DType.U2: "DT_UINT2",
}
"""``DT_UINT32``, ``DT_UINT64`` and those after ``DT_STRING`` are not in the schema; a file that needs them keeps the
operator as ``Extra``."""
_DTYPES: dict[str, DType] = {
    **{name: dtype for dtype, name in _NAMES.items()},
    "DT_QINT8": DType.I8,
    "DT_QUINT8": DType.U8,
    "DT_QINT32": DType.I32,
    "DT_QINT16": DType.I16,
    "DT_QUINT16": DType.U16,
}


def data_type(dtype: DType) -> str:
    """The schema's name of an element type."""
    return _NAMES[dtype]


def from_data_type(name: str, where: str = "") -> DType:
    """The element type of a name. Raises :class:`ShapeError` naming ``where`` for types without one here."""
    if name not in _DTYPES:
        raise ShapeError(f"{where or 'data type'}: {name} is not a type that tensors can have here")
    return _DTYPES[name]
