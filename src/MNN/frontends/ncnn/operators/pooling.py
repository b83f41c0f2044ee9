"""Pooling over windows, over everything, and to so many results as are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.convolution import spatial_count, window
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

_SAME_SIZE = -233
_SIZES = ((1, 11, 21), (2, 12, 22))


def _pads(p: Params, count: int) -> tuple[list[int], list[int]]:
    left = p.integer(3)
    top, front = p.integer(13, left), p.integer(23, left)
    begins = [front, top, left][3 - count :]
    return begins, [p.integer(16, front), p.integer(15, top), p.integer(14, left)][3 - count :]


@ncnn_layer("Pooling", "Pooling1D", "Pooling3D")
def pooling(ctx: Context, node: NcnnNode) -> Value:
    """Parameter 5: 0 fills up to the last window that begins, 1 leaves it out, 2 and 3 keep ``size / stride``."""
    p, count = node.params, spatial_count(node.op)
    x = ctx.expect(node, node.input(0), count + 1)
    if not 0 <= p.integer(0) <= 1:
        raise node.unsupported(f"kind {p.integer(0)}")
    kind = "AVEPOOL" if p.integer(0) else "MAXPOOL"
    if p.flag(4):
        return _global(ctx, x, count, kind)
    if p.flag(7):
        return _adaptive(ctx, node, x, count, kind)
    kernel, strides = window(p, count, _SIZES, (0, 1))
    if min(*kernel, *strides) < 1:
        raise node.malformed(f"windows of {kernel} with strides {strides}")
    begins, ends = _pads(p, count)
    return _windows(ctx, node, x, kind, kernel, strides, begins, ends)


def _global(ctx: Context, x: Value, count: int, kind: str) -> Value:
    operation = "MEAN" if kind == "AVEPOOL" else "MAXIMUM"
    return ctx.op("Reduction", x, operation=operation, dim=list(range(2, 2 + count)), keepDims=False)


def _windows(
    ctx: Context, node: NcnnNode, x: Value, kind: str, kernel: list[int], strides: list[int], begins: list[int],
    ends: list[int],
) -> Value:  # fmt: skip
    """Averages leave out what is outside, unless parameter 6 says otherwise; what ``SAME`` puts there counts."""
    mode, counted = node.params.integer(5), node.params.flag(6)
    if mode in (2, 3):
        begins, ends = _same(ctx, node, x, kernel, strides, lower=mode == 3)
        counted = True
    elif mode == 0:
        ends = [end + _tail(ctx, node, x, 2 + i, begins[i] + end - kernel[i], strides[i]) for i, end in enumerate(ends)]
    elif mode != 1:
        raise node.unsupported(f"padding mode {mode}")
    return planar(ctx, x, kind, kernel, strides, begins, ends, counted)


def _tail(ctx: Context, node: NcnnNode, x: Value, axis: int, more: int, stride: int) -> int:
    """How much the last window that begins reaches over the end."""
    if stride == 1:
        return 0
    size = ctx.known_extent(node, x, axis, "a size that is filled up to whole windows")
    return -(size + more) % stride


def _same(
    ctx: Context, node: NcnnNode, x: Value, kernel: Sequence[int], strides: Sequence[int], lower: bool
) -> tuple[list[int], list[int]]:
    begins, ends = [], []
    for i, (k, s) in enumerate(zip(kernel, strides, strict=True)):
        total = k - 1
        if s > 1:
            size = ctx.known_extent(node, x, 2 + i, "a size that is filled up to whole windows")
            total = max(k + (size - 1) // s * s - size, 0)
        begins.append((total + 1) // 2 if lower else total // 2)
        ends.append(total - begins[-1])
    return begins, ends


def planar(
    ctx: Context, x: Value, kind: str, kernel: list[int], strides: list[int], begins: list[int], ends: list[int],
    counted: bool,
) -> Value:  # fmt: skip
    """The engine's operator, with whole windows only."""
    if len(kernel) == 3:
        op = "AveragePool" if kind == "AVEPOOL" else "MaxPool"
        return ctx.op(
            op, x, kernel_shape=kernel, strides=strides, pads=[*begins, *ends], padMode="CAFFE",
            count_include_pad=counted,
        )  # fmt: skip
    line = len(kernel) == 1
    if line:
        x = ctx.op("Unsqueeze", x, squeezeDims=[2])
        kernel, strides, begins, ends = [1, *kernel], [1, *strides], [0, *begins], [0, *ends]
    out = ctx.op(
        "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1], padType="CAFFE",
        pads=[*begins, *ends], ceilModel=False, type=kind,
        countType="INCLUDE_PADDING" if counted else "EXCLUDE_PADDING",
    )  # fmt: skip
    return ctx.op("Squeeze", out, squeezeDims=[2]) if line else out


