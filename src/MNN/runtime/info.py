"""What a model says of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.ir.dtype import DType
from MNN.ir.shape import Shape


@dataclass(frozen=True)
class TensorInfo:
    """What a model says of an input or output; symbolic sizes are names, ``shape`` is None when unknown."""

    name: str
    dtype: DType | None
    shape: Shape | None

    def __str__(self) -> str:
        dims = "unknown shape" if self.shape is None else "x".join(map(str, self.shape)) or "scalar"
        return f"{self.name}: {self.dtype.value if self.dtype else 'any'} {dims}"
