"""ConvInteger and QLinearConv, with zero points of tensors and of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import convolve, geometry, rank, sizes

_SATURATES = "unsigned by signed bytes of 8 bits: sums of two saturate on processors without VNNI"


def case(draw: Draw) -> Case:
    linear = draw.flag(0.6)
    count = rank(draw)
    made = geometry(draw, count)
    if made.auto_pad.startswith("SAME"):
        made.dilations = [1] * count  # which ONNX Runtime refuses, as of Conv
    groups = draw.often(1, [2, 3, 4], 0.6)
    depthwise = groups > 1 and draw.flag()
    per_in, per_out = (1, 1) if depthwise else (max(draw.channels() // groups, 1), max(draw.channels() // groups, 1))
    kind, weights = draw.choice([("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
    full = draw.flag(0.3)
    x = _bytes(draw, kind, True, draw.often(1, [2, 3], 0.7), per_in * groups, *sizes(draw, made))
    w = _bytes(draw, weights, full or (kind, weights) != ("u1", "i1"), groups * per_out, per_in, *made.kernel)
    attributes = made.attributes(draw)
    if groups > 1 or draw.flag(0.2):
        attributes["group"] = groups
    if draw.flag():
        attributes["kernel_shape"] = made.kernel
    excuse = _SATURATES if full and (kind, weights) == ("u1", "i1") else ""
    if linear:
        return _linear(draw, made, x, w, groups, attributes, excuse)
    zeros = [_zero(draw, kind), _zero(draw, weights)]
    inputs: list[Operand | None] = [Operand(x), Operand(w, draw.flag(0.2))]
    if draw.flag(0.7):
        inputs += [Operand(z, False) for z in zeros[: draw.int(1, 2)]]

    def oracle(arrays: list[Any]) -> list[Any]:
        given = [a.astype(np.int64) for a in arrays]
        a, b = (given[k] - (given[k + 2] if len(given) > k + 2 else 0) for k in range(2))
        return [np.rint(convolve(a, b, None, made, groups)).astype(np.int32)]

    return Case("ConvInteger", inputs, attributes, opset=10, scale="exact", oracle=oracle, excuse=excuse)


def _bytes(draw: Draw, kind: str, full: bool, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    part = 1 if full else 2
    return draw.rng.integers(info.min // part, info.max // part + 1, shape).astype(kind)


def _zero(draw: Draw, kind: str) -> np.ndarray:
    info = np.iinfo(kind)
    return np.array(draw.often(draw.int(info.min, info.max), [0, info.min, info.max], 0.5), kind)


def _linear(
    draw: Draw, made: Any, x: np.ndarray, w: np.ndarray, groups: int, attributes: dict[str, Any], excuse: str
) -> Case:
    channels = w.shape[0]
    per_channel = draw.flag()
    scales = draw.uniform(0.005, 0.02, channels) if per_channel else np.array(draw.uniform(0.005, 0.02), np.float32)
    w_zero = np.full(
        scales.shape, _zero(draw, w.dtype.str[1:]) if w.dtype.kind == "u" or draw.flag(0.2) else 0, w.dtype
    )
    x_zero, y_zero = _zero(draw, x.dtype.str[1:]), _zero(draw, x.dtype.str[1:])
    x_scale = np.array(draw.uniform(0.01, 0.1), np.float32)
    # so that results fill the range and seldom leave it
    spread = 100.0 * 60 * float(x_scale) * float(np.mean(scales)) * np.sqrt(w[0].size)
    y_scale = np.array(spread / 60, np.float32)
    bias = draw.rng.integers(-5000, 5000, channels).astype(np.int32) if draw.flag() else None
    given: list[Any] = [x, x_scale, x_zero, w, scales, w_zero, y_scale, y_zero, *([] if bias is None else [bias])]
    fed = draw.flag(0.2)

    def oracle(arrays: list[Any]) -> list[Any]:
        line = (-1, *[1] * (w.ndim - 2))
        zeros = arrays[5].astype(np.int64).reshape((*line, 1) if per_channel else ())
        b = arrays[3].astype(np.int64) - zeros
        total = np.rint(convolve(arrays[0].astype(np.int64) - arrays[2].astype(np.int64), b, None, made, groups))
        if len(arrays) > 8:
            total = total + arrays[8].astype(np.int64).reshape(line)
        factor = arrays[1].astype(np.float64) * arrays[4].astype(np.float64) / arrays[6].astype(np.float64)
        info = np.iinfo(x.dtype)
        steps = np.rint(total * (factor.reshape(line) if per_channel else factor)) + arrays[7].astype(np.int64)
        return [np.clip(steps, info.min, info.max).astype(x.dtype)]

    inputs = [Operand(a, k == 0 or (k == 3 and fed)) for k, a in enumerate(given)]
    return Case("QLinearConv", inputs, attributes, opset=10, scale="step", oracle=oracle, excuse=excuse)
