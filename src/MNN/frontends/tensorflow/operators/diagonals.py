"""Diagonals of matrices: taken out, put in, and made into matrices of zeros beside them.

Bands of diagonals lie in a tensor ``[..., number of diagonals, longest]``, the highest one first; shorter ones are
aligned to the left or the right, above and below the main diagonal by themselves (``align``).
"""

from __future__ import annotations

from dataclasses import dataclass

from MNN.frontends.common.expressions import binary, insert_axis, select
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_ALIGNMENTS = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")
_UNKNOWN = "a matrix of unknown rank", "export the model with shapes"


@dataclass(frozen=True)
class Band:
    """The diagonals from ``low`` to ``high`` (0 is the main one, positive ones lie above it) of a matrix of ``rows`` by
    ``columns``, and on which side shorter ones begin."""

    ctx: Context
    low: int
    high: int
    above_left: bool
    below_left: bool
    rows: Value
    columns: Value
    longest: Value

    @classmethod
    def of(
        cls, ctx: Context, node: TfNode, which: Value | None, rows: Value, columns: Value, longest: Value | None = None
    ) -> Band:
        """Raises :class:`UnsupportedError` for diagonals that are told only at run time."""
        low, high = span(ctx, node, which)
        sides = node.choice_attr("align", "RIGHT_LEFT", *_ALIGNMENTS) if node.op.endswith("V3") else "LEFT_LEFT"
        above, _, below = sides.partition("_")
        if longest is None:
            longest = _least(ctx, binary(ctx, "ADD", rows, min(high, 0)), binary(ctx, "SUB", columns, max(low, 0)))
        return cls(ctx, low, high, above == "LEFT", below == "LEFT", rows, columns, longest)

    def indent(self, number: Value) -> Value:
        """How many places stay empty in front of the diagonals of these numbers."""
        ctx = self.ctx
        zero = ctx.const(0, DType.I32)
        length = _least(
            ctx, binary(ctx, "ADD", self.rows, _least(ctx, number, zero)),
            binary(ctx, "SUB", self.columns, _most(ctx, number, zero)),
        )  # fmt: skip
        lacking = binary(ctx, "SUB", self.longest, length)
        if self.above_left and self.below_left:
            return binary(ctx, "MUL", lacking, 0)
        if self.above_left or self.below_left:  # the main diagonal is with whichever begins on the left
            kind = "GREATER_EQUAL" if self.above_left else "LESS_EQUAL"
            lacking = _where(ctx, ctx.op("BinaryOp", number, zero, opType=kind), zero, lacking)
        return lacking

    def part(self) -> tuple[Value, Value]:
        """Where the band's numbers lie in a flat matrix, ``[diagonals, longest]``, and which of them there are."""
        ctx = self.ctx
        number = insert_axis(ctx, ctx.const(list(range(self.high, self.low - 1, -1)), DType.I32), 1)
        along = binary(ctx, "SUB", insert_axis(ctx, _line(ctx, self.longest), 0), self.indent(number))
        zero = ctx.const(0, DType.I32)
        row = binary(ctx, "SUB", along, _least(ctx, number, zero))
        column = binary(ctx, "ADD", along, _most(ctx, number, zero))
        there = _all(
            ctx, ctx.op("BinaryOp", along, zero, opType="GREATER_EQUAL"),
            ctx.op("BinaryOp", row, self.rows, opType="LESS"), ctx.op("BinaryOp", column, self.columns, opType="LESS"),
        )  # fmt: skip
        place = binary(ctx, "ADD", binary(ctx, "MUL", row, self.columns), column)
        return _where(ctx, there, place, zero), there

    def whole(self) -> tuple[Value, Value]:
        """Where each element of the matrix lies in a flat band, ``[rows, columns]``, and which of them do."""
        ctx = self.ctx
        row, column = (insert_axis(ctx, _line(ctx, n), i) for n, i in ((self.rows, 1), (self.columns, 0)))
        number, zero = binary(ctx, "SUB", column, row), ctx.const(0, DType.I32)
        there = _all(
            ctx, ctx.op("BinaryOp", number, ctx.const(self.low, DType.I32), opType="GREATER_EQUAL"),
            ctx.op("BinaryOp", number, ctx.const(self.high, DType.I32), opType="LESS_EQUAL"),
        )  # fmt: skip
        along = binary(ctx, "ADD", _least(ctx, row, column), self.indent(number))
        line = binary(ctx, "SUB", ctx.const(self.high, DType.I32), number)
        place = binary(ctx, "ADD", binary(ctx, "MUL", line, self.longest), along)
        return _where(ctx, there, place, zero), there

    def matrix(self, band: Value, rank: int, other: Value) -> Value:
        """The matrix with the numbers of a band of this rank, and ``other`` beside them."""
        return _taken(
            self.ctx, _flattened(self.ctx, band, rank, 1 if self.low == self.high else 2), *self.whole(), other
        )


