"""From scores of characters at each time to a text, as connectionist temporal classification has it (Graves et al.,
"Connectionist temporal classification", 2006)."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, cast, compare, insert_axis, select, unary
from MNN.frontends.common.terms import line, size_of
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.slicing import cut
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tf_op("CTCGreedyDecoder")
def decode_greedily(ctx: Context, node: TfNode) -> list[Value]:
    """Of ``[times, batch, classes]`` and how many times count in each sample: the class with the highest score at each
    time, without those that repeat the one before (``merge_repeated``) and without blanks. Gives the places ``[count,
    2]``, classes and shape of a sparse tensor, and the sum of the scores that were chosen, negated, ``[batch, 1]``."""
    scores, lengths = node.input(0), cast(ctx, node.input(1), DType.I32)
    if ctx.rank(scores) not in (None, 3):
        raise node.unsupported(f"scores of {ctx.rank(scores)} axes", "give [times, batch, classes]")
    by_time = ctx.op("ArgMax", scores, axis=2, topK=1, outputDataType="DT_INT32")
    best = _of(ctx.op("Permute", by_time, dims=[1, 0]), DType.I32)
    inside = compare(ctx, "LESS", line(ctx, size_of(ctx, scores, 0)), insert_axis(ctx, lengths, 1))
    number = node.int_attr("blank_index", -1)
    blank = ctx.const(number, DType.I32) if number >= 0 else binary(ctx, "ADD", size_of(ctx, scores, 2), number)
    kept = ctx.op("BinaryOp", compare(ctx, "NOTEQUAL", best, blank), inside, opType="MUL")
    if node.bool_attr("merge_repeated", False):
        shifted = ctx.op("Padding", best, ctx.const([0, 0, 1, 0]), ctx.const(-1, DType.I32), mode="CONSTANT")
        before = _of(cut(ctx, shifted, [(1, 0, -1, 1)]), DType.I32)
        kept = ctx.op("BinaryOp", kept, compare(ctx, "NOTEQUAL", best, before), opType="MUL")
    marks = _of(ctx.op("Cast", kept, dstT="DT_INT32"), DType.I32)
    at = ctx.op("Where", kept, outputDataType="DT_INT64")
    earlier = ctx.op("CumSum", marks, ctx.const(1, DType.I32), exclusive=True, reverse=False)
    place = ctx.op("Cast", ctx.op("GatherND", earlier, at), dstT="DT_INT64")
    places = ctx.op("Concat", cut(ctx, at, [(1, 0, 1, 1)]), insert_axis(ctx, place, 1), axis=1)
    classes = ctx.op("Cast", ctx.op("GatherND", best, at), dstT="DT_INT64")
    counts = ctx.op("Reduction", marks, operation="SUM", dim=[1], keepDims=False)
    most = ctx.op("Reduction", counts, operation="MAXIMUM", dim=[0], keepDims=True)
    batch = ctx.op("Shape", best, hasStart=True, start=0, hasEnd=True, end=1)
    shape = ctx.op("Cast", ctx.op("Concat", batch, most, axis=0), dstT="DT_INT64")
    highest = ctx.op("Reduction", scores, operation="MAXIMUM", dim=[2], keepDims=False)
    chosen = select(ctx, inside, _of(ctx.op("Permute", highest, dims=[1, 0]), scores.dtype), 0)
    total = ctx.op("Reduction", chosen, operation="SUM", dim=[1], keepDims=True)
    return [places, classes, shape, unary(ctx, "NEG", _of(total, scores.dtype))]


def _of(x: Value, dtype: DType | None) -> Value:
    x.dtype = dtype
    return x