def _adaptive(ctx: Context, node: NcnnNode, x: Value, count: int, kind: str) -> Value:
    """Windows of result i go from ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``."""
    p = node.params
    width = p.integer(8)
    wanted = [p.integer(28, width), p.integer(18, width), width][3 - count :]
    if all(n == 1 for n in wanted):
        return ctx.reshape(_global(ctx, x, count, kind), [-1, *[1] * count])
    sizes, places = [], []
    for i, n in enumerate(wanted):
        if n != _SAME_SIZE:
            if n < 1:
                raise node.malformed(f"{n} results along an axis")
            sizes.append((ctx.known_extent(node, x, 2 + i, "a size that is pooled to another one"), n))
            places.append(2 + i)
    if all(size % n == 0 for size, n in sizes):
        steps = {place: size // n for place, (size, n) in zip(places, sizes, strict=True)}
        kernel = [steps.get(2 + i, 1) for i in range(count)]
        return planar(ctx, x, kind, kernel, kernel, [0] * count, [0] * count, False)
    for place, (size, n) in zip(places, sizes, strict=True):
        x = _uneven(ctx, x, place, size, n, kind)
    return x


def _uneven(ctx: Context, x: Value, axis: int, size: int, wanted: int, kind: str) -> Value:
    """One axis: the places of all windows side by side, filled up by repeating the last."""
    bounds = [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]
    longest = max(b - a for a, b in bounds)
    table = np.array([[min(a + k, b - 1) for k in range(longest)] for a, b in bounds], np.int64)
    taken = ctx.op("GatherV2", x, ctx.const(table), ctx.const(np.int32(axis)))
    if kind == "MAXPOOL":
        return ctx.op("Reduction", taken, operation="MAXIMUM", dim=[axis + 1], keepDims=False)
    share = np.array([[float(k < b - a) / (b - a) for k in range(longest)] for a, b in bounds], np.float32)
    line = share.reshape([1] * axis + [wanted, longest] + [1] * ((ctx.rank(x) or 0) - axis - 1))
    weighted = ctx.binary("MUL", taken, ctx.const(line))
    return ctx.op("Reduction", weighted, operation="SUM", dim=[axis + 1], keepDims=False)


@ncnn_layer("StatisticsPooling")
def statistics(ctx: Context, node: NcnnNode) -> Value:
    """The mean of every channel, and their deviations behind these."""
    x = node.input(0)
    dims = ctx.dims(node, x)
    rest = list(range(2, dims + 1)) if dims > 2 else list(range(1, dims + 1))
    mean = ctx.op("Reduction", x, operation="MEAN", dim=rest, keepDims=True)
    flat = ctx.reshape(mean, [-1])
    if not node.params.flag(0):
        return flat
    squares = ctx.unary("SQUARE", ctx.binary("SUB", x, mean))
    spread = ctx.unary("SQRT", ctx.op("Reduction", squares, operation="MEAN", dim=rest, keepDims=True))
    return ctx.op("Concat", flat, ctx.reshape(spread, [-1]), axis=1)
