"""ConvTranspose in 1 to 3 dimensions."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import geometry, rank, transpose_convolve


def case(draw: Draw) -> Case:
    count = rank(draw)
    made = geometry(draw, count)
    groups = draw.often(1, [2, 3, 4, 8], 0.5)
    depthwise = groups > 1 and draw.flag()
    per_in, per_out = (1, 1) if depthwise else (max(draw.channels() // groups, 1), max(draw.channels() // groups, 1))
    most = {1: 20, 2: 9, 3: 5}[count]
    extents = draw.ints(count, 1, most)
    attributes = made.attributes(draw)
    extra = [0] * count
    if draw.flag(0.4):
        # below the stride or the dilation, as the specification has it
        extra = [draw.int(0, max(s, d) - 1) for s, d in zip(made.strides, made.dilations, strict=True)]
        attributes["output_padding"] = extra
    full = [(n - 1) * s + span + e for n, s, span, e in zip(extents, made.strides, made.spans, extra, strict=True)]
    pads, wanted = list(made.pads), None
    if draw.flag(0.25):
        wanted = [draw.int(max(1, f - 4), f) for f in full]
        attributes["output_shape"] = wanted
        attributes.pop("pads", None)
    elif made.auto_pad.startswith("SAME"):
        wanted = [n * s for n, s in zip(extents, made.strides, strict=True)]
    elif made.auto_pad == "VALID":
        pads = [0] * 2 * count
    else:
        for axis, f in enumerate(full):  # something is left
            while f - pads[axis] - pads[axis + count] < 1:
                pads[axis] = pads[axis + count] = 0
        if "pads" in attributes:
            attributes["pads"] = pads
    begins = pads[:count]
    if wanted is None:
        wanted = [f - a - z for f, a, z in zip(full, begins, pads[count:], strict=True)]
    else:
        totals = [f - n for f, n in zip(full, wanted, strict=True)]
        begins = [t // 2 if made.auto_pad == "SAME_UPPER" else t - t // 2 for t in totals]
    x = draw.normal(draw.often(1, [2, 3], 0.7), per_in * groups, *extents)
    w = draw.normal(groups * per_in, per_out, *made.kernel)
    kind = draw.often(np.float32, [np.float16, np.float64], 0.9)
    bias = draw.normal(groups * per_out) if draw.flag() else None
    if groups > 1 or draw.flag(0.2):
        attributes["group"] = groups
    if draw.flag():
        attributes["kernel_shape"] = made.kernel
    fed = draw.flag(0.15)
    excuse = ""
    if any(e >= s for e, s in zip(extra, made.strides, strict=True)):
        excuse = "output padding of a stride or more (below the dilation, as torch allows) is refused"
    elif made.auto_pad.startswith("SAME") and any(f < n for f, n in zip(full, wanted, strict=True)):
        excuse = "auto_pad SAME with a window below the stride: less comes out than input * stride"
    elif kind is not np.float32:
        excuse = "it has forms of float32 alone"
    inputs = [
        Operand(x.astype(kind)),
        Operand(w.astype(kind), fed),
        *([] if bias is None else [Operand(bias.astype(kind), fed)]),
    ]
    return Case(
        "ConvTranspose",
        inputs,
        attributes,
        opset=draw.choice([11, 22]),
        scale="products",
        oracle=lambda arrays: [
            transpose_convolve(*arrays[:2], arrays[2] if len(arrays) > 2 else None, made, groups, begins, wanted)
        ],
        excuse=excuse,
    )
