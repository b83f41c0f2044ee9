"""MediaPipe's operators on landmarks: crops around some of them, and back (Grishchenko et al. 2020, "Attention mesh",
arXiv:2006.10962). Version 2 of each; the first landmark operators of version 1 are of no published model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import CUSTOM, tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_EYE = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))


def _options(node: TfliteNode) -> Mapping[str, Any]:
    if node.operation.version != 2:
        raise node.unsupported(f"version {node.operation.version}", "export the model with version 2 of it")
    return node.custom() if node.operation.custom_options else {}


def _number(node: TfliteNode, options: Mapping[str, Any], key: str) -> float:
    found = options.get(key)
    if not isinstance(found, (int, float)):
        raise node.malformed(f"its option '{key}' is {found!r}")
    return float(found)


def _column(ctx: Context, x: Value, index: int) -> Value:
    """A column of ``[..., k]`` without its axis."""
    return ctx.op("GatherV2", x, ctx.const(index), ctx.const(-1))


@tflite_op(f"{CUSTOM}Landmarks2TransformMatrix")
def landmarks_to_matrix(ctx: Context, node: TfliteNode) -> Value:
    """``[1, n, 3]`` to ``[1, 4, 4]``: from the pixels of a crop to those of the image. The crop is turned so that two
    landmarks lie level, and holds some landmarks with room around them."""
    options = _options(node)
    left, right = (int(_number(node, options, f"{s}_rotation_idx")) for s in ("left", "right"))
    chosen = options.get("subset_idxs")
    size = [_number(node, options, f"output_{s}") for s in ("width", "height")]
    scale = [_number(node, options, f"scale_{a}") for a in "xy"]
    if not isinstance(chosen, list) or not chosen or min(size) < 1:
        raise node.malformed(f"landmarks {chosen!r} for a crop of {size}")
    flat = ctx.op("Reshape", ctx.op("GatherV2", node.input(0), ctx.const([0, 1]), ctx.const(-1)), ctx.const([-1, 2]))
    ends = ctx.op("GatherV2", flat, ctx.const([left, right]), ctx.const(0))
    x, y = (ctx.op("Squeeze", v, squeezeDims=[0]) for v in _differences(ctx, ends))
    turned = ctx.binary("ATAN2", y, x)
    angle = ctx.binary("SUB", ctx.const(np.float32(_number(node, options, "target_rotation_radians"))), turned)
    cos, sin = ctx.unary("COS", angle), ctx.unary("SIN", angle)
    points = ctx.op("GatherV2", flat, ctx.const([int(i) for i in chosen]), ctx.const(0))
    px, py = _column(ctx, points, 0), _column(ctx, points, 1)
    level = [
        ctx.binary("SUB", ctx.binary("MUL", px, cos), ctx.binary("MUL", py, sin)),
        ctx.binary("ADD", ctx.binary("MUL", px, sin), ctx.binary("MUL", py, cos)),
    ]
    high, low = (
        [ctx.op("Reduction", v, operation=kind, dim=[0], keepDims=False) for v in level]
        for kind in ("MAXIMUM", "MINIMUM")
    )
    half = ctx.const(np.float32(0.5))
    middle = [ctx.binary("MUL", ctx.binary("ADD", a, z), half) for a, z in zip(high, low, strict=True)]
    centre = _turned(ctx, middle, cos, sin)
    steps = [
        ctx.binary("MUL", ctx.binary("SUB", a, z), ctx.const(np.float32(s / n)))
        for a, z, s, n in zip(high, low, scale, size, strict=True)
    ]
    back = ctx.unary("NEG", sin)
    columns = [[ctx.binary("MUL", cos, steps[0]), ctx.binary("MUL", sin, steps[1])],
               [ctx.binary("MUL", back, steps[0]), ctx.binary("MUL", cos, steps[1])]]  # fmt: skip
    zero, rows = ctx.const(np.float32(0)), []
    for row, start in zip(columns, centre, strict=True):
        moved = ctx.binary("ADD", ctx.binary("MUL", row[0], ctx.const(np.float32(-size[0] / 2))),
                           ctx.binary("MUL", row[1], ctx.const(np.float32(-size[1] / 2))))  # fmt: skip
        rows.append(ctx.op("Pack", *row, zero, ctx.binary("ADD", start, moved), axis=0))
    rest = [ctx.const(np.asarray(line, np.float32)) for line in _EYE[2:]]
    return ctx.op("Unsqueeze", ctx.op("Pack", *rows, *rest, axis=0), squeezeDims=[0])


def _differences(ctx: Context, ends: Value) -> list[Value]:
    """From the first row to the second, by column, ``[1]`` each."""
    first, second = ctx.emit("Slice", [ends], 2, axis=0, sourceType="TENSORFLOW")
    across = ctx.binary("SUB", second, first)
    return [_column(ctx, across, i) for i in (0, 1)]


def _turned(ctx: Context, point: Sequence[Value], cos: Value, sin: Value) -> list[Value]:
    """A point turned back."""
    x, y = point
    return [
        ctx.binary("ADD", ctx.binary("MUL", x, cos), ctx.binary("MUL", y, sin)),
        ctx.binary("SUB", ctx.binary("MUL", y, cos), ctx.binary("MUL", x, sin)),
    ]


@tflite_op(f"{CUSTOM}TransformTensorBilinear")
def transform_tensor(ctx: Context, node: TfliteNode) -> Value:
    """An image ``[1, H, W, C]`` read through a matrix ``[1, 4, 4]``; pixels outside are zero."""
    options = _options(node)
    height, width = (int(_number(node, options, f"output_{s}")) for s in ("height", "width"))
    x, sizes = ctx.image(node, 0), ctx.static_shape(node.input(0))
    if sizes is None or len(sizes) != 4 or not 0 < height * width <= 1 << 20:
        raise node.unsupported(f"a crop of {height} x {width} from an image of sizes {sizes}")
    ys, xs = np.meshgrid(np.arange(height) + 0.5, np.arange(width) + 0.5, indexing="ij")
    grid = np.stack([xs, ys, np.zeros_like(xs), np.ones_like(xs)], -1).reshape(-1, 4).astype(np.float32)
    at = ctx.op("MatMul", ctx.const(grid), ctx.op("Reshape", node.input(1), ctx.const([4, 4])), transposeB=True)
    pixels = ctx.binary("SUB", ctx.op("GatherV2", at, ctx.const([0, 1]), ctx.const(-1)), ctx.const(np.float32(0.5)))
    most = np.asarray([sizes[2] - 1, sizes[1] - 1], np.float32)
    inside = [
        ctx.cast(ctx.binary("GREATER_EQUAL", pixels, ctx.const(np.float32(0))), DType.F32),
        ctx.cast(ctx.binary("LESS_EQUAL", pixels, ctx.const(most)), DType.F32),
    ]
    kept = ctx.op("Reduction", ctx.binary("MUL", *inside), operation="PROD", dim=[-1], keepDims=True)
    relative = ctx.binary(
        "SUB", ctx.binary("MUL", pixels, ctx.const(2 / np.maximum(most, 1))), ctx.const(np.float32(1))
    )
    places = ctx.op("Reshape", relative, ctx.const([1, height, width, 2]))
    read = ctx.op("GridSample", x, places, mode="BILINEAR", paddingMode="CLAMP", alignCorners=True)
    mask = ctx.op("Reshape", kept, ctx.const([1, 1, height, width]))
    return ctx.channels_last(ctx.binary("MUL", read, mask))


@tflite_op(f"{CUSTOM}TransformLandmarks")
def transform_landmarks(ctx: Context, node: TfliteNode) -> Value:
    """Landmarks ``[1, n, 2 or 3]`` through a matrix ``[1, 4, 4]``; a third number stays."""
    _options(node)
    points, dimensions = node.input(0), node.tensors_out[0].sizes[-1:]
    if dimensions not in ((2,), (3,)):
        raise node.malformed(f"landmarks of {list(dimensions)} numbers")
    matrix = ctx.op("Reshape", node.input(1), ctx.const([4, 4]))
    plane = ctx.op(
        "GatherV2", ctx.op("GatherV2", matrix, ctx.const([0, 1]), ctx.const(0)), ctx.const([0, 1]), ctx.const(1)
    )
    shift = ctx.op("GatherV2", ctx.op("GatherV2", matrix, ctx.const([0, 1]), ctx.const(0)), ctx.const(3), ctx.const(1))
    flat = ctx.op("GatherV2", points, ctx.const([0, 1]), ctx.const(-1))
    moved = ctx.binary("ADD", ctx.op("MatMul", flat, plane, transposeB=True), shift)
    if dimensions == (2,):
        return moved
    return ctx.op("Concat", moved, ctx.op("GatherV2", points, ctx.const([2]), ctx.const(-1)), axis=-1)
