"""Convolutions: of the image a transposed convolution, of the weights a product over all places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from MNN.autodiff.primitives.contractions import transposed
from MNN.autodiff.rules import Cotangents, Wanted, rule
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.linear.transposed import transposed_convolution


@rule(p.Conv)
def _conv(b: Builder, prim: p.Conv, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    (x, w), given = prim.inputs, g[0]
    assert given is not None
    count = x.rank - 2
    image = weight = None
    if wanted[0]:
        image = transposed_convolution(
            b, given, w, None, prim.strides, prim.dilations, prim.groups, (0,) * count, x.shape[2:]
        )
    if wanted[1]:
        weight = _weights(b, prim, x, w, given)
    return [image, weight]


def taps(x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]):  # type: ignore[no-untyped-def]
    """Starts, sizes and steps of the slices of ``x`` that each tap of a window sees, in row-major order."""
    for tap in itertools.product(*map(range, kernel)):
        starts = [0, 0, *(t * d for t, d in zip(tap, dilations, strict=True))]
        steps = [1, 1, *(s if n > 1 else 1 for s, n in zip(strides, out, strict=True))]
        yield starts, [*x.shape[:2], *out], steps


def _weights(b: Builder, prim: p.Conv, x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    kernel, out, groups = w.shape[2:], g.shape[2:], prim.groups
    seen = [b.slice(x, *part) for part in taps(x, kernel, prim.strides, prim.dilations, out)]
    batch, places = x.shape[0], prod(out)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    if per_in == 1 and groups > 1:
        return _depthwise(b, seen, w, g, groups)
    # [groups, per_out, batch * places] times [groups, batch * places, taps * per_in]
    wide = b.permute(b.reshape(g, (batch, groups, per_out, places)), (1, 0, 3, 2))
    left = transposed(b, b.reshape(wide, (groups, batch * places, per_out)))
    columns = [b.permute(b.reshape(t, (batch, groups, per_in, places)), (1, 0, 3, 2)) for t in seen]
    rows = [b.reshape(t, (groups, batch * places, per_in)) for t in columns]
    product = b.matmul(left, b.concat(rows, 2))
    split = b.reshape(product, (groups, per_out, len(seen), per_in))
    return b.reshape(b.permute(split, (0, 1, 3, 2)), w.shape)


def _depthwise(b: Builder, seen: Sequence[Tensor], w: Tensor, g: Tensor, groups: int) -> Tensor:
    """Filters of one channel: sums of elementwise products."""
    per_out = w.shape[0] // groups
    axes = (0, *range(2, g.rank))
    parts = []
    for t in seen:
        if per_out > 1:  # each channel once for every filter on it
            t = b.reshape(b.expand(b.unsqueeze(t, [2]), (*t.shape[:2], per_out, *t.shape[2:])), g.shape)
        parts.append(b.reshape(b.reduce("sum", b.op("mul", t, g), axes), (w.shape[0], 1, 1)))
    return b.reshape(b.concat(parts, 2), w.shape)


__all__ = ["taps"]
