"""Convolutions: of the image a transposed convolution, of the weights a product over all places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod

from MNN.autodiff.row_products import row_product
from MNN.autodiff.rules import Asked, Cotangents, Wanted, rule
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.linear.transposed import transposed_convolution


@rule(p.Conv)
def _conv(b: Builder, prim: p.Conv, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    (x, w), given = prim.inputs, g[0]
    assert given is not None
    image = weight = None
    if wanted[0]:
        image = _image(b, prim, x, w, given, wanted[0])
    if wanted[1]:
        weight = _weights(b, prim, x, w, given)
    return [image, weight]


def _image(b: Builder, prim: p.Conv, x: Tensor, w: Tensor, g: Tensor, asked: Asked) -> Tensor:
    """A transposed convolution; nothing of a border that was put around the image, where nobody asks for that."""
    border = x.producer
    if not isinstance(border, p.Pad) or any((*border.low[:2], *border.high[:2])) or asked is Asked.ITSELF:
        none = (0,) * (x.rank - 2)
        return transposed_convolution(b, g, w, None, prim.strides, prim.dilations, prim.groups, none, x.shape[2:])
    begins, sizes = tuple(border.low[2:]), border.inputs[0].shape[2:]
    inner = transposed_convolution(b, g, w, None, prim.strides, prim.dilations, prim.groups, begins, sizes)
    return b.pad(inner, border.low, border.high)


def taps(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Starts, sizes and steps of the slices of ``x`` that each tap of a window sees, in row-major order."""
    for tap in itertools.product(*map(range, kernel)):
        starts = [0, 0, *(t * d for t, d in zip(tap, dilations, strict=True))]
        steps = [1, 1, *(s if n > 1 else 1 for s, n in zip(strides, out, strict=True))]
        yield starts, [*x.shape[:2], *out], steps


def _weights(b: Builder, prim: p.Conv, x: Tensor, w: Tensor, g: Tensor) -> Tensor:
    """A convolution again: channels are its samples, samples its channels, the gradient its filters, strides and
    dilations exchanged. With a single tap that is a product."""
    kernel, out, groups, count = w.shape[2:], g.shape[2:], prim.groups, x.rank - 2
    per_in, per_out = w.shape[1], w.shape[0] // groups
    if per_in == 1 and groups > 1:
        windows = [b.slice(x, *part) for part in taps(x, kernel, prim.strides, prim.dilations, out)]
        return _depthwise(b, windows, w, g, groups)
    batch, places = x.shape[0], prod(out)
    if prod(kernel) == 1 and groups == 1:
        starts, sizes, steps = next(taps(x, kernel, prim.strides, prim.dilations, out))
        rows = b.permute(b.reshape(b.slice(x, starts, sizes, steps), (batch, per_in, places)), (0, 2, 1))
        wide = b.permute(b.reshape(g, (batch, per_out, places)), (0, 2, 1))
        return b.reshape(row_product(b, b.reshape(wide, (-1, per_out)), b.reshape(rows, (-1, per_in))), w.shape)
    # what no window reaches is left out, so that there are as many results as taps
    reach = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(out, prim.strides, kernel, prim.dilations, strict=True)
    ]
    seen = b.slice(x, [0] * x.rank, [*x.shape[:2], *reach])
    split = b.reshape(seen, (batch, groups, per_in, *reach))
    image = b.reshape(b.permute(split, (2, 1, 0, *range(3, 3 + count))), (per_in, groups * batch, *reach))
    filters = b.permute(g, (1, 0, *range(2, 2 + count)))
    made = b.conv(image, filters, prim.dilations, prim.strides, groups, (0,) * (2 * count))
    return b.permute(made, (1, 0, *range(2, 2 + count)))


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