def span(ctx: Context, node: TfNode, which: Value | None) -> tuple[int, int]:
    """The lowest and the highest diagonal."""
    told = [0] if which is None else ctx.constant_ints(which)
    if not told or len(told) > 2 or told[0] > told[-1]:
        raise node.unsupported("diagonals that are not constant numbers", "use constants for k")
    return told[0], told[-1]


@tf_op("MatrixDiag", "BatchMatrixDiag", "Diag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(ctx: Context, node: TfNode) -> Value:
    """``Diag`` of more than one axis would be a tensor of twice as many."""
    x = node.input(0)
    rank = ctx.rank(x)
    if rank is None or rank < 1:
        raise node.unsupported("a diagonal of unknown rank", "export the model with shapes")
    if node.op == "Diag" and rank != 1:
        raise node.unsupported("a diagonal of more than one axis", "use tf.linalg.diag")
    general = node.op.endswith(("V2", "V3"))
    low, high = span(ctx, node, node.input(1) if general else None)
    longest = size(ctx, x, -1)
    least = binary(ctx, "SUB", longest, min(high, 0)), binary(ctx, "ADD", longest, max(low, 0))
    given = [_given(ctx, node, node.input(i)) for i in (2, 3)] if general else [None, None]
    square = _most(ctx, *least) if given == [None, None] else None
    rows, columns = (n if n is not None else square or m for n, m in zip(given, least, strict=True))
    band = Band.of(ctx, node, node.input(1) if general else None, rows, columns, longest)
    zero = node.input(4) if general else ctx.const_like(0, x)
    return band.matrix(x, rank, zero)


@tf_op("MatrixDiagPart", "BatchMatrixDiagPart", "DiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(ctx: Context, node: TfNode) -> Value:
    x = node.input(0)
    rank = ctx.rank(x)
    if rank is None or rank < 2 or (node.op == "DiagPart" and rank != 2):
        raise node.unsupported("a diagonal of more than one axis, or of unknown rank", "use tf.linalg.diag_part")
    general = len(node.inputs) > 1
    band = Band.of(ctx, node, node.input(1) if general else None, size(ctx, x, -2), size(ctx, x, -1))
    places, there = band.part()
    if band.low == band.high:
        places, there = (ctx.op("Squeeze", v, squeezeDims=[0]) for v in (places, there))
        places.dtype = DType.I32
    flat = _flattened(ctx, x, rank, 2)
    if band.low == band.high:
        return _gathered(ctx, flat, places)
    return _taken(ctx, flat, places, there, node.input(2) if general else ctx.const_like(0, x))


@tf_op("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(ctx: Context, node: TfNode) -> Value:
    x, diagonal = node.input(0), node.input(1)
    rank = ctx.rank(x)
    if rank is None or rank < 2:
        raise node.unsupported(*_UNKNOWN)
    which = node.input(2) if len(node.inputs) > 2 else None
    band = Band.of(ctx, node, which, size(ctx, x, -2), size(ctx, x, -1))
    return band.matrix(diagonal, rank - 1 if band.low == band.high else rank, x)


def size(ctx: Context, x: Value, axis: int) -> Value:
    """The size of an axis, a constant where it is known."""
    known = (x.shape or ())[axis]
    if isinstance(known, int):
        return ctx.const(known, DType.I32)
    at = (ctx.rank(x) or 0) + axis
    return ctx.op("Squeeze", ctx.op("Shape", x, hasStart=True, start=at, hasEnd=True, end=at + 1), squeezeDims=[0])


def _given(ctx: Context, node: TfNode, x: Value) -> Value | None:
    """A size in an operand; None where it is -1."""
    told = ctx.constant_ints(x)
    if told is None:
        raise node.unsupported("sizes of the matrix that are not constant", "use constants for num_rows and num_cols")
    return None if told[0] == -1 else ctx.const(told[0], DType.I32)


def _line(ctx: Context, count: Value) -> Value:
    return ctx.op("Range", ctx.const(0, DType.I32), count, ctx.const(1, DType.I32))


def _least(ctx: Context, x: Value, y: Value) -> Value:
    return binary(ctx, "MINIMUM", x, y)


def _most(ctx: Context, x: Value, y: Value) -> Value:
    return binary(ctx, "MAXIMUM", x, y)


def _where(ctx: Context, condition: Value, x: Value, y: Value) -> Value:
    out = select(ctx, condition, x, y)
    out.dtype = x.dtype
    return out


def _all(ctx: Context, first: Value, *others: Value) -> Value:
    for other in others:
        first = ctx.op("BinaryOp", first, other, opType="MUL")
    return first


def _flattened(ctx: Context, x: Value, rank: int, lines: int) -> Value:
    """The last axes as one."""
    if lines == 1:
        return x
    out = ctx.op("Reshape", x, ctx.const([*(0,) * (rank - lines), -1]))
    out.dtype = x.dtype
    return out


def _gathered(ctx: Context, flat: Value, places: Value) -> Value:
    out = ctx.op("GatherV2", flat, places, ctx.const(-1, DType.I32))
    out.dtype = flat.dtype
    return out


def _taken(ctx: Context, flat: Value, places: Value, there: Value, other: Value) -> Value:
    return _where(ctx, there, _gathered(ctx, flat, places), other)
