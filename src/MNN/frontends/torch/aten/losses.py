"""Losses, as models have them that give one beside their answer."""

from __future__ import annotations

from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import aten
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
    tail = ctx.op("BinaryOp", tail, ctx.op("ReLU", ctx.unary("NEG", x)), opType="ADD")
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
