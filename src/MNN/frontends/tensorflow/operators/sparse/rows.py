"""Rows of different lengths one behind the other: where they begin (splits), and which row an entry is of (rows)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.frontends.common.expressions import binary, cast, insert_axis
from MNN.frontends.common.terms import line, scalar, size_of
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.operators.slicing import cut
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_END = 2**31 - 1


def taken(ctx: Context, x: Value, at: Value) -> Value:
    """Entries of the first axis."""
    out = ctx.op("GatherV2", x, at, ctx.const(0, DType.I32))
    out.dtype = x.dtype
    return out


def counted(ctx: Context, at: Value, count: Value) -> Value:
    """How often each number below ``count`` (a scalar) is in ``at`` (one row), i32."""
    ones = ctx.op("Fill", ctx.op("Shape", at), ctx.const(1, DType.I32))
    shape = ctx.op("Reshape", count, ctx.const([1]))
    zeros = ctx.op("Fill", shape, ctx.const(0, DType.I32))
    return _whole(ctx.op("ScatterNd", insert_axis(ctx, at, 1), ones, shape, zeros, opType="ADD"))


def splits_of(ctx: Context, lengths: Value) -> Value:
    """Where rows of so many entries begin, and where the last one ends."""
    sums = ctx.op("CumSum", lengths, ctx.const(0, DType.I32), exclusive=False, reverse=False)
    return _whole(ctx.op("Concat", ctx.const([0], DType.I32), sums, axis=0))


def _whole(x: Value) -> Value:
    x.dtype = DType.I32
    return x


@dataclass(frozen=True)
class Rows:
    """``splits`` (i32), and what follows from them: ``lengths``, and for each entry its row and its place there."""

    splits: Value
    lengths: Value
    row: Value
    place: Value

    @staticmethod
    def of_splits(ctx: Context, splits: Value) -> Rows:
        splits = cast(ctx, splits, DType.I32)
        ends, begins = cut(ctx, splits, [(0, 1, _END, 1)]), cut(ctx, splits, [(0, 0, -1, 1)])
        total = scalar(ctx, cut(ctx, splits, [(0, -1, _END, 1)]))
        marks = counted(ctx, ends, binary(ctx, "ADD", total, 1))
        rows = ctx.op("CumSum", marks, ctx.const(0, DType.I32), exclusive=False, reverse=False)
        row = _whole(cut(ctx, _whole(rows), [(0, 0, -1, 1)]))
        place = binary(ctx, "SUB", line(ctx, total), taken(ctx, splits, row))
        return Rows(splits, binary(ctx, "SUB", ends, begins), row, place)

    @staticmethod
    def of_lengths(ctx: Context, lengths: Value) -> Rows:
        return Rows.of_splits(ctx, splits_of(ctx, cast(ctx, lengths, DType.I32)))

    @staticmethod
    def of_rows(ctx: Context, rows: Value, count: Value) -> Rows:
        """From the row of each entry, ascending, and the number of rows."""
        rows = cast(ctx, rows, DType.I32)
        lengths = counted(ctx, rows, scalar(ctx, cast(ctx, count, DType.I32)))
        splits = splits_of(ctx, lengths)
        place = binary(ctx, "SUB", line(ctx, size_of(ctx, rows, 0)), taken(ctx, splits, rows))
        return Rows(splits, lengths, rows, place)

    def longest(self, ctx: Context) -> Value:
        """A row of one number."""
        some = _whole(ctx.op("Concat", ctx.const([0], DType.I32), self.lengths, axis=0))
        return _whole(ctx.op("Reduction", some, operation="MAXIMUM", dim=[0], keepDims=True))


def places(ctx: Context, levels: Sequence[Rows]) -> tuple[Value, Value]:
    """Of the innermost entries the place along each axis, ``[entries, levels + 1]``, and the sizes that hold all."""
    first = levels[0].splits
    count = binary(ctx, "SUB", size_of(ctx, first, 0), 1)
    at = insert_axis(ctx, line(ctx, count), 1)
    sizes = [ctx.op("Reshape", count, ctx.const([1]))]
    for level in levels:
        at = _whole(ctx.op("Concat", taken(ctx, at, level.row), insert_axis(ctx, level.place, 1), axis=1))
        sizes.append(level.longest(ctx))
    return at, _whole(ctx.op("Concat", *sizes, axis=0))
