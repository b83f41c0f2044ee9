"""Floats beside constant integers (dynamic range): products that quantise what they are given.

Convolutions are those of LiteRT's reference kernels, whose steps are of each sample's range: numbers are the same but
where one of the input lies half-way between two steps. (XNNPACK takes other steps for windows of one pixel, and other
borders where all of a sample is on one side of zero.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family
from tests.frontends.tflite.cases.elementwise import ACTIVATIONS
from tests.frontends.tflite.cases.images import sizes


def _window(d: Draw) -> tuple[list[int], list[int], list[int], dict[str, Any]]:
    """Sizes, kernel, sizes of the result, options."""
    kernel = d.one([[1, 1], [3, 3], [d.int(1, 5), d.int(1, 4)]])
    strides = d.one([[1, 1], [2, 2], [d.int(1, 3), d.int(1, 3)]])
    dilations = [d.int(1, 3), d.int(1, 3)] if strides == [1, 1] and not d.int(0, 2) else [1, 1]
    padding, given = d.one(["SAME", "VALID"]), [d.int(13, 17), d.int(13, 17)]
    made = [sizes(n, k, s, t, padding) for n, k, s, t in zip(given, kernel, strides, dilations, strict=True)]
    options = {
        "padding": padding, "stride_h": strides[0], "stride_w": strides[1], "dilation_hfactor": dilations[0],
        "dilation_wfactor": dilations[1], "fused_activation_function": d.one(ACTIVATIONS),
    }  # fmt: skip
    return given, kernel, made, options


def _weights(d: Draw, shape: list[int], axis: int, outputs: int) -> int:
    scale = (0.01 + 0.01 * d.rng.random(outputs)).astype(np.float32)
    return d.g.const(d.array(shape, "INT8", -127, 127), scale=scale, zero=0, axis=axis)


def _images(d: Draw, batch: int, sizes: list[int], channels: int) -> int:
    """Samples of ranges of their own, some on one side of zero alone."""
    x = d.array([batch, *sizes, channels], low=d.one([-2.0, -0.3, 0.0, 0.7]), high=2.0)
    return d.fed(x * d.rng.uniform(0.2, 2.0, (batch, 1, 1, 1)).astype(np.float32) * np.float32(d.one([1, -1])))


@family("CONV_2D dynamic")
def conv(d: Draw) -> Case:
    given, kernel, made, options = _window(d)
    groups, batch = d.one([1, 1, 1, 2]), d.int(1, 3)
    inputs, outputs = d.one([d.int(1, 9), 16, 33]), d.one([d.int(2, 9), 16, 24]) * groups
    operands = [
        _images(d, batch, given, inputs * groups), _weights(d, [outputs, *kernel, inputs], 0, outputs),
        d.g.const(d.array([outputs])),
    ]  # fmt: skip
    y = d.g.made("CONV_2D", operands, [batch, *made, outputs], "FLOAT32", "Conv2DOptions", version=5, **options)
    return d.case(y, runs=2, tolerance=1e-6, ties=0.02, reference=True)


@family("DEPTHWISE_CONV_2D dynamic")
def depthwise(d: Draw) -> Case:
    given, kernel, made, options = _window(d)
    options["stride_w"] = options["stride_h"]
    channels, times, batch = d.one([d.int(1, 9), 16, 33]), d.one([1, 1, d.int(1, 3)]), d.int(1, 3)
    padding, strides = options["padding"], [options["stride_h"]] * 2
    dilations = [options["dilation_hfactor"], options["dilation_wfactor"]]
    made = [sizes(n, k, s, t, padding) for n, k, s, t in zip(given, kernel, strides, dilations, strict=True)]
    outputs = channels * times
    operands = [
        _images(d, batch, given, channels), _weights(d, [1, *kernel, outputs], 3, outputs),
        d.g.const(d.array([outputs])),
    ]  # fmt: skip
    y = d.g.made(
        "DEPTHWISE_CONV_2D", operands, [batch, *made, outputs], "FLOAT32", "DepthwiseConv2DOptions", version=6,
        depth_multiplier=times, **options,
    )  # fmt: skip
    return d.case(y, runs=2, tolerance=1e-6, ties=0.02, reference=True)


@family("FULLY_CONNECTED dynamic")
def fully_connected(d: Draw) -> Case:
    """Integers of 8 or 4 bits. LiteRT quantises rows to their range; ours are rounded around zero: the difference is
    that of the steps."""
    rows, inputs, outputs = d.int(1, 4), 2 * d.int(4, 20), d.int(1, 12)
    bits = d.one([8, 8, 4])
    most = 127 if bits == 8 else 7
    values = d.array([outputs, inputs], "INT8", -most, most)
    scale = ((0.01 + 0.01 * d.rng.random(outputs)) * 127 / most).astype(np.float32)
    w = d.g.const(values, scale=scale) if bits == 8 else d.g.packed(values, 4, scale=scale)
    bias = d.g.const(d.array([outputs]))
    out = d.g.made("FULLY_CONNECTED", [d.input([rows, inputs]), w, bias], [rows, outputs], "FLOAT32",
                   "FullyConnectedOptions", version=12)  # fmt: skip
    return d.case(out, tolerance=0.03)
