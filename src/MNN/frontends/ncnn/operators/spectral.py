"""Fourier transforms of frames."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.convolution import emit
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

_MAX_LENGTH = 1 << 13
_BORDERS = ("CONSTANT", "EDGE", "REFLECT")


@ncnn_layer("Spectrogram")
def spectrogram(ctx: Context, node: NcnnNode) -> Value:
    """Of a line: ``[bins, frames, 2]`` (real and imaginary parts), or magnitudes or their squares ``[bins, frames]``. A
    convolution whose weights are the windowed transform."""
    p, x = node.params, ctx.expect(node, node.input(0), 1)
    length, power = p.integer(0), p.integer(1)
    hop, wide = p.integer(2, length // 4), p.integer(3, length)
    kind, border = p.integer(4), p.integer(6, 2)
    if not 1 <= length <= _MAX_LENGTH or hop < 1 or not 1 <= wide <= length or not 0 <= border <= 2:
        raise node.malformed(f"frames of {length} (window {wide}) every {hop}")
    if not 0 <= power <= 2 or not 0 <= kind <= 2:
        raise node.unsupported(f"power {power} with window {kind}")
    window = np.zeros(length)
    start = (length - wide) // 2
    turn = 2 * np.pi * np.arange(wide) / wide
    window[start : start + wide] = (np.ones(wide), 0.5 - 0.5 * np.cos(turn), 0.54 - 0.46 * np.cos(turn))[kind]
    bins = length // 2 + 1 if p.flag(8, True) else length
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(length)) / length
    weight = np.concatenate([np.cos(angle), -np.sin(angle)]) * window
    if p.integer(7) == 1:
        weight /= np.sqrt(length)
    elif p.integer(7) == 2:
        weight /= np.sqrt((window**2).sum())
    if p.flag(5, True):
        half = length // 2
        x = ctx.op("Padding", x, ctx.const([0, 0, half, half]), mode=_BORDERS[border])
    table = ctx.const(weight.astype(np.float32)[:, None])
    line = ctx.op("Unsqueeze", x, squeezeDims=[1])
    frames = emit(ctx, line, table, None, (2 * bins, 1, length), [hop], [1], "CAFFE", [0, 0], 1)
    parts = ctx.op("Reshape", frames, ctx.const([1, 2, bins, -1]))
    if power == 0:
        return ctx.op("Permute", parts, dims=[0, 2, 3, 1])
    total = ctx.op("Reduction", ctx.unary("SQUARE", parts), operation="SUM", dim=[1], keepDims=False)
    return ctx.unary("SQRT", total) if power == 1 else total
