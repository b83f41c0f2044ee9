"""Fourier transforms; complex numbers are pairs along one more axis."""

from __future__ import annotations

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.graph import Value


@tflite_op("RFFT2D")
def rfft2d(ctx: Context, node: TfliteNode) -> Value:
    """Over the last two axes, cut or filled up with zeros to the lengths in the second operand."""
    x, lengths = node.input(0), ctx.known_ints(node, 1, "lengths")
    rank = node.rank(0)
    sizes = None if x.shape is None else x.shape[-2:]
    if len(lengths) != 2 or sizes is None or not all(isinstance(d, int) for d in sizes):
        raise node.unsupported("an input of unknown sizes")
    pads = [0] * (2 * rank)
    pads[-3], pads[-1] = (n - int(d) for n, d in zip(lengths, sizes, strict=True))
    x = ctx.op("Padding", x, ctx.const(pads), mode="CONSTANT") if any(pads) else x
    pairs = ctx.op("Unsqueeze", x, squeezeDims=[rank])
    rows = ctx.op("DFT", pairs, axis=rank - 1, onesided=True)
    return ctx.op("DFT", rows, axis=rank - 2) if lengths[0] > 1 else rows


@tflite_op("REAL", "IMAG")
def part(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("GatherV2", node.input(0), ctx.const(int(node.op == "IMAG")), ctx.const(-1))


@tflite_op("COMPLEX_ABS")
def magnitude(ctx: Context, node: TfliteNode) -> Value:
    square = ctx.unary("SQUARE", node.input(0))
    return ctx.unary("SQRT", ctx.op("Reduction", square, operation="SUM", dim=[-1], keepDims=False))
