"""Images seen through a projective transformation: each new pixel reads the place that eight numbers map it to."""

from __future__ import annotations

from MNN.frontends.common.expressions import binary, cast, compare, insert_axis, select, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@tf_op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def transformed(ctx: Context, node: TfNode) -> Value:
    """``images[N, H, W, C]`` by ``transforms[N or 1, 8]`` (``a0 .. c1``): ``(x, y)`` of the result of ``output_shape``
    is read at ``((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)``, where ``k = c0 x + c1 y + 1``."""
    x, by, size = node.tensors(0, 3)
    nearest = node.choice_attr("interpolation", "NEAREST", "NEAREST", "BILINEAR") == "NEAREST"
    mode = node.choice_attr("fill_mode", "CONSTANT", "CONSTANT", "NEAREST", "REFLECT", "WRAP")
    fill = node.input(3) if node.op.endswith("3") else ctx.const(0, DType.F32)
    kind = x.dtype or DType.F32
    fill = cast(ctx, cast(ctx, fill, kind), DType.F32)  # cut to the images' type before it is mixed in
    given = ctx.op("Shape", x)
    batch, height, width, channels = (_number(ctx, given, i) for i in range(4))
    rows, columns = (_number(ctx, cast(ctx, size, DType.I32), i) for i in range(2))
    place_x, place_y, broken = _places(ctx, by, rows, columns)
    place_x, place_y = (_brought_in(ctx, v, n, mode) for v, n in ((place_x, width), (place_y, height)))
    flat = cast(ctx, ctx.op("Reshape", x, ctx.op("Pack", ctx.const(-1, DType.I32), channels, axis=0)), DType.F32)
    area = binary(ctx, "MUL", height, width)
    first = ctx.op("Range", ctx.const(0, DType.I32), binary(ctx, "MUL", batch, area), area)
    first.dtype = DType.I32
    for axis in (1, 2):
        first = insert_axis(ctx, first, axis)

    def read(at_y: Value, at_x: Value) -> Value:
        """Whole places; ``fill`` outside."""
        inside = binary(ctx, "MUL", _within(ctx, at_y, height), _within(ctx, at_x, width))
        row, column = (
            cast(ctx, binary(ctx, "MINIMUM", binary(ctx, "MAXIMUM", v, 0.0), _last(ctx, n)), DType.I32)
            for v, n in ((at_y, height), (at_x, width))
        )
        index = binary(ctx, "ADD", first, binary(ctx, "ADD", binary(ctx, "MUL", row, width), column))
        taken = ctx.op("GatherV2", flat, index, ctx.const(0, DType.I32))
        taken.dtype = DType.F32
        return select(ctx, insert_axis(ctx, inside, 3), taken, fill)

    if nearest:
        found = read(*(_rounded(ctx, v) for v in (place_y, place_x)))
    else:
        top, left = (unary(ctx, "FLOOR", v) for v in (place_y, place_x))
        right = binary(ctx, "ADD", left, 1.0)
        parts_y, parts_x = (
            [
                insert_axis(ctx, binary(ctx, "SUB", binary(ctx, "ADD", whole, 1.0), v), 3),
                insert_axis(ctx, binary(ctx, "SUB", v, whole), 3),
            ]
            for v, whole in ((place_y, top), (place_x, left))
        )
        upper, lower = (
            _between(ctx, read(row, left), read(row, right), parts_x) for row in (top, binary(ctx, "ADD", top, 1.0))
        )
        found = _between(ctx, upper, lower, parts_y)
    return cast(ctx, select(ctx, insert_axis(ctx, broken, 3), fill, found), kind)


def _number(ctx: Context, numbers: Value, i: int) -> Value:
    out = ctx.op("GatherV2", numbers, ctx.const(i, DType.I32), ctx.const(0, DType.I32))
    out.dtype = DType.I32
    return out


