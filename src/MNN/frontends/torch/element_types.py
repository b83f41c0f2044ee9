"""PyTorch's element types, by the numbers that its files have for them."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType

EXPORTED = {
    1: DType.U8, 2: DType.I8, 3: DType.I16, 4: DType.I32, 5: DType.I64, 6: DType.F16, 7: DType.F32, 8: DType.F64,
    12: DType.BOOL, 13: DType.BF16, 28: DType.U16, 29: DType.F8E4M3FN, 30: DType.F8E5M2, 31: DType.F8E4M3FNUZ,
    32: DType.F8E5M2FNUZ, 33: DType.F8E8M0, 34: DType.U32, 35: DType.U64,
}  # fmt: skip
"""``ScalarType`` of torch.export's schema (torch/_export/serde/schema.py)."""
PAIRS = {10: DType.F32, 11: DType.F64}
"""Complex types in torch.export's schema, as what their two parts are."""


@dataclass(frozen=True)
class ComplexType:
    """A complex element type, as the argument of an operator; ``part``: of its real and imaginary parts."""

    part: DType


SCRIPT = {
    0: DType.U8, 1: DType.I8, 2: DType.I16, 3: DType.I32, 4: DType.I64, 5: DType.F16, 6: DType.F32, 7: DType.F64,
    11: DType.BOOL, 12: DType.I8, 13: DType.U8, 14: DType.I32, 15: DType.BF16, 23: DType.F8E5M2, 24: DType.F8E4M3FN,
    25: DType.F8E5M2FNUZ, 26: DType.F8E4M3FNUZ, 27: DType.U16, 28: DType.U32, 29: DType.U64,
}  # fmt: skip
"""``c10::ScalarType``, as TorchScript's code has it; quantised types are those that hold their numbers."""
COMPLEX = {8: "complex32", 9: "complex64", 10: "complex128"}
COMPLEX_PARTS = {9: DType.F32, 10: DType.F64}
"""Complex types in TorchScript's code, as what their two parts are."""
STORAGES = {
    "ByteStorage": DType.U8, "CharStorage": DType.I8, "ShortStorage": DType.I16, "IntStorage": DType.I32,
    "LongStorage": DType.I64, "HalfStorage": DType.F16, "FloatStorage": DType.F32, "DoubleStorage": DType.F64,
    "BoolStorage": DType.BOOL, "BFloat16Storage": DType.BF16, "QInt8Storage": DType.I8, "QUInt8Storage": DType.U8,
    "QInt32Storage": DType.I32,
}  # fmt: skip
"""Names that pickles have for the memory of tensors."""
COMPLEX_NAMES = {
    "ComplexFloatStorage": ComplexType(DType.F32), "ComplexDoubleStorage": ComplexType(DType.F64),
    "complex64": ComplexType(DType.F32), "complex128": ComplexType(DType.F64),
}  # fmt: skip
"""Names that pickles have for complex memory and types."""
NAMES = {
    "float32": DType.F32, "float64": DType.F64, "float16": DType.F16, "bfloat16": DType.BF16, "uint8": DType.U8,
    "int8": DType.I8, "int16": DType.I16, "int32": DType.I32, "int64": DType.I64, "bool": DType.BOOL,
    "uint16": DType.U16, "uint32": DType.U32, "uint64": DType.U64, "qint8": DType.I8, "quint8": DType.U8,
    "qint32": DType.I32,
}  # fmt: skip
"""Names of the element types, as ``torch.`` has them."""


def exported_type(code: int, where: str) -> DType:
    """The element type of a number in a file of torch.export. Raises :class:`UnsupportedError` for others."""
    if code not in EXPORTED:
        advice = "; use real numbers there (torch.view_as_real)" if code in (9, *PAIRS) else ""
        raise UnsupportedError(
            f"{where}: element type {code} of torch.export (complex, or newer) is not supported{advice}"
        )
    return EXPORTED[code]


def script_type(code: int, where: str) -> DType:
    """The element type of a number in TorchScript's code. Raises :class:`UnsupportedError` for others."""
    if code not in SCRIPT:
        kind = COMPLEX.get(code, f"number {code}")
        raise UnsupportedError(f"{where}: the element type {kind} is not supported; use real numbers")
    return SCRIPT[code]


WIDTH = (
    DType.BOOL, DType.U8, DType.I8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64, DType.F16,
    DType.BF16, DType.F32, DType.F64,
)  # fmt: skip
"""Element types in the order in which one gives way to another; those at odds with it are below."""
_AT_ODDS = {
    frozenset((DType.U8, DType.I8)): DType.I16,
    frozenset((DType.F16, DType.BF16)): DType.F32,
}


def common_type(x: DType, y: DType) -> DType:
    """What two tensors of these types become before they are combined."""
    if x is y:
        return x
    odd = _AT_ODDS.get(frozenset((x, y)))
    return odd or (x if WIDTH.index(x) >= WIDTH.index(y) else y)


def kind_of(dtype: DType) -> int:
    """0 for booleans, 1 for integers, 2 for floats: a number of a higher kind changes a tensor's type."""
    return 2 if dtype.is_float else 0 if dtype is DType.BOOL else 1
