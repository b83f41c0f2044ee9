"""Small helpers that operators of several families share: operands by position, channel vectors, wide arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ops.core.builder import Builder


def operand(b: Builder, inputs: Sequence[Tensor | None], index: int, name: str = "") -> Tensor:
    """A required operand. Raises :class:`ShapeError` naming it when it is absent."""
    found = optional(inputs, index)
    if found is None:
        raise ShapeError(f"{b.where}: input {index}{f' ({name})' if name else ''} is missing")
    return found


def optional(inputs: Sequence[Tensor | None], index: int) -> Tensor | None:
    """An operand, or None when it is absent."""
    return inputs[index] if index < len(inputs) else None


def wide(b: Builder, x: Tensor) -> Tensor:
    """f16 and bf16 as f32, so that sums of many terms keep their digits; other dtypes as they are."""
    return b.cast(x, DType.F32) if x.dtype in (DType.F16, DType.BF16) else x


def require_rank(b: Builder, x: Tensor, *ranks: int, name: str = "its input") -> None:
    """Raises :class:`ShapeError` unless ``x`` has one of these ranks."""
    if x.rank not in ranks:
        wanted = " or ".join(str(r) for r in ranks)
        raise ShapeError(f"{b.where}: {name} has shape {list(x.shape)}, expected rank {wanted}")


def along(b: Builder, vector: Tensor, axis: int, rank: int) -> Tensor:
    """A vector reshaped to broadcast along ``axis`` of a tensor of ``rank`` (a single number broadcasts anywhere)."""
    count = elements(vector.shape)
    if count == 1:
        return b.reshape(vector, (1,) * rank)
    return b.reshape(vector, (1,) * axis + (count,) + (1,) * (rank - axis - 1))


def check_channels(b: Builder, vector: Tensor, channels: int, name: str) -> None:
    """Raises :class:`ShapeError` unless a vector has one number per channel (or one for all)."""
    count = elements(vector.shape)
    if count not in (1, channels):
        raise ShapeError(f"{b.where}: {name} has {count} elements, the input has {channels} channels")
