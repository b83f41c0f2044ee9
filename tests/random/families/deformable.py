"""DeformConv in 2 dimensions, with groups, groups of offsets and masks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import Geometry, geometry, sizes


def case(draw: Draw) -> Case:
    made = geometry(draw, 2)
    made.auto_pad, made.kernel = "NOTSET", [min(k, 3) for k in made.kernel]
    extents = sizes(draw, made)
    made.pads = [min(p, 2) for p in made.pads]
    groups, offsets = draw.often(1, [2, 3], 0.6), draw.often(1, [2, 3], 0.6)
    channels = groups * offsets * draw.int(1, 3)
    extents = [
        max(n, span - a - z) for n, span, a, z in zip(extents, made.spans, made.pads[:2], made.pads[2:], strict=True)
    ]
    out = [
        (n + a + z - span) // s + 1
        for n, a, z, span, s in zip(extents, made.pads[:2], made.pads[2:], made.spans, made.strides, strict=True)
    ]
    batch, taps = draw.int(1, 2), int(np.prod(made.kernel))
    x = draw.normal(batch, channels, *extents)
    w = draw.normal(groups * draw.int(1, 4), channels // groups, *made.kernel)
    moved = draw.normal(batch, offsets * taps * 2, *out) * np.float32(draw.choice([0.5, 2]))
    bias = draw.normal(len(w)) if draw.flag() else None
    mask = draw.uniform(0, 1, batch, offsets * taps, *out) if draw.flag() else None
    given = [x, w, moved, bias, mask][: 5 if mask is not None else 4 if bias is not None else 3]
    attributes = made.attributes(draw) | {"group": groups, "offset_group": offsets, "kernel_shape": made.kernel}
    return Case(
        "DeformConv",
        [None if a is None else Operand(a, k != 1 or draw.flag(0.2)) for k, a in enumerate(given)],
        attributes,
        opset=draw.choice([19, 22]),
        scale="products",
        keep=(2,),
        slack=4,  # positions are rounded too
        oracle=lambda arrays: [_deform(made, groups, offsets, out, *arrays)],
        low=False,  # offsets of 8 bits are other places
    )


def _deform(
    made: Geometry, groups: int, offsets: int, out: list[int], x: Any, w: Any, moved: Any, bias: Any = None,
    mask: Any = None,
) -> np.ndarray:  # fmt: skip
    """Every tap reads between four pixels; what lies outside of the input is 0."""
    batch, channels, height, width = x.shape
    x, w = x.astype(np.float64), w.astype(np.float64)
    moved = moved.reshape(batch, offsets, *made.kernel, 2, *out)
    mask = (
        np.ones((batch, offsets, *made.kernel, *out))
        if mask is None
        else mask.reshape(batch, offsets, *made.kernel, *out)
    )
    total = np.zeros((batch, len(w), *out))
    for n, o, (ky, kx) in itertools.product(range(batch), range(offsets), np.ndindex(*made.kernel)):
        part = slice(o * channels // offsets, (o + 1) * channels // offsets)
        place = [
            np.arange(out[i]).reshape((-1, 1) if i == 0 else (1, -1)) * made.strides[i]
            - made.pads[i] + (ky, kx)[i] * made.dilations[i] + moved[n, o, ky, kx, i].astype(np.float64)
            for i in range(2)
        ]  # fmt: skip
        low = [np.floor(p).astype(int) for p in place]
        value = np.zeros((channels // offsets, *out))
        for dy, dx in itertools.product((0, 1), (0, 1)):
            y, z = low[0] + dy, low[1] + dx
            weight = (1 - np.abs(place[0] - y)) * (1 - np.abs(place[1] - z))
            inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
            value += np.where(inside, weight, 0) * x[n, part][:, np.clip(y, 0, height - 1), np.clip(z, 0, width - 1)]
        value *= mask[n, o, ky, kx]
        for c in range(channels // offsets):
            at = part.start + c
            group, inner = divmod(at, channels // groups)
            per = len(w) // groups
            rows = slice(group * per, (group + 1) * per)
            total[n, rows] += w[rows, inner, ky, kx][:, None, None] * value[c]
    return total if bias is None else total + bias.astype(np.float64).reshape(-1, 1, 1)
