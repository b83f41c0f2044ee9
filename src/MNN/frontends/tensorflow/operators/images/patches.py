"""Patches of pictures side by side along the channels."""

from __future__ import annotations

import math

from MNN.errors import FormatError
from MNN.frontends.common.borders import same_borders
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.slicing import END, cut
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value

MAX_TAPS = 4096


@tf_op("ExtractImagePatches", "ExtractVolumePatches")
def extract_patches(ctx: Context, node: TfNode) -> Value:
    """``[N, ..., C]`` to ``[N, patches..., taps * C]``, the taps of a patch in their order, zeros outside."""
    x, count = node.input(0), 2 if node.op == "ExtractImagePatches" else 3
    steps = node.ints_attr("strides")
    sizes, rates = node.ints_attr("ksizes"), node.ints_attr("rates", [1] * (count + 2))
    same = node.choice_attr("padding", "VALID", "SAME", "VALID") == "SAME"
    spans = []
    for values in (sizes, steps, rates):
        if len(values) != count + 2 or min(values) < 1 or values[0] != 1 or values[-1] != 1:
            raise FormatError(f"{node.where}: patches of {sizes} every {steps} (rates {rates})")
        spans.append(values[1:-1])
    if ctx.rank(x) != count + 2:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    reaches = [(kernel - 1) * rate + 1 for kernel, _, rate in zip(*spans, strict=True)]
    taps = math.prod(spans[0])
    if taps > MAX_TAPS:
        raise node.unsupported(f"patches of {sizes}", f"choose smaller ones, of {MAX_TAPS} places at most")
    if same:  # volumes are taken from their middle
        windows = {axis + 1: (reaches[axis], spans[1][axis]) for axis in range(count)}
        borders = same_borders(ctx, x, windows, cut=count == 3)
        if any(ctx.constant_ints(borders) or [1]):
            padded = ctx.op("Padding", x, borders, mode="CONSTANT")
            padded.dtype = x.dtype
            x = padded
    for size, reach in zip((x.shape or ())[1:-1], reaches, strict=True):
        if isinstance(size, int) and size < reach:
            raise node.unsupported(f"patches of {sizes} from a picture of {list(x.shape or ())}", "choose smaller ones")
    found = []
    for tap in range(taps):
        cuts, rest = [], tap
        for axis in reversed(range(count)):
            rest, place = divmod(rest, spans[0][axis])
            begin = place * spans[2][axis]
            cuts.append((axis + 1, begin, begin - reaches[axis] + 1 or END, spans[1][axis]))
        found.append(cut(ctx, x, cuts[::-1]))
    return ctx.op("Concat", *found, axis=count + 1) if taps > 1 else found[0]
