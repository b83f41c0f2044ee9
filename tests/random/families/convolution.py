"""Conv in 1 to 3 dimensions."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import below_stride, convolve, geometry, rank, sizes


def case(draw: Draw) -> Case:
    count = rank(draw)
    made = geometry(draw, count)
    groups = draw.often(1, [2, 3, 4, 7, 8, 16], 0.5)
    depthwise = groups > 1 and draw.flag()
    per_in = 1 if depthwise else max(draw.channels() // groups, 1)
    per_out = draw.choice([1, 1, 2]) if depthwise else max(draw.channels() // groups, 1)
    x = draw.normal(draw.often(1, [2, 3], 0.7), per_in * groups, *sizes(draw, made))
    w = draw.normal(groups * per_out, per_in, *made.kernel)
    kind = draw.often(np.float32, [np.float16, np.float64], 0.9)
    bias = draw.normal(len(w)) if draw.flag() else None
    attributes = made.attributes(draw)
    if groups > 1 or draw.flag(0.2):
        attributes["group"] = groups
    if draw.flag():
        attributes["kernel_shape"] = made.kernel
    fed = draw.flag(0.15)
    excuse = ""
    if made.auto_pad.startswith("SAME") and made.dilations != [1] * count:
        excuse = "auto_pad SAME with dilations is refused"
    elif made.auto_pad.startswith("SAME") and below_stride(made, x.shape[2:]):
        excuse = "auto_pad SAME with a window below the stride: it pads by less than nothing"
    elif kind is not np.float32:
        excuse = "it has forms of float32 alone"
    return Case(
        "Conv",
        [
            Operand(x.astype(kind)),
            Operand(w.astype(kind), fed),
            None if bias is None else Operand(bias.astype(kind), fed),
        ][: 3 if bias is not None else 2],
        attributes,
        opset=draw.choice([11, 22]),
        scale="products",
        oracle=lambda arrays: [convolve(*arrays[:2], arrays[2] if len(arrays) > 2 else None, made, groups)],
        excuse=excuse,
    )
