"""Bytes whose results LiteRT's reference kernels define to the bit: scales of all sizes, zero points at both ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, form
from tests.frontends.tflite.cases.images import sizes
from tests.frontends.tflite.cases.quantized import _RANGE

EXACT = [
    "HARD_SWISH of bytes", "RESIZE_BILINEAR of integers", "SQUARED_DIFFERENCE of bytes", "DIV of bytes",
    "CONV_2D of 4 bits", "DEPTHWISE_CONV_2D of 4 bits", "SVDF of integers",
    "UNIDIRECTIONAL_SEQUENCE_LSTM of integers",
]  # fmt: skip


def _any(d: Draw, kind: str, low: float = -4, high: float = 0) -> dict[str, Any]:
    """A scale of ``10^low`` to ``10^high``, and a zero point anywhere, at the ends often."""
    ends = _RANGE[kind]
    zero = 0 if kind == "INT16" else d.one([*ends, d.int(*ends)])
    return {"scale": float(np.float32(10.0 ** d.rng.uniform(low, high))), "zero": zero}


def _all(d: Draw, kind: str, rows: int, columns: int) -> np.ndarray:
    """Every byte, in any order."""
    low, high = _RANGE[kind]
    numbers = np.resize(np.arange(low, high + 1), rows * columns)
    return d.rng.permutation(numbers).astype(kind.lower()).reshape(rows, columns)


@form("HARD_SWISH of bytes")
def hard_swish(d: Draw) -> Case:
    """Results in finer steps than 1/128 of those of the input are not defined, nor is what is shifted by 16 bits."""
    kind = d.one(["INT8", "UINT8"])
    x, y = _any(d, kind, -3, 2.5), _any(d, kind)
    y["scale"] = float(np.float32(x["scale"] * 10.0 ** d.rng.uniform(-2, 2.3)))
    made = d.g.made("HARD_SWISH", [d.fed(_all(d, kind, 16, 16), **x)], [16, 16], kind, quantization=y)
    return d.case(made, reference=True)


@form("RESIZE_BILINEAR of integers")
def resize(d: Draw) -> Case:
    """Saturated pixels among others."""
    kind = d.one(["INT8", "UINT8", "INT16"])
    q = _any(d, kind)
    shape, size = [d.int(1, 2), d.int(1, 20), d.int(1, 20), d.int(1, 5)], [d.int(1, 40), d.int(1, 40)]
    ends = _RANGE[kind]
    numbers = np.where(d.array(shape, "BOOL"), d.array(shape, kind, *ends), d.rng.choice(ends, shape))
    align = d.int(0, 2) == 0
    flags = {"align_corners": align, "half_pixel_centers": not align and d.flag()}
    made = d.g.made("RESIZE_BILINEAR", [d.fed(numbers.astype(kind.lower()), **q), d.g.const(size, "int32")],
                    [shape[0], *size, shape[3]], kind, "ResizeBilinearOptions", quantization=q, version=4,
                    **flags)  # fmt: skip
    return d.case(made, reference=True)


@form("SQUARED_DIFFERENCE of bytes")
def squared_difference(d: Draw) -> Case:
    x, y = _any(d, "INT8"), _any(d, "INT8")
    y["scale"] = float(np.float32(x["scale"] * 10.0 ** d.rng.uniform(-1, 1)))
    most = max(x["scale"], y["scale"])
    z = {"scale": float(np.float32(most * most * 10.0 ** d.rng.uniform(0, 3))), "zero": _any(d, "INT8")["zero"]}
    operands = [d.fed(_all(d, "INT8", 16, 16), **q) for q in (x, y)]
    made = d.g.made("SQUARED_DIFFERENCE", operands, [16, 16], "INT8", quantization=z, version=2)
    return d.case(made, reference=True)


@form("DIV of bytes")
def divided(d: Draw) -> Case:
    """Scales with which quotients often lie half-way, and any. Quotients below half a step are not defined: the kernels
    shift them by 32 bits."""
    often = [1 / 256, 1 / 128, 1 / 255, 0.5, 0.25, 0.1, 0.05]
    x, y, z = (_any(d, "UINT8", -2) for _ in range(3))
    if d.flag():
        x["scale"], y["scale"], z["scale"] = (float(np.float32(d.one(often))) for _ in range(3))
    else:
        z["scale"] = float(np.float32(x["scale"] / y["scale"] * 10.0 ** d.rng.uniform(-2, 1)))
    above, below = np.divmod(d.rng.permutation(1 << 16), 256)
    factor = x["scale"] / (y["scale"] * z["scale"])
    kept = np.abs(above - x["zero"]) * factor >= 0.5 * np.abs(below - y["zero"])
    kept &= below != y["zero"]
    if not kept.any():
        return divided(d)
    pairs = [d.fed(v[kept].astype(np.uint8), **q) for v, q in ((above, x), (below, y))]
    made = d.g.made("DIV", pairs, [int(kept.sum())], "UINT8", "DivOptions", quantization=z, version=2,
                    fused_activation_function=d.one(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))  # fmt: skip
    return d.case(made, reference=True)


@form("CONV_2D of 4 bits", "DEPTHWISE_CONV_2D of 4 bits")
def four_bits(d: Draw, name: str) -> Case:
    """Weights of 4 bits, whose factors are large: sums are rounded twice."""
    op, deep = name.split()[0], name.startswith("DEPTH")
    given, kernel = [d.int(4, 9), d.int(4, 9)], [d.int(1, 3), d.int(1, 3)]
    strides, dilations = ([d.int(1, 2), d.int(1, 2)], [1, 1]) if d.flag() else ([1, 1], [d.int(1, 2), d.int(1, 2)])
    made = [sizes(n, k, s, t, "SAME") for n, k, s, t in zip(given, kernel, strides, dilations, strict=True)]
    batch, inputs, multiplier = d.int(1, 3), d.int(1, 20), d.int(1, 3)
    outputs = inputs * multiplier if deep else d.int(1, 20)
    shape = [1, *kernel, outputs] if deep else [outputs, *kernel, inputs]
    per = d.one([1, outputs])
    scale = (10.0 ** d.rng.uniform(-2, 0, per)).astype(np.float32)
    w = d.g.packed(d.array(shape, "INT8", -7, 7), 4, scale=scale, zero=0, axis=3 if deep else 0)
    x, y = _any(d, "INT8", -2), _any(d, "INT8")
    depth = np.prod(kernel) * (1 if deep else inputs)
    y["scale"] = float(np.float32(x["scale"] * scale.mean() * np.sqrt(depth) * 10.0 ** d.rng.uniform(-0.7, 1.3)))
    step = (scale * np.float32(x["scale"])).astype(np.float32)
    bias = d.g.const(d.rng.integers(-500, 500, outputs).astype(np.int32), scale=step, zero=0)
    more: dict[str, Any] = {"depth_multiplier": multiplier} if deep else {}
    out = d.g.made(
        op, [d.input([batch, *given, inputs], "INT8", -128, 127, **x), w, bias], [batch, *made, outputs], "INT8",
        "DepthwiseConv2DOptions" if deep else "Conv2DOptions", quantization=y, padding="SAME", stride_h=strides[0],
        stride_w=strides[1], dilation_hfactor=dilations[0], dilation_wfactor=dilations[1], version=3,
        fused_activation_function=d.one(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]), **more,
    )  # fmt: skip
    return d.case(out, reference=True)


@form("SVDF of integers")
def svdf(d: Draw) -> Case:
    """A state of 16 bits that features often leave, results on both sides of zero."""
    batch, inputs, units, rank, memory = d.int(1, 3), d.int(1, 9), d.int(1, 6), d.int(1, 2), d.int(1, 8)
    filters = units * rank
    x, y = _any(d, "INT8", -2), _any(d, "INT8", -2)
    scales = [float(np.float32(10.0 ** d.rng.uniform(-3, -2))), float(np.float32(2.0**-15 * (1 + d.rng.random())))]
    step = float(np.float32(x["scale"] * scales[0] * np.sqrt(inputs) * 10.0 ** d.rng.uniform(-1, 1)))
    features = d.g.const(d.array([filters, inputs], "INT8", -127, 127), scale=scales[0], zero=0)
    times = d.g.const(d.array([filters, memory], "INT16", -32767, 32767), scale=scales[1], zero=0)
    sums = float(np.float32(step * scales[1]))
    bias = d.g.const(d.rng.integers(-(10**8), 10**8, units).astype(np.int32), scale=sums, zero=0) if d.flag() else -1
    state = d.g.tensor([batch, memory * filters], "INT16", is_variable=True, scale=step, zero=0)
    y["scale"] = float(np.float32(step * 20000 * np.sqrt(rank * memory) / 128))
    made = d.g.made("SVDF", [d.input([batch, inputs], "INT8", -128, 127, **x), features, times, bias, state],
                    [batch, units], "INT8", "SVDFOptions", quantization=y, version=3, rank=rank,
                    fused_activation_function="RELU")  # fmt: skip
    return d.case(made, runs=5, reference=True)


@form("UNIDIRECTIONAL_SEQUENCE_LSTM of integers")
def lstm(d: Draw) -> Case:
    """With peepholes or a projection: of both, LiteRT's kernel leaves out peepholes behind the first outputs."""
    batch, steps, inputs, units, major = d.int(1, 3), d.one([1, 3, 40]), d.int(1, 9), d.int(1, 9), d.flag()
    projected, coupled, normalized = d.int(0, 2) == 0, d.int(0, 2) == 0, d.int(0, 2) == 0
    holes = not projected and d.flag()
    outputs = d.int(1, units) if projected else units

    def near(size: float) -> float:
        return float(np.float32(size * (0.8 + 0.4 * d.rng.random())))

    def weights(shape: list[int], kind: str, size: float) -> tuple[int, float]:
        scale, most = near(size), _RANGE[kind][1]
        return d.g.const(d.array(shape, kind, -most, most), scale=scale, zero=0), scale

    def line(count: int, scale: float, most: float) -> int:
        numbers = np.round(d.array([count], low=-most, high=most) / np.float32(scale))
        return d.g.const(numbers.astype(np.int32), scale=float(np.float32(scale)), zero=0)

    x, out = {"scale": near(0.016), "zero": d.int(-9, 9)}, {"scale": near(2.0**-7), "zero": d.int(-9, 9)}
    hidden = {"scale": near(2.0**-7), "zero": d.int(-9, 9)} if projected else out
    left = range(int(coupled), 4)
    none = [-1] * (4 - len(left))
    given = d.input([steps, batch, inputs] if major else [batch, steps, inputs], "INT8", -128, 127, **x)
    own = [weights([units, inputs], "INT8", 0.005) for _ in left]
    again = [weights([units, outputs], "INT8", 0.005)[0] for _ in left]
    seen = [weights([units], "INT16", 2e-5)[0] for _ in left[1:]] if holes else [-1] * len(left[1:])
    norms = [weights([units], "INT16", 2e-5) for _ in left] if normalized else [(-1, 0.0)] * len(left)
    scales = [n * 2.0**-10 if normalized else x["scale"] * w for (_, w), (_, n) in zip(own, norms, strict=True)]
    operands = [given, *none, *(w for w, _ in own), *none, *again, *none, *seen, *none]
    operands += [line(units, scale, 0.5) for scale in scales]
    if projected:
        w, scale = weights([outputs, units], "INT8", 0.005)
        operands += [w, line(outputs, scale * hidden["scale"], 0.3) if d.flag() else -1]
    else:
        operands += [-1, -1]
    cell = {"scale": 2.0 ** -d.int(11, 13), "zero": 0}
    operands += [d.g.tensor([batch, outputs], "INT8", is_variable=True, **out),
                 d.g.tensor([batch, units], "INT16", is_variable=True, **cell)]  # fmt: skip
    operands += [*none, *(n for n, _ in norms)]
    made = d.g.made(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [*([steps, batch] if major else [batch, steps]), outputs], "INT8",
        "UnidirectionalSequenceLSTMOptions", quantization=out, version=2, time_major=major,
        fused_activation_function="TANH", cell_clip=d.one([0.0, 1.5]),
        proj_clip=d.one([0.0, 0.5]) if projected else 0.0,
    )  # fmt: skip
    between = [d.g.tensor([batch, units], "INT16", scale=near(2.0**-12), zero=0) for _ in range(4)]
    between.append(d.g.tensor([batch, units], "INT8", **hidden))
    d.g.operators[-1].intermediates = np.asarray(between, np.int32)
    return d.case(made, runs=3, reference=True)
