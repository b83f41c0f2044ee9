"""Losses, as models have them that give one beside their answer."""

from __future__ import annotations

from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.graph import Value


def _gathered(ctx: TorchBuilder, x: Value, reduction: int) -> Value:
    """``reduction``: 0 none, 1 the mean, 2 the sum."""
    return x if reduction == 0 else reduced(ctx, "MEAN" if reduction == 1 else "SUM", x, None, False)


@aten("mse_loss")
def mse_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    return _gathered(ctx, ctx.unary("SQUARE", ctx.binary("SUB", x, y)), reduction)


@aten("l1_loss")
def l1_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    return _gathered(ctx, ctx.unary("ABS", ctx.binary("SUB", x, y)), reduction)


@aten("smooth_l1_loss")
def smooth_l1_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    apart = ctx.unary("ABS", ctx.binary("SUB", x, y))
    if beta == 0:
        return _gathered(ctx, apart, reduction)
    square = ctx.binary("MUL", ctx.unary("SQUARE", apart), 0.5 / beta)
    small = ctx.op("BinaryOp", apart, ctx.const_like(beta, apart), opType="LESS")
    return _gathered(ctx, ctx.op("Select", small, square, ctx.binary("SUB", apart, 0.5 * beta)), reduction)


@aten("huber_loss")
def huber_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    return _gathered(ctx, ctx.binary("MUL", smooth_l1_loss(ctx, x, y, 0, delta), delta), reduction)


@aten("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    ctx: TorchBuilder,
    x: Value,
    y: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    """``(1 - y) x + log(1 + exp(-x))``, the second part weighted where positives count more."""
    tail = ctx.unary("LOG1P", ctx.unary("EXP", ctx.unary("NEG", ctx.unary("ABS", x))))
    tail = ctx.binary("ADD", tail, ctx.binary("MAXIMUM", ctx.unary("NEG", x), 0))  # no relu, see ``_log1p_exp``
    rest = ctx.op("BinaryOp", ctx.const_like(1, y), y, opType="SUB")
    if pos_weight is not None:
        more = ctx.op("BinaryOp", ctx.binary("SUB", pos_weight, 1), y, opType="MUL")
        tail = ctx.op("BinaryOp", tail, ctx.binary("ADD", more, 1), opType="MUL")
    out = ctx.op("BinaryOp", ctx.op("BinaryOp", rest, x, opType="MUL"), tail, opType="ADD")
    return _gathered(ctx, out if weight is None else ctx.op("BinaryOp", out, weight, opType="MUL"), reduction)


@aten("binary_cross_entropy")
def binary_cross_entropy(
    ctx: TorchBuilder, x: Value, y: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    """Logarithms are at least -100."""

    def log(v: Value) -> Value:
        return ctx.op("BinaryOp", ctx.unary("LOG", v), ctx.const_like(-100, v), opType="MAXIMUM")

    rest = ctx.op("BinaryOp", ctx.const_like(1, y), y, opType="SUB")
    other = ctx.op("BinaryOp", ctx.const_like(1, x), x, opType="SUB")
    both = ctx.op(
        "BinaryOp",
        ctx.op("BinaryOp", y, log(x), opType="MUL"),
        ctx.op("BinaryOp", rest, log(other), opType="MUL"),
        opType="ADD",
    )
    out = ctx.unary("NEG", both)
    return _gathered(ctx, out if weight is None else ctx.op("BinaryOp", out, weight, opType="MUL"), reduction)


@aten("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def nll_loss(
    ctx: TorchBuilder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1,
    ignore_index: Scalar = -100,
) -> Value | list[Value]:  # fmt: skip
    """Minus the number of each target's class (axis 1, or 0 of a single sample); of these the mean is weighted."""
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
    return [out, total] if ctx.name.endswith("forward") else out


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
        return _gathered(ctx, lines, reduction)
    if label_smoothing:
        raise ctx.unsupported("label smoothing of classes", "give probabilities as the target")
    ctx.name = "nll_loss"
    return nll_loss(ctx, logs, target, weight, reduction, ignore_index)  # type: ignore[return-value]


@aten("kl_div")
def kl_div(ctx: TorchBuilder, x: Value, target: Value, reduction: int = 1, *, log_target: bool = False) -> Value:
    """``target (log target - x)``."""
    if log_target:
        out = ctx.binary("MUL", ctx.unary("EXP", target), ctx.binary("SUB", target, x))
    else:
        out = ctx.binary("SUB", apply(ctx, "xlogy", [target, target], {}), ctx.binary("MUL", target, x))
    return _gathered(ctx, out, reduction)


@aten("soft_margin_loss")
def soft_margin_loss(ctx: TorchBuilder, x: Value, y: Value, reduction: int = 1) -> Value:
    turned = ctx.unary("NEG", ctx.binary("MUL", x, y))
    return _gathered(ctx, apply(ctx, "softplus", [turned], {}), reduction)
