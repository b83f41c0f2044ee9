"""Images in other sizes, and read at places of a grid."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.common.expressions import select
from MNN.frontends.ncnn.context import Context, Size
from MNN.frontends.ncnn.expressions import evaluated
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

_MODES = {1: "nearest", 2: "linear", 3: "cubic"}


@ncnn_layer("Interp")
def interp(ctx: Context, node: NcnnNode) -> Value:
    """Parameters: 1 nearest, 2 linear, 3 cubic; scales of height and width; or their sizes; or (5) the sizes of a
    second operand; whether corners align. A line becomes an image of constant channels, a matrix changes its width."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    if dims > 3:
        raise node.unsupported(f"an input of {dims} dimensions")
    mode, align = _MODES.get(p.integer(0)), p.flag(6)
    sizes = _sizes(ctx, node, x)
    scales = [1.0, 1.0, 1.0 if dims == 2 else p.real(1, 1.0), p.real(2, 1.0)]
    if sizes is None:
        if not 0 < min(scales) <= max(scales) < math.inf:
            raise node.malformed(f"scales {scales[2:]}")
        if dims > 1 and mode is not None and (mode == "nearest" or not align):
            image = ctx.op("Unsqueeze", x, squeezeDims=[1]) if dims == 2 else x
            out = _resized(ctx, image, _scales(ctx, image, scales, mode), mode, align)
            return ctx.op("Squeeze", out, squeezeDims=[1]) if dims == 2 else out
        # a line is one pixel
        rows, columns = (ctx.size(x, "h"), ctx.size(x, "w")) if dims > 1 else (1, 1)
        sizes = _times(ctx, rows, scales[2]), _times(ctx, columns, scales[3])
    height, width = sizes
    if isinstance(height, int) and isinstance(width, int) and min(height, width) < 1:
        raise node.malformed(f"an image of {height} x {width}")
    if dims == 1:
        channels = ctx.size(x, "w")
        return ctx.op("BroadcastTo", ctx.reshape(x, [-1, 1, 1]), ctx.sizes([1, channels, height, width]))
    if mode is None:
        raise node.unsupported(f"kind {p.integer(0)} of resizing")
    if dims == 2:
        return _along(ctx, x, width, mode, align)
    return _resized(ctx, x, ctx.sizes([height, width]), mode, align)


def _sizes(ctx: Context, node: NcnnNode, x: Value) -> tuple[Size, Size] | None:
    """Height and width of the result, where they are not told by scales."""
    p = node.params
    if p.text(9):
        found = evaluated(ctx, node, p.text(9))
        if not 1 <= len(found) <= 2:
            raise node.malformed(f"{len(found)} sizes")
        return (found[1] if len(found) == 2 else ctx.size(x, "h")), found[0]
    if len(node.inputs) > 1:
        return ctx.size(node.input(1), "h"), ctx.size(node.input(1), "w")
    return (p.integer(3), p.integer(4)) if p.integer(3) and p.integer(4) else None


def _scales(ctx: Context, x: Value, scales: list[float], mode: str) -> Value:
    """Of all axes. Linear resizes copy an axis that stays as long, whatever its scale; those to the nearest pixel copy
    an image of which both axes do; cubic ones copy nothing."""
    stay = [_stays(ctx, ctx.size(x, name), scale) for name, scale in zip("hw", scales[2:], strict=True)]
    copied = {"linear": [[c] for c in stay], "nearest": [stay, stay]}.get(mode, [[False], [False]])
    found: list[float | Value] = [1.0, 1.0]
    for scale, conditions in zip(scales[2:], copied, strict=True):
        chosen: float | Value = scale if any(c is False for c in conditions) else 1.0
        for condition in conditions:
            if isinstance(condition, Value) and chosen != scale:
                chosen = select(ctx, condition, ctx.const(np.float32(1)) if chosen == 1.0 else chosen, scale)
        found.append(chosen)
    if any(isinstance(s, Value) for s in found):
        return ctx.op("Pack", *(s if isinstance(s, Value) else ctx.const(np.float32(s)) for s in found), axis=0)
    return ctx.const(np.asarray(found, np.float32))


def _stays(ctx: Context, size: Size, scale: float) -> bool | Value:
    """Whether an axis is as long as before."""
    if not 1 < scale < 2:
        return scale == 1
    longer = _times(ctx, size, scale)
    if isinstance(longer, Value) and isinstance(size, Value):
        return ctx.op("BinaryOp", longer, size, opType="EQUAL")
    return bool(longer == size)


def _times(ctx: Context, size: Size, scale: float) -> Size:
    """Whole pixels, in floats as ncnn multiplies. Between corners that align pixels lie by sizes, not by the scale."""
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale))
    real = ctx.binary("MUL", ctx.op("Cast", size, dstT="DT_FLOAT"), ctx.const(np.float32(scale)))
    return ctx.op("Cast", real, dstT="DT_INT64")


_CTM = {"half_pixel": "HalfPixels", "align_corners": "AlignCorners", "asymmetric": "Asymmetric"}
_TYPES = {"nearest": 1, "linear": 2, "cubic": 3}


def _transform(mode: str, align: bool) -> str:
    return "asymmetric" if mode == "nearest" else "align_corners" if align else "half_pixel"


def _resized(ctx: Context, x: Value, target: Value, mode: str, align: bool) -> Value:
    """``target``: height and width, or four scales."""
    transform = _transform(mode, align)
    return ctx.op(
        "Interp", x, target, resizeType=_TYPES[mode], ctm=_CTM[transform], alignCorners=align,
        halfPixelCenters=transform == "half_pixel", cubicCoeffA=-0.75 if mode == "cubic" else None,
    )  # fmt: skip


def _along(ctx: Context, x: Value, width: Size, mode: str, align: bool) -> Value:
    """The rows of a matrix in another length."""
    return ctx.op(
        "OnnxResize", x, None, None, ctx.sizes([width]), mode=mode, axes=[2], nearest_mode="floor",
        coordinate_transformation_mode=_transform(mode, align), cubic_coeff_a=-0.75,
    )  # fmt: skip


@ncnn_layer("GridSample")
def grid_sample(ctx: Context, node: NcnnNode) -> Value:
    """Parameters: 1 linear, 2 nearest, 3 cubic; outside 1 zeros, 2 the border, 3 mirrored; whether corners align;
    whether the grid has its coordinates first."""
    p, x, grid = node.params, node.input(0), node.input(1)
    dims = ctx.dims(node, x)
    mode = {1: "BILINEAR", 2: "NEAREST", 3: "CUBIC"}.get(p.integer(0, 1))
    outside = {1: "ZEROS", 2: "CLAMP", 3: "REFLECTION"}.get(p.integer(1, 1))
    if mode is None or outside is None or dims < 3:
        raise node.unsupported(f"mode {p.integer(0, 1)}, padding {p.integer(1, 1)} of {dims} dimensions")
    if p.flag(3):
        rank = dims + 1
        grid = ctx.op("Permute", grid, dims=[0, *range(2, rank), 1])
    op = "OnnxGridSample" if mode == "CUBIC" else "GridSample"
    return ctx.op(op, x, grid, mode=mode, paddingMode=outside, alignCorners=p.flag(2))
