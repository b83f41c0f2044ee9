"""What a program of PyTorch returns, as values of the graph."""

from __future__ import annotations

from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import Complex
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def as_output(ctx: TorchBuilder, result: Any) -> Value | None:
    """The value of a tensor, or of a number (rank 0; i64, f64 or bool, as ``torch.tensor`` of doubles has it), known
    before the run or not; None for what an output cannot be, such as None or a string."""
    if isinstance(result, (Variable, Complex)):
        return result.read(ctx)
    if isinstance(result, Number):
        return result.value
    if not is_scalar(result):
        return None
    return ctx.scalar(result, DType.F64 if isinstance(result, float) else ctx.common(result))
