"""Operators on images: convolutions, pooling, resizing, blocks."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family
from tests.frontends.tflite.cases.elementwise import ACTIVATIONS


def sizes(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    span = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "SAME" else (size - span) // stride + 1


def window(d: Draw, axes: int = 2) -> tuple[list[int], list[int], list[int], list[int], list[int], str]:
    """Sizes, kernel, strides, dilations, sizes of the result, padding."""
    padding = d.one(["SAME", "VALID"])
    kernel = [d.int(1, 3) for _ in range(axes)]
    strides = [d.int(1, 3) for _ in range(axes)]
    dilations = [1 if d.int(0, 2) else d.int(1, 2) for _ in range(axes)]
    if max(strides) > 1:
        dilations = [1] * axes
    given = [d.int(5, 9) for _ in range(axes)]
    made = [sizes(n, k, s, t, padding) for n, k, s, t in zip(given, kernel, strides, dilations, strict=True)]
    return given, kernel, strides, dilations, made, padding


@family("CONV_2D")
def conv_2d(d: Draw) -> Case:
    given, kernel, strides, dilations, made, padding = window(d)
    groups = d.one([1, 1, 2])
    inputs, outputs, batch = d.int(1, 4), d.int(1, 4) * groups, d.int(1, 2)
    x = d.input([batch, *given, inputs * groups])
    w = d.g.const(d.array([outputs, *kernel, inputs]))
    bias = d.g.const(d.array([outputs]))
    y = d.g.made(
        "CONV_2D", [x, w, bias], [batch, *made, outputs], "FLOAT32", "Conv2DOptions",
        padding=padding, stride_h=strides[0], stride_w=strides[1], dilation_hfactor=dilations[0],
        dilation_wfactor=dilations[1], fused_activation_function=d.one(ACTIVATIONS),
    )  # fmt: skip
    return d.case(y)


@family("DEPTHWISE_CONV_2D")
def depthwise(d: Draw) -> Case:
    given, kernel, strides, dilations, made, padding = window(d)
    channels, times, batch = d.int(1, 5), d.int(1, 3), d.int(1, 2)
    x = d.input([batch, *given, channels])
    w, bias = d.g.const(d.array([1, *kernel, channels * times])), d.g.const(d.array([channels * times]))
    y = d.g.made(
        "DEPTHWISE_CONV_2D", [x, w, bias], [batch, *made, channels * times], "FLOAT32", "DepthwiseConv2DOptions",
        padding=padding, stride_h=strides[0], stride_w=strides[1], dilation_hfactor=dilations[0],
        dilation_wfactor=dilations[1], depth_multiplier=times, fused_activation_function=d.one(ACTIVATIONS),
    )  # fmt: skip
    return d.case(y)


@family("CONV_3D")
def conv_3d(d: Draw) -> Case:
    given, kernel, strides, _, made, padding = window(d, 3)
    inputs, outputs = d.int(1, 3), d.int(1, 3)
    x, w = d.input([1, *given, inputs]), d.g.const(d.array([*kernel, inputs, outputs]))
    made = [sizes(n, k, s, 1, padding) for n, k, s in zip(given, kernel, strides, strict=True)]
    y = d.g.made(
        "CONV_3D", [x, w, d.g.const(d.array([outputs]))], [1, *made, outputs], "FLOAT32", "Conv3DOptions",
        padding=padding, stride_d=strides[0], stride_h=strides[1], stride_w=strides[2],
        fused_activation_function=d.one(ACTIVATIONS),
    )  # fmt: skip
    return d.case(y)


@family("TRANSPOSE_CONV", "TRANSPOSE_CONV computed size")
def transpose_conv(d: Draw, name: str) -> Case:
    kernel, strides = [d.int(1, 4) for _ in range(2)], [d.int(1, 3) for _ in range(2)]
    padding, given = d.one(["SAME", "VALID"]), [d.int(2, 5) for _ in range(2)]
    inputs, outputs = d.int(1, 4), d.int(1, 4)
    same = padding == "SAME"
    made = [n * s if same else (n - 1) * s + max(k, s) for n, s, k in zip(given, strides, kernel, strict=True)]
    x, w = d.input([1, *given, inputs]), d.g.const(d.array([outputs, *kernel, inputs]))
    shape = d.g.const([1, *made, outputs], "int32")
    if "computed" in name:  # as converters write it for a batch of any size
        all_sizes = d.g.made("SHAPE", [x], [4], "INT32", "ShapeOptions", out_type="INT32")
        bounds = [d.g.const([n], "int32") for n in (0, 1, 1)]
        batch = d.g.made(
            "STRIDED_SLICE", [all_sizes, *bounds], [], "INT32", "StridedSliceOptions", begin_mask=0, end_mask=0,
            ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=1,
        )  # fmt: skip
        others = [d.g.const(np.int32(n)) for n in (*made, outputs)]
        shape = d.g.made("PACK", [batch, *others], [4], "INT32", "PackOptions", values_count=4, axis=0)
    operands = [shape, w, x] + ([d.g.const(d.array([outputs]))] if d.flag() else [])
    y = d.g.made(
        "TRANSPOSE_CONV", operands, [1, *made, outputs], "FLOAT32", "TransposeConvOptions", padding=padding,
        stride_h=strides[0], stride_w=strides[1], version=3,
    )  # fmt: skip
    return d.case(y)


@family("CONV_3D_TRANSPOSE")
def conv_3d_transpose(d: Draw) -> Case:
    kernel, strides = [d.int(1, 3) for _ in range(3)], [d.int(1, 2) for _ in range(3)]
    padding, given = d.one(["SAME", "VALID"]), [d.int(2, 4) for _ in range(3)]
    inputs, outputs = d.int(1, 3), d.int(1, 3)
    same = padding == "SAME"
    made = [n * s if same else (n - 1) * s + max(k, s) for n, s, k in zip(given, strides, kernel, strict=True)]
    shape, w = d.g.const([1, *made, outputs], "int32"), d.g.const(d.array([*kernel, outputs, inputs]))
    y = d.g.made(
        "CONV_3D_TRANSPOSE", [shape, w, d.input([1, *given, inputs]), d.g.const(d.array([outputs]))],
        [1, *made, outputs], "FLOAT32", "Conv3DOptions", padding=padding, stride_d=strides[0], stride_h=strides[1],
        stride_w=strides[2],
    )  # fmt: skip
    return d.case(y)


@family("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def pool(d: Draw, op: str) -> Case:
    given, kernel, strides, _, _, padding = window(d)
    made = [sizes(n, k, s, 1, padding) for n, k, s in zip(given, kernel, strides, strict=True)]
    channels = d.int(1, 5)
    y = d.g.made(
        op, [d.input([1, *given, channels])], [1, *made, channels], "FLOAT32", "Pool2DOptions", padding=padding,
        stride_h=strides[0], stride_w=strides[1], filter_height=kernel[0], filter_width=kernel[1],
        fused_activation_function=d.one(ACTIVATIONS),
    )  # fmt: skip
    return d.case(y)


@family("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(d: Draw, op: str) -> Case:
    given, made, channels = [d.int(1, 6) for _ in range(2)], [d.int(1, 9) for _ in range(2)], d.int(1, 4)
    half, aligned = d.one([(False, False), (True, False), (False, True)])
    options = "ResizeBilinearOptions" if op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    y = d.g.made(
        op, [d.input([1, *given, channels]), d.g.const(made, "int32")], [1, *made, channels], "FLOAT32", options,
        align_corners=aligned, half_pixel_centers=half,
    )  # fmt: skip
    return d.case(y, tolerance=2e-5)


@family("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def blocks(d: Draw, op: str) -> Case:
    block, size, channels = d.int(2, 3), [d.int(1, 3) for _ in range(2)], d.int(1, 3)
    wide, deep = [1, *(n * block for n in size), channels], [1, *size, channels * block * block]
    given, made = (deep, wide) if op == "DEPTH_TO_SPACE" else (wide, deep)
    options = "DepthToSpaceOptions" if op == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    return d.case(d.g.made(op, [d.input(given)], made, "FLOAT32", options, block_size=block))


@family("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def batches(d: Draw, op: str) -> Case:
    axes = d.int(1, 2)
    block = [d.int(1, 3) for _ in range(axes)]
    border = [[d.int(0, 2), d.int(0, 2)] for _ in range(axes)]
    inner, channels, batch = [d.int(2, 4) for _ in range(axes)], d.int(1, 3), d.int(1, 2)
    times = 1
    for b in block:
        times *= b
    if op == "SPACE_TO_BATCH_ND":
        border = [[a, -(n + a) % b] for n, (a, _), b in zip(inner, border, block, strict=True)]
        made = [(n + a + z) // b for n, (a, z), b in zip(inner, border, block, strict=True)]
        given, result = [batch, *inner, channels], [batch * times, *made, channels]
    else:
        border = [[min(a, 1), min(z, 0)] for a, z in border]
        made = [n * b - a - z for n, (a, z), b in zip(inner, border, block, strict=True)]
        given, result = [batch * times, *inner, channels], [batch, *made, channels]
    operands = [d.input(given), d.g.const(block, "int32"), d.g.const(border, "int32")]
    return d.case(d.g.made(op, operands, result))


@family("DILATE")
def dilate(d: Draw) -> Case:
    shape = d.shape(1, 3, 4)
    factors = [d.int(1, 3) for _ in shape]
    made = [(n - 1) * f + 1 for n, f in zip(shape, factors, strict=True)]
    operands = [d.input(shape), d.g.const(factors, "int32"), d.g.const(0.5, "float32")]
    return d.case(d.g.made("DILATE", operands, made, "FLOAT32", "DilateOptions"))


@family("LOCAL_RESPONSE_NORMALIZATION")
def lrn(d: Draw) -> Case:
    shape = [1, *d.shape(3, 3)]
    options = {"radius": d.int(1, 3), "bias": 1.0, "alpha": 0.1, "beta": d.one([0.5, 0.75, 1.0])}
    made = d.g.made(
        "LOCAL_RESPONSE_NORMALIZATION",
        [d.input(shape)],
        shape,
        "FLOAT32",
        "LocalResponseNormalizationOptions",
        **options,
    )
    return d.case(made)
