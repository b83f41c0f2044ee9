"""Quantised forms beyond those of :mod:`~tests.frontends.tflite.cases.quantized`: every operator that
LiteRT's reference kernels take integers in, of any rank, broadcast, in 8 and 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, form
from tests.frontends.tflite.cases.images import sizes
from tests.frontends.tflite.cases.quantized import _RANGE, _input, _q

_STEP: dict[str, Any] = {"reference": True, "steps": 1}
_SAME: dict[str, Any] = {"reference": True, "steps": 0}


def _broadcast(d: Draw, shape: list[int]) -> list[int]:
    """A shape that broadcasts to this one."""
    return [1 if d.int(0, 2) == 0 else n for n in shape][d.int(0, len(shape) - 1) :]


# -- one number at a time -------------------------------------------------------------------------------------------

_TABLES = {"EXP", "LOG", "LOGISTIC", "RSQRT", "TANH", "SOFTMAX"}
"""What LiteRT interpolates in tables of 16 bits, and so do we: to the bit."""
_RESCALED = {"ABS", "HARD_SWISH", "L2_NORMALIZATION", "LEAKY_RELU", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"}
"""What LiteRT multiplies by 31 bits of a factor and rounds twice, and so do we: to the bit."""
_KINDS = {
    "ABS": ["INT8", "INT16"], "EXP": ["INT8", "INT16"], "LOG": ["INT8", "INT16"], "RSQRT": ["INT8", "INT16"],
    "GELU": ["INT8", "UINT8"], "RELU": ["INT8", "UINT8", "INT16"], "RELU6": ["INT8", "UINT8", "INT16"],
    "RELU_N1_TO_1": ["INT8", "UINT8"], "RELU_0_TO_1": ["INT8", "UINT8"],
    "LEAKY_RELU wide": ["INT8", "UINT8", "INT16"], "LOGISTIC wide": ["INT16"], "TANH wide": ["INT16"],
    "SOFTMAX wide": ["INT8", "UINT8", "INT16"], "LOG_SOFTMAX": ["INT8", "UINT8"], "HARD_SWISH wide": ["INT8", "UINT8"],
    "L2_NORMALIZATION": ["INT8", "UINT8"],
}  # fmt: skip


@form(*(f"{name} quantised" for name in _KINDS))
def unary(d: Draw, name: str) -> Case:
    key = name.removesuffix(" quantised")
    op, kind = key.split()[0], d.one(_KINDS[key])
    shape, x, y = d.shape(1, 4), _q(d, kind), _q(d, kind)
    low, out_kind, table, values, version = -128 if kind == "INT8" else 0, kind, "", {}, 2
    if op in ("LOG", "RSQRT"):
        x["zero"] = 0 if kind == "INT16" else -128
    if op == "LEAKY_RELU":
        table, values = "LeakyReluOptions", {"alpha": float(np.float32(d.one([0.0, 0.01, 0.3, 1.0, 1.7, -0.5])))}
    if op == "GELU":
        table, values = "GeluOptions", {"approximate": d.flag()}
    if op == "ABS":
        y = x if d.flag() else y
    if op in ("LOGISTIC", "TANH"):
        y = {"scale": 1 / 32768, "zero": 0}
        if d.flag():
            x = {"scale": 2.0 ** -d.int(9, 13), "zero": 0}
    if op in ("SOFTMAX", "LOG_SOFTMAX"):
        shape = d.shape(1 if kind != "INT16" else 2, 4, 9)
        x = _q(d, kind, d.one([1.0, 4.0, 12.0]))
    if op == "SOFTMAX":
        table, values = "SoftmaxOptions", {"beta": float(np.float32(d.one([1.0, 0.5, 2.0])))}
        y = {"scale": 1 / 32768, "zero": 0} if kind == "INT16" else {"scale": 1 / 256, "zero": low}
        if kind == "INT8" and d.int(0, 2) == 0:
            out_kind, y = "INT16", {"scale": 1 / 65536, "zero": -32768}
            version = 3
    if op == "LOG_SOFTMAX":
        table, y = "LogSoftmaxOptions", {"scale": 16 / 256, "zero": low + 255}
    if op == "L2_NORMALIZATION":
        table, values = "L2NormOptions", {"fused_activation_function": "NONE"}
        shape, y = d.shape(2, 4), {"scale": 1 / 128, "zero": low + 128}
        x["zero"] = low + 128
    if op in ("LOG",):
        array = d.array(shape, kind, -100, 127)
        given = d.fed(array, **x)
    elif op == "RSQRT":
        given = d.fed(d.array(shape, kind, -100 if kind == "INT8" else 30, 127 if kind == "INT8" else 32767), **x)
    else:
        given = _input(d, shape, kind, x)
    if op in ("HARD_SWISH", "ELU", "RELU_N1_TO_1", "RELU_0_TO_1"):
        version = 1
    made = d.g.made(op, [given], shape, out_kind, table, quantization=y, version=version, **values)
    return d.case(made, reference=True, steps=int(op not in _RESCALED and not (kind == "INT16" and op in _TABLES)))


# -- two operands -----------------------------------------------------------------------------------------------------


@form("ADD broadcast quantised", "SUB broadcast quantised", "MUL broadcast quantised",
        "SQUARED_DIFFERENCE quantised", "MINIMUM quantised", "MAXIMUM wide quantised", "PRELU quantised")  # fmt: skip
def binary(d: Draw, name: str) -> Case:
    op = name.split()[0]
    kind = d.one({"SQUARED_DIFFERENCE": ["INT8"], "PRELU": ["INT8", "UINT8"]}.get(op, ["INT8", "UINT8", "INT16"]))
    shape = d.shape(1, 4)
    other = _broadcast(d, shape)
    x, y, z = _q(d, kind), _q(d, kind), _q(d, kind, 8.0)
    table, values, version = "", {}, 2
    bounds = ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]
    if op in ("ADD", "SUB", "MUL"):
        table, values = f"{op.title()}Options", {"fused_activation_function": d.one(bounds)}
        if op in ("ADD", "SUB"):
            values["pot_scale_int16"] = False
            version = 3 if kind == "INT16" else 2
    if op in ("MINIMUM", "MAXIMUM"):
        y = z = x
    if op == "PRELU":
        shape = d.shape(3, 4)
        other = [1, 1, shape[-1]] if d.flag() else [1] * (len(shape) - 2) + shape[-1:]
        alpha = d.g.const(d.array(other, kind, -128, 255), **y)
        return d.case(d.g.made(op, [_input(d, shape, kind, x), alpha], shape, kind, quantization=z, version=1), **_SAME)
    a = _input(d, shape, kind, x)
    if d.flag():
        b = d.g.const(d.array(other, kind, -128, 255), **y)
    else:
        b = _input(d, other, kind, y)
    operands = [b, a] if op in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE") and d.flag() else [a, b]
    exact = op in ("MINIMUM", "MAXIMUM", "SQUARED_DIFFERENCE")
    return d.case(d.g.made(op, operands, shape, kind, table, quantization=z, version=version, **values),
                  **(_SAME if exact else _STEP))  # fmt: skip


@form(*(f"{op} quantised" for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")))
def comparison(d: Draw, name: str) -> Case:
    op, kind, shape = name.split()[0], d.one(["INT8", "UINT8"]), d.shape(1, 4)
    x, y = _q(d, kind), _q(d, kind)
    if d.flag():
        y = x
    a, b = _input(d, shape, kind, x), _input(d, _broadcast(d, shape), kind, y)
    table = {"EQUAL": "EqualOptions", "NOT_EQUAL": "NotEqualOptions"}.get(
        op, "".join(p.title() for p in op.split("_")) + "Options"
    )
    return d.case(d.g.made(op, [a, b], shape, "BOOL", table, version=2), reference=True)


@form("QUANTIZE wide", "DEQUANTIZE wide")
def requantize(d: Draw, name: str) -> Case:
    kinds = ["INT8", "UINT8", "INT16"]
    kind, shape = d.one(kinds), d.shape(1, 4)
    x = _q(d, kind)
    if name.startswith("DE"):
        return d.case(d.g.made("DEQUANTIZE", [_input(d, shape, kind, x)], shape, version=3), reference=True)
    out = d.one(["INT8", "UINT8"] if kind == "UINT8" else [*kinds, "INT32"] if kind == "INT16" else kinds)
    if kind == "INT8" and out == "INT16":
        out = "INT8"
    if kind == "INT16" and out == "UINT8":
        out = "INT16"
    y = {"scale": 1e-5, "zero": 0} if out == "INT32" else _q(d, out)
    given = _input(d, shape, kind, x)
    return d.case(d.g.made("QUANTIZE", [given], shape, out, "QuantizeOptions", quantization=y, version=3),
                  reference=True, steps=int(kind == "INT16"))  # fmt: skip


# -- products ---------------------------------------------------------------------------------------------------------


@form("CONV_2D forms quantised", "DEPTHWISE_CONV_2D forms quantised", "TRANSPOSE_CONV forms quantised")
def conv(d: Draw, name: str) -> Case:
    """Dilations, groups, multipliers, batches, no bias, weights of 4 bits."""
    op = name.split()[0]
    kind = d.one(["INT8", "INT8", "UINT8", "INT16"])
    plain = kind == "UINT8"
    wide = "int64" if kind == "INT16" else "int32"
    given, padding = [d.int(4, 9), d.int(4, 9)], d.one(["SAME", "VALID"])
    kernel = [d.int(1, 3), d.int(1, 3)]
    strides, dilation = ([d.int(1, 2), d.int(1, 2)], [1, 1]) if d.flag() else ([1, 1], [d.int(1, 2), d.int(1, 2)])
    if any((k - 1) * t >= s for k, t, s in zip(kernel, dilation, given, strict=True)):
        padding = "SAME"
    made = [sizes(n, k, s, t, padding) for n, k, s, t in zip(given, kernel, strides, dilation, strict=True)]
    batch, inputs, groups, multiplier = d.int(1, 3), d.int(1, 8), 1, 1
    outputs = d.int(1, 9)
    deep = op.startswith("DEPTH")
    x, y = _q(d, kind), _q(d, kind, 8.0)
    if deep:
        multiplier = d.int(1, 4)
        outputs = inputs * multiplier
        shape, axis = [1, *kernel, outputs], 3
    else:
        if op == "CONV_2D" and not plain and kind == "INT8" and d.int(0, 3) == 0:
            groups = d.int(2, 3)
            inputs, outputs = groups * d.int(1, 4), groups * d.int(1, 4)
        shape, axis = [outputs, *kernel, inputs // groups], 0
    per = 1 if plain or d.flag() else outputs
    scale = (0.005 + 0.01 * d.rng.random(per)).astype(np.float32)
    four = kind == "INT8" and d.int(0, 3) == 0 and op != "TRANSPOSE_CONV"
    if four:
        w = d.g.packed(d.array(shape, "INT8", -7, 7), 4, scale=scale * 16, zero=0, axis=axis)
        scale = scale * 16
    else:
        values = d.array(shape, "UINT8", 0, 255) if plain else d.array(shape, "INT8", -127, 127)
        w = d.g.const(values, scale=scale, zero=131 if plain else 0, axis=axis)
    operands = [_input(d, [batch, *given, inputs], kind, x), w]
    if (op != "TRANSPOSE_CONV" and d.int(0, 3)) or d.flag():
        steps = (scale * np.float32(x["scale"])).astype(np.float32)
        operands.append(d.g.const(np.round(d.array([outputs]) / steps).astype(wide), scale=steps, zero=0))
    options: dict[str, Any] = {"depth_multiplier": multiplier} if deep else {}
    if op == "TRANSPOSE_CONV":
        strides = [d.int(1, 3), d.int(1, 3)]
        made = ([n * s for n, s in zip(given, strides, strict=True)] if padding == "SAME" else
                [(n - 1) * s + k for n, s, k in zip(given, strides, kernel, strict=True)])  # fmt: skip
        target = d.g.const([batch, *made, outputs], "int32")
        a, w, *bias = operands
        out = d.g.made(op, [target, w, a, *bias], [batch, *made, outputs], kind, "TransposeConvOptions",
                       quantization=y, padding=padding, stride_h=strides[0], stride_w=strides[1],
                       fused_activation_function=d.one(["NONE", "RELU", "RELU6"]), version=4)  # fmt: skip
        return d.case(out, **_STEP)
    out = d.g.made(
        op, operands, [batch, *made, outputs], kind, "DepthwiseConv2DOptions" if deep else "Conv2DOptions",
        quantization=y, padding=padding, stride_h=strides[0], stride_w=strides[1], dilation_hfactor=dilation[0],
        dilation_wfactor=dilation[1], fused_activation_function=d.one(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]),
        version=3, **options,
    )  # fmt: skip
    return d.case(out, **_STEP)


@form("FULLY_CONNECTED forms quantised")
def dense(d: Draw) -> Case:
    """Per channel, of 4 bits, of any rank, without a bias, 8 bits to 16."""
    kind, inputs, outputs = d.one(["INT8", "INT8", "UINT8", "INT16"]), d.int(1, 40), d.int(1, 12)
    lead, keep = [d.int(1, 3) for _ in range(d.int(1, 3))], d.flag()
    plain = kind == "UINT8"
    x, y = _q(d, kind), _q(d, kind, 12.0)
    per = 1 if plain or d.flag() else outputs
    scale = (0.005 + 0.01 * d.rng.random(per)).astype(np.float32)
    if kind == "INT8" and d.int(0, 2) == 0:
        scale = scale * 16
        w = d.g.packed(d.array([outputs, inputs], "INT8", -7, 7), 4, scale=scale, zero=0)
    else:
        values = d.array([outputs, inputs], "UINT8", 0, 255) if plain else d.array([outputs, inputs], "INT8", -127, 127)
        w = d.g.const(values, scale=scale, zero=120 if plain else 0)
    operands, reference = [_input(d, [*lead, inputs], kind, x), w], True
    if d.int(0, 2):
        steps = (scale * np.float32(x["scale"])).astype(np.float32)
        wide = "int64" if kind == "INT16" and d.flag() else "int32"
        reference = kind != "INT16" or wide == "int64"  # LiteRT 2.3's reference kernel takes 32 bits for 64
        operands.append(d.g.const(np.round(d.array([outputs]) / steps).astype(wide), scale=steps, zero=0))
    else:
        operands.append(-1)
    shape = [*lead, outputs] if keep else [int(np.prod(lead)), outputs]
    out = d.g.made("FULLY_CONNECTED", operands, shape, kind, "FullyConnectedOptions", quantization=y,
                   fused_activation_function=d.one(["NONE", "RELU", "RELU6"]), keep_num_dims=keep,
                   version=11)  # fmt: skip
    return d.case(out, reference=reference, steps=1)


@form("BATCH_MATMUL quantised")
def batch_matmul(d: Draw) -> Case:
    kind, rows, depth, columns = d.one(["INT8", "INT16"]), d.int(1, 5), d.int(1, 20), d.int(1, 5)
    lead = [d.int(1, 3) for _ in range(d.int(0, 2))]
    other = _broadcast(d, lead) if lead else []
    adj_x, adj_y = d.flag(), d.flag()
    x, y, z = _q(d, kind), _q(d, kind), _q(d, kind, 20.0)
    a = _input(d, [*lead, *((depth, rows) if adj_x else (rows, depth))], kind, x)
    shape = [*other, *((columns, depth) if adj_y else (depth, columns))]
    b = d.g.const(d.array(shape, kind, -32768, 32767), **y) if d.flag() else _input(d, shape, kind, y)
    out = d.g.made("BATCH_MATMUL", [a, b], [*lead, rows, columns], kind, "BatchMatMulOptions", quantization=z,
                   adj_x=adj_x, adj_y=adj_y, version=2 if kind == "INT8" else 3)  # fmt: skip
    return d.case(out, reference=True, steps=int(kind == "INT8"))


# -- reductions and pools ---------------------------------------------------------------------------------------------


@form(*(f"{op} quantised" for op in ("SUM", "MEAN any", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")))
def reduction(d: Draw, name: str) -> Case:
    op = name.split()[0]
    kind = d.one(
        {"SUM": ["INT8", "UINT8", "INT16"], "REDUCE_PROD": ["INT8", "INT16"]}.get(op, ["INT8", "UINT8", "INT16"])
    )
    shape = d.shape(1, 4, 5)
    axes = sorted({d.int(0, len(shape) - 1) for _ in range(d.int(1, len(shape)))})
    keep = d.flag()
    x = _q(d, kind)
    y = x if op in ("REDUCE_MAX", "REDUCE_MIN") else _q(d, kind, 4.0 if op == "MEAN" else 12.0)
    made = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
    said = [a - len(shape) if d.flag() else a for a in axes]
    if op == "REDUCE_PROD":  # of numbers that neither vanish nor grow; LiteRT rounds each product on the way
        x = {"scale": 1.5 / _RANGE[kind][1], "zero": 0}
        y = {"scale": 1.5 ** float(np.prod([shape[a] for a in axes])) / _RANGE[kind][1], "zero": 0}
    out = d.g.made(op, [_input(d, shape, kind, x), d.g.const(said, "int32")], made, kind, "ReducerOptions",
                   quantization=y, keep_dims=keep, version=2)  # fmt: skip
    # LiteRT 2.3's reference kernel for sums of integers gives other numbers than its own other one, which is right
    return d.case(out, reference=op != "SUM", steps=int(y is not x))


@form("ARG_MAX quantised", "ARG_MIN quantised", "TOPK_V2 quantised")
def chosen(d: Draw, name: str) -> Case:
    op, kind, shape = name.split()[0], d.one(["INT8", "UINT8"]), d.shape(1, 4, 7)
    x = _q(d, kind)
    given = _input(d, shape, kind, x)
    if op == "TOPK_V2":
        k = d.int(1, shape[-1])
        values, places = d.g.tensor([*shape[:-1], k], kind, **x), d.g.tensor([*shape[:-1], k], "INT32")
        d.g.op(op, [given, d.g.const(k, "int32")], [values, places], "TopKV2Options", version=2)
        return d.case(values, places, **_SAME)
    axis = d.int(0, len(shape) - 1)
    out = d.g.made(op, [given, d.g.const(axis, "int32")], shape[:axis] + shape[axis + 1 :], "INT32",
                   "ArgMaxOptions" if op == "ARG_MAX" else "ArgMinOptions", output_type="INT32", version=2)  # fmt: skip
    return d.case(out, **_SAME)


@form("AVERAGE_POOL_2D forms quantised", "MAX_POOL_2D forms quantised")
def pool(d: Draw, name: str) -> Case:
    op, kind = name.split()[0], d.one(["INT8", "UINT8", "INT16"])
    given, kernel, strides = [d.int(3, 8), d.int(3, 8)], [d.int(1, 3), d.int(1, 3)], [d.int(1, 3), d.int(1, 3)]
    padding, q, batch, channels = d.one(["SAME", "VALID"]), _q(d, kind), d.int(1, 3), d.int(1, 9)
    made = [sizes(n, k, s, 1, padding) for n, k, s in zip(given, kernel, strides, strict=True)]
    out = d.g.made(
        op, [_input(d, [batch, *given, channels], kind, q)], [batch, *made, channels], kind, "Pool2DOptions",
        quantization=q, padding=padding, stride_h=strides[0], stride_w=strides[1], filter_height=kernel[0],
        filter_width=kernel[1], fused_activation_function=d.one(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]), version=3,
    )  # fmt: skip
    return d.case(out, **_STEP)


@form("RESIZE_BILINEAR forms quantised", "RESIZE_NEAREST_NEIGHBOR quantised")
def resize(d: Draw, name: str) -> Case:
    op, kind = name.split()[0], d.one(["INT8", "UINT8", "INT16"])
    shape, size, q = [d.int(1, 2), d.int(1, 7), d.int(1, 7), d.int(1, 5)], [d.int(1, 12), d.int(1, 12)], _q(d, kind)
    align = d.int(0, 2) == 0
    flags = {"align_corners": align, "half_pixel_centers": not align and d.flag()}
    table = "ResizeBilinearOptions" if op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    out = d.g.made(op, [_input(d, shape, kind, q), d.g.const(size, "int32")], [shape[0], *size, shape[3]], kind, table,
                   quantization=q, version=4, **flags)  # fmt: skip
    return d.case(out, **_SAME)
