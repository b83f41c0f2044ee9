"""Cells of recurrent networks that are one operator."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, clamp, select
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.loops import UNROLLED
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value


def _sigmoid(ctx: Context, x: Value) -> Value:
    return ctx.op("Sigmoid", x)


@tf_op("LSTMBlockCell")
def lstm_block_cell(ctx: Context, node: TfNode) -> list[Value]:
    """One step: the gates are input, cell, forget, output; ``use_peephole`` lets them see the cell."""
    x, cs, h, w, wci, wcf, wco, bias = node.tensors(0, 8)
    step = _Lstm(node, (wci, wcf, wco), node.float_attr("forget_bias", 1.0))
    return step.after(ctx, ctx.op("MatMul", ctx.op("Concat", x, h, axis=1), w, bias), cs)


class _Lstm:
    """What a node says of an LSTM's step; ``peepholes`` are the weights by which gates see the cell."""

    def __init__(self, node: TfNode, peepholes: Sequence[Value], forget_bias: float, forget_second: bool = False):
        self.clip = node.float_attr("cell_clip", 0.0 if node.op == "BlockLSTMV2" else 3.0)
        self.peepholes = list(peepholes) if node.bool_attr("use_peephole", False) else []
        self.forget_bias, self.forget_second = forget_bias, forget_second

    def after(self, ctx: Context, gates: Value, cs: Value) -> list[Value]:
        """The node's results for ``gates[batch, 4 * hidden]`` before activations, and the cell before."""
        i, c, f, o = ctx.emit("Slice", [gates], 4, axis=1, sourceType="TORCH")
        c, f = (f, c) if self.forget_second else (c, f)
        if self.peepholes:
            i, f = (
                binary(ctx, "ADD", v, binary(ctx, "MUL", cs, p))
                for v, p in zip((i, f), self.peepholes[:2], strict=True)
            )
        i, c = _sigmoid(ctx, i), ctx.op("TanH", c)
        f = _sigmoid(ctx, binary(ctx, "ADD", f, self.forget_bias) if self.forget_bias else f)
        new = binary(ctx, "ADD", binary(ctx, "MUL", c, i), binary(ctx, "MUL", cs, f))
        if self.clip > 0:
            new = clamp(ctx, new, -self.clip, self.clip)
        if self.peepholes:
            o = binary(ctx, "ADD", o, binary(ctx, "MUL", new, self.peepholes[2]))
        o, co = _sigmoid(ctx, o), ctx.op("TanH", new)
        return [i, new, f, o, c, co, binary(ctx, "MUL", co, o)]


@tf_op("BlockLSTM", "BlockLSTMV2")
def block_lstm(ctx: Context, node: TfNode) -> list[Value]:
    """All steps of ``x[steps, batch, inputs]``; results, ``[steps, batch, hidden]`` each, are zeros from
    ``seq_len_max`` on. The inputs' share of the gates is one product over all steps; a loop does the rest."""
    most, x, cs, h, w, wci, wcf, wco, bias = node.tensors(0, 9)
    second = node.op == "BlockLSTMV2"
    step = _Lstm(node, (wci, wcf, wco), 0.0 if second else node.float_attr("forget_bias", 1.0), second)
    shape, hidden = ctx.static_shape(w), (h.shape or (None, None))[-1]
    if shape is None or not isinstance(hidden, int):
        raise node.unsupported("weights or states of unknown size", "export the model with shapes")
    if len(shape) != 2 or shape[1] != 4 * hidden or shape[0] <= hidden:
        raise FormatError(f"{node.where}: weights of {list(shape)} for states of {hidden} numbers")
    inputs = shape[0] - hidden
    begins, sizes = ([0, 0], [inputs, 0]), ([inputs, 4 * hidden], [hidden, 4 * hidden])
    from_x, from_h = (ctx.op("SliceTf", w, ctx.const(b), ctx.const(s)) for b, s in zip(begins, sizes, strict=True))
    shares = ctx.op("MatMul", x, from_x, bias)
    shares.dtype = x.dtype
    body = Graph(ctx.unique(f"{ctx.stem()}/body"))
    inner = ctx.child(body)
    turn = Value(inner.unique("turn"), DType.I64, ())
    going = Value(inner.unique("going"), DType.BOOL, ())
    before_c, before_h = (Value(inner.unique("state"), x.dtype, v.shape) for v in (cs, h))
    now = inner.op("GatherV2", shares, turn, ctx.const(0, DType.I32))
    now.dtype = x.dtype
    gates = binary(inner, "ADD", now, inner.op("MatMul", before_h, from_h))
    results = step.after(inner, gates, before_c)
    carried = [inner.op("Identity", results[k]) for k in (1, 6)]
    body.inputs = [turn, going, before_c, before_h]
    body.outputs = [inner.op("Identity", going), *carried, *results]
    length = (x.shape or (None,))[0]
    count = ctx.const(length) if isinstance(length, int) else ctx.op("Cast", _length(ctx, x), dstT="DT_INT64")
    kind = "UnrolledLoop" if isinstance(length, int) and length <= UNROLLED else "Loop"
    _, _, *found = ctx.emit(kind, [count, ctx.const(True), cs, h], 9, body=body)
    for out in found:
        out.dtype, out.shape = x.dtype, (*(x.shape or (None, None))[:2], hidden) if x.shape else None
    limit = ctx.constant_ints(most)
    if limit and isinstance(length, int) and limit[0] >= length:
        return found
    line = ctx.op("Range", ctx.const(0, DType.I64), count, ctx.const(1, DType.I64))
    line.dtype = DType.I64
    counts = ctx.op("BinaryOp", line, ctx.op("Cast", most, dstT="DT_INT64"), opType="LESS")
    counts = ctx.op("Unsqueeze", counts, squeezeDims=[1, 2])
    return [select(ctx, counts, out, 0.0) for out in found]


def _length(ctx: Context, x: Value) -> Value:
    return ctx.op("Squeeze", ctx.op("Shape", x, hasStart=True, start=0, hasEnd=True, end=1), squeezeDims=[0])


@tf_op("GRUBlockCell")
def gru_block_cell(ctx: Context, node: TfNode) -> list[Value]:
    x, h, w_ru, w_c, b_ru, b_c = node.tensors(0, 6)
    gates = _sigmoid(ctx, ctx.op("MatMul", ctx.op("Concat", x, h, axis=1), w_ru, b_ru))
    r, u = ctx.emit("Slice", [gates], 2, axis=1, sourceType="TORCH")
    c = ctx.op("TanH", ctx.op("MatMul", ctx.op("Concat", x, binary(ctx, "MUL", h, r), axis=1), w_c, b_c))
    rest = binary(ctx, "SUB", c, binary(ctx, "MUL", u, c))
    return [r, u, c, binary(ctx, "ADD", binary(ctx, "MUL", u, h), rest)]
