"""Colours of pictures, whose last axis is red, green and blue, or hue, saturation and value (all from 0 to 1)."""

from __future__ import annotations

from functools import reduce

from MNN.frontends.common.expressions import binary, clamp, select, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.slicing import cut
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value


def _planes(ctx: Context, node: TfNode, x: Value) -> list[Value]:
    """The three channels, each with a last axis of 1."""
    rank = ctx.rank(x)
    if rank is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    return [cut(ctx, x, [(rank - 1, i, i + 1, 1)]) for i in range(3)]


def _joined(ctx: Context, planes: list[Value]) -> Value:
    out = ctx.op("Concat", *planes, axis=-1)
    out.dtype = planes[0].dtype
    return out


def _same(ctx: Context, x: Value, y: Value) -> Value:
    return ctx.op("BinaryOp", x, y, opType="EQUAL")


def _hsv(ctx: Context, planes: list[Value]) -> list[Value]:
    """Smith 1978, Color Gamut Transform Pairs. Grey has the hue and the saturation 0."""
    red, green, blue = planes
    value = reduce(lambda a, b: binary(ctx, "MAXIMUM", a, b), planes)
    chroma = binary(ctx, "SUB", value, reduce(lambda a, b: binary(ctx, "MINIMUM", a, b), planes))
    zero, grey = ctx.const_like(0, value), _same(ctx, chroma, ctx.const_like(0, value))
    whole = select(ctx, grey, ctx.const_like(1, value), binary(ctx, "MUL", chroma, 6))

    def turned(x: Value, y: Value, by: float) -> Value:
        out = binary(ctx, "REALDIV", binary(ctx, "SUB", x, y), whole)
        return binary(ctx, "ADD", out, by)

    hue = select(
        ctx,
        _same(ctx, value, red),
        turned(green, blue, 0),
        select(ctx, _same(ctx, value, green), turned(blue, red, 2 / 6), turned(red, green, 4 / 6)),
    )
    hue.dtype = value.dtype
    hue = binary(ctx, "SUB", hue, unary(ctx, "FLOOR", hue))
    black = _same(ctx, value, zero)
    saturation = binary(ctx, "REALDIV", chroma, select(ctx, black, ctx.const_like(1, value), value))
    return [select(ctx, grey, zero, hue), select(ctx, black, zero, saturation), value]


def _rgb(ctx: Context, planes: list[Value]) -> list[Value]:
    hue, saturation, value = planes
    sixths = binary(ctx, "MUL", hue, 6)
    rest = binary(ctx, "SUB", ctx.const_like(1, value), saturation)
    out = []
    for sign, middle, level in ((1, 3, -1), (-1, 2, 2), (-1, 4, 2)):
        distance = unary(ctx, "ABS", binary(ctx, "SUB", sixths, middle))
        share = clamp(ctx, binary(ctx, "ADD", binary(ctx, "MUL", distance, sign), level), 0.0, 1.0)
        out.append(binary(ctx, "MUL", binary(ctx, "ADD", rest, binary(ctx, "MUL", saturation, share)), value))
    return out


@tf_op("RGBToHSV")
def rgb_to_hsv(ctx: Context, node: TfNode) -> Value:
    return _joined(ctx, _hsv(ctx, _planes(ctx, node, node.input(0))))


@tf_op("HSVToRGB")
def hsv_to_rgb(ctx: Context, node: TfNode) -> Value:
    return _joined(ctx, _rgb(ctx, _planes(ctx, node, node.input(0))))


@tf_op("AdjustHue", "AdjustSaturation")
def adjusted(ctx: Context, node: TfNode) -> Value:
    """The hue moved round by a number (1 is once round), the saturation multiplied by one."""
    x, by = node.input(0), node.input(1)
    if x.dtype is not None and by.dtype is not x.dtype:
        by = ctx.op("CastLike", by, x)
    hue, saturation, value = _hsv(ctx, _planes(ctx, node, x))
    if node.op == "AdjustHue":
        hue = binary(ctx, "ADD", hue, by)
        hue = binary(ctx, "SUB", hue, unary(ctx, "FLOOR", hue))
    else:
        saturation = clamp(ctx, binary(ctx, "MUL", saturation, by), 0.0, 1.0)
    return _joined(ctx, _rgb(ctx, [hue, saturation, value]))
