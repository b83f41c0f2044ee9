"""Cells of recurrent networks that are one operator."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, clamp
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value


def _sigmoid(ctx: Context, x: Value) -> Value:
    return ctx.op("Sigmoid", x)


@tf_op("LSTMBlockCell")
def lstm_block_cell(ctx: Context, node: TfNode) -> list[Value]:
    """One step: the gates are input, cell, forget, output; ``use_peephole`` lets them see the cell."""
    x, cs, h, w, wci, wcf, wco, bias = node.tensors(0, 8)
    forget, clip = node.float_attr("forget_bias", 1.0), node.float_attr("cell_clip", 3.0)
    peephole = node.bool_attr("use_peephole", False)
    gates = ctx.op("MatMul", ctx.op("Concat", x, h, axis=1), w, bias)
    i, c, f, o = ctx.emit("Slice", [gates], 4, axis=1, sourceType="TORCH")
    if peephole:
        i, f = (binary(ctx, "ADD", v, binary(ctx, "MUL", cs, p)) for v, p in ((i, wci), (f, wcf)))
    i, c = _sigmoid(ctx, i), ctx.op("TanH", c)
    f = _sigmoid(ctx, binary(ctx, "ADD", f, forget))
    new = binary(ctx, "ADD", binary(ctx, "MUL", c, i), binary(ctx, "MUL", cs, f))
    if clip > 0:
        new = clamp(ctx, new, -clip, clip)
    if peephole:
        o = binary(ctx, "ADD", o, binary(ctx, "MUL", new, wco))
    o, co = _sigmoid(ctx, o), ctx.op("TanH", new)
    return [i, new, f, o, c, co, binary(ctx, "MUL", co, o)]


@tf_op("GRUBlockCell")
def gru_block_cell(ctx: Context, node: TfNode) -> list[Value]:
    x, h, w_ru, w_c, b_ru, b_c = node.tensors(0, 6)
    gates = _sigmoid(ctx, ctx.op("MatMul", ctx.op("Concat", x, h, axis=1), w_ru, b_ru))
    r, u = ctx.emit("Slice", [gates], 2, axis=1, sourceType="TORCH")
    c = ctx.op("TanH", ctx.op("MatMul", ctx.op("Concat", x, binary(ctx, "MUL", h, r), axis=1), w_c, b_c))
    rest = binary(ctx, "SUB", c, binary(ctx, "MUL", u, c))
    return [r, u, c, binary(ctx, "ADD", binary(ctx, "MUL", u, h), rest)]
