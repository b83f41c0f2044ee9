"""Quantised forms: integers in and out, at most one step from LiteRT's; weights of fewer bits than what they meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family
from tests.frontends.tflite.cases.images import sizes, window

_RANGE = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}


def _q(d: Draw, kind: str, most: float = 4.0) -> dict[str, Any]:
    """A scale and a zero point such that about ``-most`` to ``most`` fit."""
    low, high = _RANGE[kind]
    scale = float(np.float32(2 * most / (high - low) * (0.6 + 0.8 * d.rng.random())))
    middle = (low + high + 1) // 2
    return {"scale": scale, "zero": 0 if kind == "INT16" else middle + d.int(-9, 9)}


def _input(d: Draw, shape: list[int], kind: str, q: dict[str, Any]) -> int:
    low, high = _RANGE[kind]
    return d.input(shape, kind, low, high, **q)


def _weights(d: Draw, shape: list[int], kind: str, axis: int, channels: int, x: dict[str, Any]) -> tuple[int, int]:
    """Weights, one scale a channel (bytes without sign: one for all), and a bias in their steps."""
    plain = kind == "UINT8"
    scale = (0.005 + 0.01 * d.rng.random(1 if plain else channels)).astype(np.float32)
    low, high = (0, 255) if plain else (-127, 127)
    w = d.g.const(
        d.array(shape, "UINT8" if plain else "INT8", low, high), scale=scale, zero=131 if plain else 0, axis=axis
    )
    wide = "INT64" if kind == "INT16" else "INT32"
    steps = (scale * np.float32(x["scale"])).astype(np.float32)
    bias = np.round(d.array([channels]) / steps).astype(wide.lower())
    return w, d.g.const(bias, scale=steps, zero=0, axis=0)


@family("CONV_2D quantised", "DEPTHWISE_CONV_2D quantised")
def conv(d: Draw, name: str) -> Case:
    op, kind = name.split()[0], d.one(["INT8", "INT8", "UINT8"])
    given, kernel, strides, _, _, padding = window(d)
    made = [sizes(n, k, s, 1, padding) for n, k, s in zip(given, kernel, strides, strict=True)]
    deep = op.startswith("DEPTHWISE")
    inputs = d.int(1, 9)
    outputs = inputs if deep else d.int(1, 9)
    x, y = _q(d, kind), _q(d, kind, 8.0)
    shape = [1, *kernel, outputs] if deep else [outputs, *kernel, inputs]
    w, bias = _weights(d, shape, kind, 3 if deep else 0, outputs, x)
    options: dict[str, Any] = {"depth_multiplier": 1} if deep else {}
    out = d.g.made(
        op, [_input(d, [1, *given, inputs], kind, x), w, bias], [1, *made, outputs], kind,
        "DepthwiseConv2DOptions" if deep else "Conv2DOptions", quantization=y, padding=padding, stride_h=strides[0],
        stride_w=strides[1], fused_activation_function=d.one(["NONE", "RELU", "RELU6"]), version=3, **options,
    )  # fmt: skip
    return d.case(out, steps=1)


@family("FULLY_CONNECTED quantised")
def fully_connected(d: Draw) -> Case:
    kind, rows, inputs, outputs = d.one(["INT8", "INT8", "UINT8", "INT16"]), d.int(1, 4), d.int(1, 40), d.int(1, 12)
    x, y = _q(d, kind), _q(d, kind, 12.0)
    scale = float(np.float32(0.005 + 0.01 * d.rng.random()))
    plain = kind == "UINT8"
    w = d.g.const(
        d.array([outputs, inputs], "UINT8" if plain else "INT8", 0 if plain else -127, 255 if plain else 127),
        scale=scale, zero=120 if plain else 0,
    )  # fmt: skip
    step = np.float32(scale * np.float32(x["scale"]))
    bias = np.round(d.array([outputs]) / step).astype("int64" if kind == "INT16" else "int32")
    operands = [_input(d, [rows, inputs], kind, x), w, d.g.const(bias, scale=float(step))]
    out = d.g.made(
        "FULLY_CONNECTED", operands, [rows, outputs], kind, "FullyConnectedOptions", quantization=y,
        fused_activation_function=d.one(["NONE", "RELU"]), version=4,
    )  # fmt: skip
    return d.case(out, steps=1)


@family("ADD quantised", "SUB quantised", "MUL quantised")
def arithmetic(d: Draw, name: str) -> Case:
    op, kind, shape = name.split()[0], d.one(["INT8", "UINT8", "INT16"]), d.shape(1, 4)
    operands = [_input(d, shape, kind, _q(d, kind)) for _ in range(2)]
    more = {} if op == "MUL" else {"pot_scale_int16": False}
    out = d.g.made(
        op, operands, shape, kind, f"{op.title()}Options", quantization=_q(d, kind, 16.0 if op == "MUL" else 8.0),
        fused_activation_function=d.one(["NONE", "RELU"]), version=2 if kind != "INT16" or op == "MUL" else 3, **more,
    )  # fmt: skip
    return d.case(out, steps=1)


@family("LOGISTIC quantised", "TANH quantised", "SOFTMAX quantised", "HARD_SWISH quantised", "LEAKY_RELU quantised")
def activation(d: Draw, name: str) -> Case:
    op, kind, shape = name.split()[0], d.one(["INT8", "UINT8"]), d.shape(1, 4)
    low = _RANGE[kind][0]
    fixed = {"LOGISTIC": (1 / 256, low), "SOFTMAX": (1 / 256, low), "TANH": (1 / 128, low + 128)}.get(op)
    y = _q(d, kind) if fixed is None else {"scale": fixed[0], "zero": fixed[1]}
    options = {"SOFTMAX": ("SoftmaxOptions", {"beta": 1.0}), "LEAKY_RELU": ("LeakyReluOptions", {"alpha": 0.25})}
    table, values = options.get(op, ("", {}))
    out = d.g.made(op, [_input(d, shape, kind, _q(d, kind))], shape, kind, table, quantization=y,
                   version=1 if op == "HARD_SWISH" else 2, **values)  # fmt: skip
    return d.case(out, steps=1)


@family("AVERAGE_POOL_2D quantised", "MAX_POOL_2D quantised")
def pool(d: Draw, name: str) -> Case:
    op, kind = name.split()[0], d.one(["INT8", "UINT8"])
    given, kernel, strides, _, _, padding = window(d)
    made = [sizes(n, k, s, 1, padding) for n, k, s in zip(given, kernel, strides, strict=True)]
    q, channels = _q(d, kind), d.int(1, 5)
    out = d.g.made(
        op, [_input(d, [1, *given, channels], kind, q)], [1, *made, channels], kind, "Pool2DOptions", quantization=q,
        padding=padding, stride_h=strides[0], stride_w=strides[1], filter_height=kernel[0], filter_width=kernel[1],
        fused_activation_function="NONE", version=2,
    )  # fmt: skip
    return d.case(out, steps=1)


@family("CONCATENATION quantised", "MAXIMUM quantised", "PAD quantised", "TRANSPOSE quantised", "RESHAPE quantised")
def moving(d: Draw, name: str) -> Case:
    """What only moves is exact."""
    op, kind, shape = name.split()[0], d.one(["INT8", "UINT8"]), d.shape(2, 4)
    q = _q(d, kind)
    x = _input(d, shape, kind, q)
    if op == "CONCATENATION":
        other = _q(d, kind) if kind == "UINT8" and d.flag() else q
        y = _input(d, shape, kind, other)
        made = d.g.made(
            op, [x, y], [2 * shape[0], *shape[1:]], kind, "ConcatenationOptions", quantization=q, axis=0, version=2
        )
        return d.case(made, steps=int(other is not q))
    if op == "MAXIMUM":
        return d.case(d.g.made(op, [x, _input(d, shape, kind, q)], shape, kind, quantization=q, version=2))
    if op == "PAD":
        pads = [[d.int(0, 2), d.int(0, 2)] for _ in shape]
        made_shape = [n + a + z for n, (a, z) in zip(shape, pads, strict=True)]
        return d.case(d.g.made(op, [x, d.g.const(pads, "int32")], made_shape, kind, quantization=q, version=2))
    if op == "TRANSPOSE":
        order = d.rng.permutation(len(shape)).tolist()
        return d.case(
            d.g.made(op, [x, d.g.const(order, "int32")], [shape[i] for i in order], kind, quantization=q, version=2)
        )
    flat = [int(np.prod(shape))]
    return d.case(d.g.made(op, [x, d.g.const(flat, "int32")], flat, kind, quantization=q))


@family("MEAN quantised", "RESIZE_BILINEAR quantised", "TRANSPOSE_CONV quantised")
def images(d: Draw, name: str) -> Case:
    op, kind = name.split()[0], d.one(["INT8", "UINT8"])
    shape = [1, d.int(2, 6), d.int(2, 6), d.int(1, 5)]
    q = _q(d, kind)
    if op == "MEAN":
        x, y = _input(d, shape, kind, q), _q(d, kind)
        made = d.g.made(op, [x, d.g.const([1, 2], "int32")], [1, 1, 1, shape[3]], kind, "ReducerOptions",
                        quantization=y, keep_dims=True, version=2)  # fmt: skip
        return d.case(made, steps=1)
    if op == "RESIZE_BILINEAR":
        size = [d.int(1, 9), d.int(1, 9)]
        made = d.g.made(op, [_input(d, shape, kind, q), d.g.const(size, "int32")], [1, *size, shape[3]], kind,
                        "ResizeBilinearOptions", quantization=q, half_pixel_centers=d.flag(), version=3)  # fmt: skip
        return d.case(made, steps=1)
    kernel, outputs = [d.int(1, 3), d.int(1, 3)], d.int(1, 5)
    w, _ = _weights(d, [outputs, *kernel, shape[3]], kind, 0, outputs, q)
    made_shape = [1, shape[1] * 2, shape[2] * 2, outputs]
    made = d.g.made(
        op, [d.g.const(made_shape, "int32"), w, _input(d, shape, kind, q)], made_shape, kind, "TransposeConvOptions",
        quantization=_q(d, kind, 8.0), padding="SAME", stride_h=2, stride_w=2, version=2,
    )  # fmt: skip
    return d.case(made, steps=1)
