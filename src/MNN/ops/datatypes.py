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
}
"""``DT_UINT32`` and ``DT_UINT64`` are not in the schema; a file that needs them keeps the operator as ``Extra``."""
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
