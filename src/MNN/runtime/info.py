"""What a model says of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.formatting import dims
from MNN.ir.dtype import DType
from MNN.ir.shape import Shape

_ONNX = {
    DType.F32: "float", DType.F64: "double", DType.F16: "float16", DType.BF16: "bfloat16", DType.STR: "string",
    DType.I8: "int8", DType.I16: "int16", DType.I32: "int32", DType.I64: "int64", DType.U8: "uint8",
    DType.U16: "uint16", DType.U32: "uint32", DType.U64: "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class TensorInfo:
    """What a model says of an input or output; symbolic sizes are names, ``shape`` is None when unknown."""

    name: str
    dtype: DType | None
    shape: Shape | None

    @property
    def type(self) -> str:
        """The element type as ONNX Runtime spells it: ``tensor(float)``."""
        return f"tensor({_ONNX.get(self.dtype, self.dtype.value) if self.dtype else 'any'})"

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.value if self.dtype else 'any'} {dims(self.shape)}"
