"""Floats beside constant integers (dynamic range): products that quantise what they are given.

Convolutions are those of LiteRT's reference kernels, whose steps are of each sample's range: numbers are the same but
where one of the input lies half-way between two steps. (XNNPACK takes other steps for windows of one pixel, and other
borders where all of a sample is on one side of zero.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family, form
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


@form("TRANSPOSE_CONV dynamic")
def transposed(d: Draw) -> Case:
    """LiteRT quantises each sample to its range; filters are multiplied here by the floats as they are."""
    given, kernel, batch = [d.int(2, 7), d.int(2, 7)], [d.int(1, 3), d.int(1, 3)], d.int(1, 3)
    strides, padding, inputs, outputs = [d.int(1, 3), d.int(1, 3)], d.one(["SAME", "VALID"]), d.int(1, 20), d.int(1, 9)
    made = [
        n * s if padding == "SAME" else (n - 1) * s + max(k, s)
        for n, s, k in zip(given, strides, kernel, strict=True)
    ]  # fmt: skip
    scale = (0.01 + 0.01 * d.rng.random(outputs if d.flag() else 1)).astype(np.float32)
    w = d.g.const(d.array([outputs, *kernel, inputs], "INT8", -127, 127), scale=scale, zero=0, axis=0)
    shape = [batch, *made, outputs]
    operands = [d.g.const(shape, "int32"), w, _images(d, batch, given, inputs)]
    operands += [d.g.const(d.array([outputs]))] if d.flag() else []
    y = d.g.made("TRANSPOSE_CONV", operands, shape, "FLOAT32", "TransposeConvOptions",
                 version=3 if len(operands) > 3 else 1, padding=padding, stride_h=strides[0],
                 stride_w=strides[1])  # fmt: skip
    return d.case(y, tolerance=0.03)


@form("BATCH_MATMUL dynamic")
def batch_matmul(d: Draw) -> Case:
    """The second operand in integers; LiteRT quantises the rows of the first."""
    lead, rows, depth, columns = [d.int(1, 3)], d.int(1, 4), d.int(4, 30), d.int(1, 7)
    swapped = d.flag()
    shape = [*lead, *((columns, depth) if swapped else (depth, columns))]
    y = d.g.const(d.array(shape, "INT8", -127, 127), scale=0.013, zero=0)
    out = d.g.made("BATCH_MATMUL", [d.input([*lead, rows, depth]), y], [*lead, rows, columns], "FLOAT32",
                   "BatchMatMulOptions", adj_y=swapped, asymmetric_quantize_inputs=d.flag(), version=4)  # fmt: skip
    return d.case(out, tolerance=0.04)


@form("FULLY_CONNECTED forms dynamic")
def dense(d: Draw) -> Case:
    """Of any rank, one scale for all or one for each, ranges that are not around zero."""
    lead, inputs, outputs, keep = [d.int(1, 3) for _ in range(d.int(1, 3))], d.int(4, 40), d.int(1, 12), d.flag()
    scale = (0.01 + 0.01 * d.rng.random(outputs if d.flag() else 1)).astype(np.float32)
    w = d.g.const(d.array([outputs, inputs], "INT8", -127, 127), scale=scale, zero=0, axis=0)
    x = d.input([*lead, inputs], low=d.one([-2.0, 0.0]))
    bias = d.g.const(d.array([outputs])) if d.flag() else -1
    shape = [*lead, outputs] if keep else [int(np.prod(lead)), outputs]
    out = d.g.made("FULLY_CONNECTED", [x, w, bias], shape, "FLOAT32", "FullyConnectedOptions", version=9,
                   fused_activation_function=d.one(["NONE", "RELU", "RELU6"]), keep_num_dims=keep,
                   asymmetric_quantize_inputs=d.flag())  # fmt: skip
    return d.case(out, tolerance=0.04)


@form("EMBEDDING_LOOKUP dynamic")
def embedding(d: Draw) -> Case:
    rows, rest = d.int(2, 9), [d.int(1, 4) * 2 for _ in range(d.int(1, 2))]
    values = d.array([rows, *rest], "INT8", -7, 7)
    table = d.g.packed(values, 4, scale=0.02) if len(rest) == 1 and d.flag() else d.g.const(values, scale=0.02)
    ids = d.fed(d.rng.integers(0, rows, d.int(1, 6)).astype(np.int32))
    out = d.g.made("EMBEDDING_LOOKUP", [ids, table], [d.arrays[0].size, *rest], version=4)
    return d.case(out)


@form("CONV_2D halves", "FULLY_CONNECTED halves", "ADD halves")
def halves(d: Draw, name: str) -> Case:
    """Constants in half precision behind DEQUANTIZE."""
    op, inputs, outputs = name.split()[0], d.int(1, 9), d.int(1, 9)
    shape = {"CONV_2D": [outputs, 2, 3, inputs], "FULLY_CONNECTED": [outputs, inputs], "ADD": [inputs]}[op]
    w = d.g.made("DEQUANTIZE", [d.g.const(d.array(shape, "FLOAT16"))], shape)
    bias = d.g.made("DEQUANTIZE", [d.g.const(d.array([outputs], "FLOAT16"))], [outputs])
    if op == "CONV_2D":
        y = d.g.made(op, [d.input([2, 5, 6, inputs]), w, bias], [2, 4, 4, outputs], "FLOAT32", "Conv2DOptions",
                     padding="VALID", stride_h=1, stride_w=1)  # fmt: skip
    elif op == "FULLY_CONNECTED":
        y = d.g.made(op, [d.input([3, inputs]), w, bias], [3, outputs], "FLOAT32", "FullyConnectedOptions")
    else:
        y = d.g.made(op, [d.input([3, inputs]), w], [3, inputs], "FLOAT32", "AddOptions")
    return d.case(y)


@form("UNIDIRECTIONAL_SEQUENCE_LSTM dynamic", "SVDF dynamic", "RNN dynamic", "UNIDIRECTIONAL_SEQUENCE_RNN dynamic")
def recurrent(d: Draw, name: str) -> Case:
    """Weights of 8 bits; LiteRT quantises what each step is given, and floats are multiplied here."""
    op, batch, steps, inputs, units = name.split()[0], d.int(1, 3), d.int(1, 4), d.int(2, 8), d.int(2, 8)

    def w(*shape: int) -> int:
        return d.g.const(d.array(shape, "INT8", -127, 127), scale=0.004, zero=0)

    def state(*shape: int) -> int:
        return d.g.tensor(shape, is_variable=True)

    if op == "SVDF":
        rank, memory = d.int(1, 2), d.int(2, 4)
        operands = [d.input([batch, inputs]), w(units * rank, inputs), d.g.const(d.array([units * rank, memory])), -1,
                    state(batch, memory * units * rank)]  # fmt: skip
        operands[2] = w(units * rank, memory)
        y = d.g.made(op, operands, [batch, units], "FLOAT32", "SVDFOptions", rank=rank,
                     fused_activation_function="NONE", version=2)  # fmt: skip
        return d.case(y, runs=3, tolerance=0.05)
    if op == "RNN":
        operands = [d.input([batch, inputs]), w(units, inputs), w(units, units), d.g.const(d.array([units])),
                    state(batch, units)]  # fmt: skip
        y = d.g.made(op, operands, [batch, units], "FLOAT32", "RNNOptions", fused_activation_function="TANH", version=2)
        return d.case(y, runs=3, tolerance=0.05)
    if op == "UNIDIRECTIONAL_SEQUENCE_RNN":
        operands = [d.input([batch, steps, inputs]), w(units, inputs), w(units, units), d.g.const(d.array([units])),
                    state(batch, units)]  # fmt: skip
        y = d.g.made(op, operands, [batch, steps, units], "FLOAT32", "SequenceRNNOptions", time_major=False,
                     fused_activation_function="TANH", version=2)  # fmt: skip
        return d.case(y, runs=2, tolerance=0.05)
    operands = [d.input([batch, steps, inputs]), *(w(units, inputs) for _ in range(4)),
                *(w(units, units) for _ in range(4)), -1, -1, -1, *(d.g.const(d.array([units])) for _ in range(4)),
                -1, -1, state(batch, units), state(batch, units)]  # fmt: skip
    y = d.g.made(op, operands, [batch, steps, units], "FLOAT32", "UnidirectionalSequenceLSTMOptions", version=2,
                 time_major=False, fused_activation_function="TANH", asymmetric_quantize_inputs=d.flag())  # fmt: skip
    return d.case(y, runs=2, tolerance=0.05)
