"""Pooling by Caffe's rule of rounding, spatial pyramids, and the inverse of pooling."""

from __future__ import annotations

import numpy as np

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.operators.convolution import MAX_WINDOW
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type


def _sides(node: CaffeNode, param: Message, name: str, stem: str, default: int) -> tuple[int, int]:
    sides = (f"{stem}_h", f"{stem}_w")
    named = [param.has(s) for s in sides]
    if any(named):
        if param.has(name):
            raise node.malformed(f"{name} beside {sides[0]} or {sides[1]}")
        return param.integer(sides[0], default), param.integer(sides[1], default)
    both = param.integer(name, default)
    return both, both


@caffe_layer("Pooling")
def pooling(ctx: Context, node: CaffeNode) -> list[Value]:
    """A second top gives the places of the largest numbers within their plane."""
    param, x = node.params("pooling_param"), node.input(0)
    kind = node.choice(param, "pool", "MAX", "MAX", "AVE")
    rounding = node.choice(param, "round_mode", "CEIL", "CEIL", "FLOOR")
    ceil = param.flag("ceil_mode", True) and rounding == "CEIL"
    everything = param.flag("global_pooling", False)
    strides, pads = _sides(node, param, "stride", "stride", 1), _sides(node, param, "pad", "pad", 0)
    kernel = _sides(node, param, "kernel_size", "kernel", 0)
    if node.rank() != 4:
        raise node.malformed(f"a blob of shape {list(node.shape())}, expected [N, C, H, W]")
    if everything:
        if kernel != (0, 0) or pads != (0, 0) or strides != (1, 1):
            raise node.malformed("global pooling has no kernel, and no pads and strides but 0 and 1")
        if node.outputs < 2:
            return [ctx.op("Pooling", x, type=f"{kind}POOL", isGlobal=True)]
        kernel = (node.size(2), node.size(3))
    return pool(ctx, node, x, kind, kernel, strides, pads, ceil)


def pool(
    ctx: Context, node: CaffeNode, x: Value, kind: str, kernel: tuple[int, int], strides: tuple[int, int],
    pads: tuple[int, int], ceil: bool = True,
) -> list[Value]:  # fmt: skip
    """Windows of known sizes."""
    if (
        min(kernel + strides) < 1
        or max(kernel + strides) > MAX_WINDOW
        or not all(0 <= p < k for p, k in zip(pads, kernel, strict=True))
    ):
        raise node.malformed(f"windows of {list(kernel)} with strides {list(strides)} and pads {list(pads)}")
    for axis in (0, 1):
        size = node.shape()[axis + 2]
        if ceil and not pads[axis] and isinstance(size, int) and _begins_outside(size, kernel[axis], strides[axis]):
            raise node.unsupported(
                f"a window that begins outside of a blob (size {size}, kernel {kernel[axis]}, stride {strides[axis]})",
                "of which Caffe makes the lowest number: use round_mode: FLOOR",
            )
    if node.outputs > 1:
        if kind != "MAX":
            raise node.malformed("two tops, which only the largest numbers have")
        return _with_places(ctx, node, x, kernel, strides, pads, ceil)
    out = ctx.op(
        "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1], padY=pads[0],
        padX=pads[1], pads=[*pads, *pads], padType="CAFFE", type=f"{kind}POOL", ceilModel=ceil,
        countType="INCLUDE_PADDING" if kind == "AVE" else None,
    )  # fmt: skip
    return [out]


def _begins_outside(size: int, kernel: int, stride: int) -> bool:
    return -(-max(size - kernel, 0) // stride) * stride >= size


def _with_places(
    ctx: Context, node: CaffeNode, x: Value, kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, int],
    ceil: bool,
) -> list[Value]:  # fmt: skip
    area = node.size(2) * node.size(3)
    best, at = ctx.emit(
        "MaxPool", [x], 2, kernel_shape=list(kernel), strides=list(strides), pads=[*pads, *pads], ceil_mode=ceil
    )
    place = binary(ctx, "FLOORMOD", at, ctx.const(area))
    return [best, ctx.op("Cast", place, dstT=data_type(DType.F32))]


@caffe_layer("SPP")
def spatial_pyramid(ctx: Context, node: CaffeNode) -> Value:
    """1, 4, 16, ... bins over the whole blob, one behind the other (He et al. 2014, arXiv:1406.4729)."""
    param, x = node.params("spp_param"), node.input(0)
    levels, kind = param.integer("pyramid_height", 0), node.choice(param, "pool", "MAX", "MAX", "AVE")
    sizes = (node.size(2), node.size(3))
    if not 1 <= levels <= 12:
        raise node.malformed(f"a pyramid of {levels} levels")
    parts = []
    for level in range(levels):
        bins = 1 << level
        kernel = tuple(-(-n // bins) for n in sizes)
        pads = tuple((k * bins - n + 1) // 2 for n, k in zip(sizes, kernel, strict=True))
        (made,) = pool(ctx, node, x, kind, (kernel[0], kernel[1]), (kernel[0], kernel[1]), (pads[0], pads[1]))
        parts.append(made if levels == 1 else ctx.op("Flatten", made, axis=1))
    return parts[0] if levels == 1 else ctx.emit("Concat", parts, axis=1)[0]


@caffe_layer("Upsample")
def upsample(ctx: Context, node: CaffeNode) -> Value:
    """Every number as a square (YOLO), or put back to where a pooling found it (SegNet; the second blob says where)."""
    param, x = node.params("upsample_param"), node.input(0)
    factors = param.integer("scale_h", 0), param.integer("scale_w", 0)
    scale = param.integer("scale", param.integer("stride", 2))
    height, width = (f or scale for f in factors)
    if not (1 <= height <= MAX_WINDOW and 1 <= width <= MAX_WINDOW):
        raise node.malformed(f"scales {height} and {width}")
    sizes = [param.integer("upsample_h", node.size(2) * height), param.integer("upsample_w", node.size(3) * width)]
    for key in ("pad_out_h", "pad_out_w"):
        param.flag(key, False)
    if len(node.inputs) < 2:
        return ctx.op(
            "Interp", x, outputHeight=sizes[0], outputWidth=sizes[1], heightScale=float(height),
            widthScale=float(width), resizeType=1, ctm="Asymmetric",
        )  # fmt: skip
    batch, channels = node.size(0), node.size(1)
    base = np.arange(batch * channels, dtype=np.int64).reshape(batch, channels, 1, 1) * (sizes[0] * sizes[1])
    places = ctx.op("Cast", node.input(1), dstT=data_type(DType.I64))
    whole = ctx.const([batch, channels, *sizes])
    strides = [height, width]
    return ctx.op(
        "MaxUnpool", x, binary(ctx, "ADD", places, ctx.const(base)), whole, kernel_shape=strides, strides=strides
    )
