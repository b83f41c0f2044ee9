"""Patches of pictures side by side along the channels."""

from __future__ import annotations

from MNN.errors import FormatError
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.slicing import cut
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
    given = (x.shape or ())[1:-1]
    if len(given) != count or not all(isinstance(d, int) for d in given):
        raise node.unsupported("a picture of open size", "export the model with shapes")
    pads, outs, firsts, taps = [0, 0], [], [], 1
    for size, kernel, step, rate in zip((int(d) for d in given), *spans, strict=True):
        reach = (kernel - 1) * rate + 1
        out = -(-size // step) if same else (size - reach) // step + 1
        missing = (out - 1) * step + reach - size if same else 0
        firsts.append(-missing // 2 if missing < 0 and count == 3 else 0)  # volumes are taken from their middle
        pads += [max(missing, 0) // 2, max(missing, 0) - max(missing, 0) // 2]
        outs.append(out)
        taps *= kernel
    if min(outs) < 1 or taps > MAX_TAPS:
        raise node.unsupported(f"patches of {sizes} from a picture of {list(given)}", "choose smaller patches")
    if any(pads):
        padded = ctx.op("Padding", x, ctx.const([*pads, 0, 0]), mode="CONSTANT")
        padded.dtype = x.dtype
        x = padded
    found = []
    for tap in range(taps):
        cuts, rest = [], tap
        for axis in reversed(range(count)):
            rest, place = divmod(rest, spans[0][axis])
            begin = firsts[axis] + place * spans[2][axis]
            cuts.append((axis + 1, begin, begin + (outs[axis] - 1) * spans[1][axis] + 1, spans[1][axis]))
        found.append(cut(ctx, x, cuts[::-1]))
    return ctx.op("Concat", *found, axis=count + 1) if taps > 1 else found[0]
