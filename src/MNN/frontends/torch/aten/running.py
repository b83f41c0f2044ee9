"""Running statistics of normalisations, which training moves towards those of its batches."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Scalar
from MNN.frontends.torch.registry import writes
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def moved(
    ctx: TorchBuilder, x: Value, mean: Value | None, var: Value | None, momentum: Scalar, axes: Sequence[int]
) -> list[Value]:
    """``old + momentum * (batch's - old)`` of mean and variance, which is unbiased; empty where there are none.

    ``axes`` are those of a statistic; where samples (axis 0) are not among them, their statistics are averaged.
    """
    if mean is None or var is None:
        return []
    wide = x if ctx.type_of(x) is DType.F64 else ctx.cast(x, DType.F32)
    middle = reduced(ctx, "MEAN", wide, list(axes), True)
    spread = reduced(ctx, "MEAN", ctx.unary("SQUARE", ctx.binary("SUB", wide, middle)), list(axes), True)
    count: Int = 1
    for axis in axes:
        total = compute(ctx, "mul", count, ctx.size(x, axis))
        assert not isinstance(total, float)
        count = total
    spread = ctx.binary("MUL", spread, compute(ctx, "truediv", count, compute(ctx, "sub", count, 1)))
    made = []
    for old, found in ((mean, middle), (var, spread)):
        if 0 not in axes:
            found = reduced(ctx, "MEAN", found, [0], True)
        batch = ctx.cast(ctx.op("Reshape", found, ctx.const([-1])), ctx.type_of(old))
        made.append(ctx.binary("ADD", old, ctx.binary("MUL", ctx.binary("SUB", batch, old), momentum)))
    return made


def _channels(ctx: TorchBuilder, x: Value) -> list[int]:
    return [i for i in range(ctx.rank_of(x)) if i != 1]


@writes("batch_norm", into=("mean", "var"))
def batch_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None,
    training: bool, momentum: Scalar, eps: float, cudnn_enabled: bool = True,
) -> list[Value]:  # fmt: skip
    return moved(ctx, x, mean, var, momentum, _channels(ctx, x)) if training else []


@writes("native_batch_norm", "_native_batch_norm_legit", into=("mean", "var"))
def native_batch_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value | bool | None,
    var: Value | Scalar | None, *given: Scalar,
) -> list[Value]:  # fmt: skip
    """An overload has no running statistics."""
    if not isinstance(mean, Value) or not isinstance(var, Value) or not given[0]:
        return []
    return moved(ctx, x, mean, var, given[1], _channels(ctx, x))


@writes("instance_norm", into=("mean", "var"))
def instance_norm(
    ctx: TorchBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None,
    use_input_stats: bool, momentum: Scalar, eps: float, cudnn_enabled: bool = True,
) -> list[Value]:  # fmt: skip
    return moved(ctx, x, mean, var, momentum, range(2, ctx.rank_of(x))) if use_input_stats else []
