"""Losses of numbers of classes, whose targets are classes."""

from __future__ import annotations

from MNN.frontends.torch.aten.losses.distances import above, gathered
from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def nll_loss(
    ctx: TorchBuilder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1,
    ignore_index: Scalar = -100,
) -> Value | list[Value]:  # fmt: skip
    """Minus the number of each target's class (axis 1, or 0 of a single sample); of these the mean is weighted."""
    both = ctx.name.endswith("forward")
    out, total = _likelihood(ctx, x, target, weight, reduction, ignore_index)
    return [out, total] if both else out


def _likelihood(
    ctx: TorchBuilder, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Scalar
) -> tuple[Value, Value]:
    """The loss, and the sum of the weights of all targets."""
    axis = min(ctx.rank_of(x) - 1, 1)
    kept = ctx.binary("NOTEQUAL", target, ignore_index)
    classes = apply(ctx, "where", [kept, target, 0], {})
    picked = apply(ctx, "gather", [x, axis, ctx.unsqueeze(classes, axis)], {})
    weights = ctx.cast(kept, ctx.type_of(x))
    if weight is not None:
        weights = ctx.binary("MUL", weights, apply(ctx, "embedding", [weight, classes], {}))
    shares = ctx.unary("NEG", ctx.binary("MUL", ctx.squeeze(picked, axis), weights))
    shares = apply(ctx, "where", [kept, shares, 0.0], {})
    total = reduced(ctx, "SUM", weights, None, False)
    out = shares if reduction == 0 else reduced(ctx, "SUM", shares, None, False)
    if reduction == 1:
        out = ctx.binary("REALDIV", out, total)
    return out, total


@aten("cross_entropy_loss")
def cross_entropy(
    ctx: TorchBuilder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1,
    ignore_index: Scalar = -100, label_smoothing: float = 0.0,
) -> Value:  # fmt: skip
    """Targets are classes, or how likely each class is."""
    axis = min(ctx.rank_of(x) - 1, 1)
    logs = apply(ctx, "log_softmax", [x, axis], {})
    if ctx.type_of(target).is_float:
        count = ctx.known(ctx.size(x, axis), "a number of classes")
        if label_smoothing:
            target = ctx.binary("ADD", ctx.binary("MUL", target, 1 - label_smoothing), label_smoothing / count)
        shares = ctx.binary("MUL", logs, target)
        if weight is not None:
            shares = ctx.binary("MUL", shares, ctx.unsqueeze(weight, *range(1, ctx.rank_of(x) - axis)))
        lines = ctx.unary("NEG", reduced(ctx, "SUM", shares, axis, False))
        return gathered(ctx, lines, reduction)
    found, total = _likelihood(ctx, logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return found
    count = ctx.known(ctx.size(x, axis), "a number of classes")
    if weight is not None:
        logs = ctx.binary("MUL", logs, ctx.unsqueeze(weight, *range(1, ctx.rank_of(x) - axis)))
    even = ctx.unary("NEG", reduced(ctx, "SUM", logs, axis, False))
    even = apply(ctx, "where", [ctx.binary("NOTEQUAL", target, ignore_index), even, 0.0], {})
    if reduction:
        even = reduced(ctx, "SUM", even, None, False)
    if reduction == 1:
        even = ctx.binary("REALDIV", even, total)
    return ctx.binary(
        "ADD", ctx.binary("MUL", found, 1 - label_smoothing), ctx.binary("MUL", even, label_smoothing / count)
    )


@aten("multi_margin_loss")
def multi_margin_loss(
    ctx: TorchBuilder, x: Value, target: Value, p: Scalar = 1, margin: Scalar = 1, weight: Value | None = None,
    reduction: int = 1,
) -> Value:  # fmt: skip
    """The mean over other classes of what their numbers have above the target's, less a margin, to the power ``p``."""
    single = ctx.rank_of(x) < 2
    rows = ctx.reshape(x, [1, -1]) if single else x
    index = ctx.reshape(target, [-1, 1])
    own = apply(ctx, "gather", [rows, 1, index], {})
    over = ctx.op("ReLU", ctx.binary("ADD", ctx.binary("SUB", rows, own), margin))
    over = apply(ctx, "pow", [over, p], {})
    if weight is not None:
        over = ctx.binary("MUL", over, apply(ctx, "embedding", [weight, index], {}))
    places = apply(ctx, "arange", [ctx.size(rows, 1)], {})
    over = apply(ctx, "where", [ctx.binary("EQUAL", places, index), 0.0, over], {})
    lines = reduced(ctx, "MEAN", over, 1, False)
    return (
        ctx.squeeze(lines, 0)
        if single and reduction == 0 and ctx.rank_of(target) == 0
        else gathered(ctx, lines, reduction)
    )


@aten("multilabel_margin_loss", "multilabel_margin_loss_forward")
def multilabel_margin_loss(ctx: TorchBuilder, x: Value, target: Value, reduction: int = 1) -> Value | list[Value]:
    """Targets are classes until the first -1: the mean over pairs of one of them and another class of what the other
    has above 1 less than it."""
    both, single = ctx.name.endswith("forward"), ctx.rank_of(x) < 2
    rows, index = ((ctx.reshape(v, [1, -1]) if single else v) for v in (x, target))
    ended = apply(ctx, "cumsum", [ctx.cast(ctx.binary("LESS", index, 0), DType.I64), 1], {})
    named = ctx.binary("EQUAL", ended, 0)
    safe = apply(ctx, "where", [named, index, 0], {})
    places = apply(ctx, "arange", [ctx.size(rows, 1)], {})
    equal = ctx.binary("EQUAL", ctx.unsqueeze(safe, 2), places)  # [N, target, class]
    hit = ctx.op("BinaryOp", equal, ctx.unsqueeze(named, 2), opType="MUL")
    of_target = apply(ctx, "any", [hit, 1], {})
    own = ctx.unsqueeze(apply(ctx, "gather", [rows, 1, safe], {}), 2)
    over = above(ctx, ctx.binary("ADD", ctx.binary("SUB", ctx.unsqueeze(rows, 1), own), 1))
    counted = ctx.op("BinaryOp", ctx.unsqueeze(named, 2), ctx.unsqueeze(ctx.op("Not", of_target), 1), opType="MUL")
    lines = reduced(ctx, "SUM", apply(ctx, "where", [counted, over, 0.0], {}), [1, 2], False)
    lines = ctx.binary("REALDIV", lines, ctx.cast(ctx.scalar(ctx.size(rows, 1), DType.I64), ctx.type_of(x)))
    out = ctx.squeeze(lines, 0) if single and reduction == 0 else gathered(ctx, lines, reduction)
    of_target = ctx.squeeze(of_target, 0) if single else of_target
    return [out, ctx.cast(of_target, ctx.type_of(x))] if both else out