def _places(ctx: Context, by: Value, rows: Value, columns: Value) -> tuple[Value, Value, Value]:
    """The places ``x`` and ``y`` ``[N or 1, rows, columns]``, and where there is none."""
    parts = ctx.emit("Slice", [cast(ctx, by, DType.F32)], 8, axis=1, sourceType="TORCH")
    for part in parts:
        part.dtype = DType.F32
    a0, a1, a2, b0, b1, b2, c0, c1 = (insert_axis(ctx, p, 2) for p in parts)
    lines = []
    for count, axis in ((columns, 1), (rows, 2)):
        line = ctx.op("Range", ctx.const(0, DType.I32), count, ctx.const(1, DType.I32))
        line.dtype = DType.I32
        lines.append(insert_axis(ctx, insert_axis(ctx, cast(ctx, line, DType.F32), 0), axis))
    x, y = lines

    def linear(p: Value, q: Value, r: Value | float) -> Value:
        return binary(ctx, "ADD", binary(ctx, "ADD", binary(ctx, "MUL", p, x), binary(ctx, "MUL", q, y)), r)

    k = linear(c0, c1, 1.0)
    broken = compare(ctx, "EQUAL", k, 0.0)
    k = select(ctx, broken, 1.0, k)
    k.dtype = DType.F32
    return (
        binary(ctx, "REALDIV", linear(a0, a1, a2), k),
        binary(ctx, "REALDIV", linear(b0, b1, b2), k),
        broken,
    )


def _brought_in(ctx: Context, place: Value, count: Value, mode: str) -> Value:
    """Places outside of an axis of ``count`` pixels as the fill mode has them."""
    if mode == "CONSTANT":
        return place
    size, last = cast(ctx, count, DType.F32), _last(ctx, count)
    zero = ctx.const(0, DType.F32)
    if mode != "NEAREST":
        below, above = compare(ctx, "LESS", place, 0.0), compare(ctx, "GREATER", place, last)
        back = unary(ctx, "NEG", place)
        if mode == "WRAP":
            room = binary(ctx, "MAXIMUM", last, 1.0)
            times = binary(ctx, "ADD", unary(ctx, "FLOOR", binary(ctx, "REALDIV", back, room)), 1.0)
            under = binary(ctx, "ADD", place, binary(ctx, "MUL", size, times))
            times = unary(ctx, "FLOOR", binary(ctx, "REALDIV", place, room))
            over = binary(ctx, "SUB", place, binary(ctx, "MUL", size, times))
        else:
            twice = binary(ctx, "MUL", size, 2.0)
            times = unary(ctx, "FLOOR", binary(ctx, "REALDIV", back, twice))
            under = binary(ctx, "ADD", place, binary(ctx, "MUL", twice, times))
            deep = compare(ctx, "LESS", under, unary(ctx, "NEG", size))
            mirrored = binary(ctx, "SUB", unary(ctx, "NEG", under), 1.0)
            under = select(ctx, deep, binary(ctx, "ADD", under, twice), mirrored)
            times = unary(ctx, "FLOOR", binary(ctx, "REALDIV", place, twice))
            over = binary(ctx, "SUB", place, binary(ctx, "MUL", twice, times))
            mirrored = binary(ctx, "SUB", binary(ctx, "SUB", twice, over), 1.0)
            over = select(ctx, compare(ctx, "GREATER_EQUAL", over, size), mirrored, over)
        place = select(ctx, below, under, select(ctx, above, over, place))
        place.dtype = DType.F32
    return binary(ctx, "MINIMUM", binary(ctx, "MAXIMUM", place, zero), last)


def _last(ctx: Context, count: Value) -> Value:
    return binary(ctx, "SUB", cast(ctx, count, DType.F32), 1.0)


def _within(ctx: Context, place: Value, count: Value) -> Value:
    above = compare(ctx, "GREATER_EQUAL", place, 0.0)
    return binary(ctx, "MUL", above, compare(ctx, "LESS_EQUAL", place, _last(ctx, count)))


def _rounded(ctx: Context, place: Value) -> Value:
    """To whole numbers, halves away from zero."""
    size = unary(ctx, "FLOOR", binary(ctx, "ADD", unary(ctx, "ABS", place), 0.5))
    return binary(ctx, "MUL", size, unary(ctx, "SIGN", place))


def _between(ctx: Context, first: Value, second: Value, parts: list[Value]) -> Value:
    return binary(ctx, "ADD", binary(ctx, "MUL", parts[0], first), binary(ctx, "MUL", parts[1], second))
