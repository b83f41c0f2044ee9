"""Transposed convolution as ordinary convolutions whose outputs are interleaved.

With stride ``s``, output position ``q * s + r`` of an axis receives ``sum_m x[q - m] * w[r + s * m]``: for every phase
``r`` an ordinary convolution with every s-th tap (flipped). An axis without a stride has one phase and keeps its
dilation. The phases are computed as extra output channels and
moved to their places, the sub-pixel arrangement of Shi et al. 2016 (arXiv:1609.05158), so no multiplication with
inserted zeros is done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

from MNN.errors import ShapeError
from MNN.formatting import plural
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import check_channels

Spread = Callable[[Tensor], Tensor]
"""One number per channel of the result in the shape of what a convolution gives, which may hold several phases."""
Finish = Callable[[Tensor, Spread], Tensor]
"""What is done to the results of the convolutions, each number by itself, before they are moved to their places."""

_MAX_WASTE = 1.5
"""Phases have different numbers of taps when the stride does not divide the kernel. Filling them up with zeros lets one
convolution do all phases; above this ratio of work they are computed one by one."""


def transposed_convolution(
    b: Builder,
    x: Tensor,
    w: Tensor,
    finish: Finish | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    begins: Sequence[int],
    sizes: Sequence[int],
    zero: int = 0,
) -> Tensor:
    """``x[N, C, spatial...]`` with ``w[C, O/groups, kernel...]`` to ``[N, O, sizes...]``.

    ``begins`` is how much is cut off before the first output; it may be negative. Integers of 8 bits are summed in i32;
    ``zero`` is what is taken off those of ``x``.
    """
    if any(v < 1 for v in (*strides, *dilations)) or any(n < 0 for n in sizes):
        raise ShapeError(f"{b.where}: strides {list(strides)} and dilations must be positive, sizes {list(sizes)} too")
    if groups < 1 or w.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ShapeError(
            f"{b.where}: input {list(x.shape)} does not fit weights {list(w.shape)} with {plural(groups, 'group')}"
        )
    w = _as_forward(b, _dilate(b, w, strides, dilations), groups)
    rest = [d if s == 1 else 1 for d, s in zip(dilations, strides, strict=True)]
    if all(s == 1 for s in strides):
        spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], rest, strict=True)]
        pads = [k - 1 - a for k, a in zip(spans, begins, strict=True)]
        ends = [n + k - 1 - i - p for n, k, i, p in zip(sizes, spans, x.shape[2:], pads, strict=True)]
        out = _convolution(b, x, _flip(b, w), rest, groups, pads, ends, zero)
        return out if finish is None else finish(out, lambda t: b.reshape(t, (1, -1, *(1,) * len(sizes))))
    return _phases(b, x, w, finish, strides, rest, groups, begins, sizes, zero)


def with_bias(b: Builder, bias: Tensor | None, channels: int) -> Finish | None:
    """What adds one number per channel, if there are such numbers."""
    if bias is None:
        return None
    check_channels(b, bias, channels, "the bias")
    each = b.expand(b.reshape(bias, (-1,)), (channels,))
    return lambda out, spread: b.op("add", out, spread(each))


def _convolution(
    b: Builder, x: Tensor, w: Tensor, dilations: Sequence[int], groups: int,
    low: Sequence[int], high: Sequence[int], zero: int,
) -> Tensor:  # fmt: skip
    """The convolution of ``x - zero`` with borders of zeros."""
    spatial = len(low)
    ones = (1,) * spatial
    if not zero:
        return b.conv(x, w, ones, dilations, groups, (*low, *high))
    out = b.conv(b.pad(x, (0, 0, *low), (0, 0, *high), zero), w, ones, dilations, groups, (0,) * (2 * spatial))
    sums = b.reduce("sum", b.cast(w, DType.I32), range(1, w.rank))
    return b.op("sub", out, b.op("mul", b.reshape(sums, (1, -1, *ones)), b.const(zero, DType.I32)))


def _as_forward(b: Builder, w: Tensor, groups: int) -> Tensor:
    """``[C, O/groups, k...]`` to ``[O, C/groups, k...]``, taps in their original order."""
    per_in, per_out, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    split = b.reshape(w, (groups, per_in, per_out, *kernel))
    transposed = b.permute(split, (0, 2, 1, *range(3, 3 + len(kernel))))
    return b.reshape(transposed, (groups * per_out, per_in, *kernel))


def _dilate(b: Builder, w: Tensor, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """Zeros between the taps on strided axes, where dilation and phases do not mix simply."""
    for i, (s, d) in enumerate(zip(strides, dilations, strict=True)):
        if s > 1 and d > 1:
            axis, k = i + 2, w.shape[i + 2]
            shape = w.shape
            apart = b.reshape(w, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
            high = [0] * apart.rank
            high[axis + 1] = d - 1
            apart = b.pad(apart, [0] * apart.rank, high)
            w = b.reshape(apart, (*shape[:axis], k * d, *shape[axis + 1 :]))
            w = b.slice(w, [0] * w.rank, [(k - 1) * d + 1 if j == axis else n for j, n in enumerate(w.shape)])
    return w


def _flip(b: Builder, w: Tensor) -> Tensor:
    spatial = w.rank - 2
    starts = [0, 0, *(k - 1 for k in w.shape[2:])]
    return b.slice(w, starts, w.shape, [1, 1, *([-1] * spatial)])


def _taps(b: Builder, w: Tensor, phase: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> Tensor:
    """Every ``stride``-th tap from ``phase`` on, flipped, filled with zeros up to ``counts`` taps."""
    have = [max(-(-(k - r) // s), 0) for k, r, s in zip(w.shape[2:], phase, strides, strict=True)]
    starts = [r if h else 0 for r, h in zip(phase, have, strict=True)]
    part = b.slice(w, [0, 0, *starts], [*w.shape[:2], *have], [1, 1, *strides])
    return _flip(b, b.pad(part, [0] * w.rank, [0, 0, *(c - h for c, h in zip(counts, have, strict=True))]))


def _phases(
    b: Builder,
    x: Tensor,
    w: Tensor,
    finish: Finish | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    begins: Sequence[int],
    sizes: Sequence[int],
    zero: int,
) -> Tensor:
    """``dilations`` are those of axes without a stride; on the others the zeros are in ``w`` already."""
    spatial, kernel = len(strides), w.shape[2:]
    batch, channels, per_out = x.shape[0], w.shape[0], w.shape[0] // groups
    first = [a // s for a, s in zip(begins, strides, strict=True)]
    last = [-(-(a + n) // s) for a, n, s in zip(begins, sizes, strides, strict=True)]
    counts = [z - a for a, z in zip(first, last, strict=True)]
    b.expect(4 * prod(strides))
    phases = list(itertools.product(*(range(s) for s in strides)))
    most = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]

    def run(weight: Tensor, taps: Sequence[int]) -> Tensor:
        low = [(m - 1) * d - q for m, d, q in zip(taps, dilations, first, strict=True)]
        high = [z - n for z, n in zip(last, x.shape[2:], strict=True)]
        return _convolution(b, x, weight, dilations, groups, low, high, zero)

    def finished(out: Tensor, phases: int) -> Tensor:
        """Done before the outputs are interleaved, where a convolution does it in passing."""
        if finish is None:
            return out

        def spread(t: Tensor) -> Tensor:
            each = b.expand(b.reshape(t, (groups, 1, per_out)), (groups, phases, per_out))
            return b.reshape(each, (1, -1, *(1,) * spatial))

        return finish(out, spread)

    waste = prod(m * s for m, s in zip(most, strides, strict=True)) / max(prod(kernel), 1)
    if waste <= _MAX_WASTE and per_out > 1:
        # channels in the order (group, phase, channel of the group): long runs of channels stay together
        parts = [b.reshape(_taps(b, w, r, strides, most), (groups, 1, per_out, *w.shape[1:2], *most)) for r in phases]
        weight = b.reshape(b.concat(parts, 1), (-1, w.shape[1], *most))
        out = b.reshape(finished(run(weight, most), len(phases)), (batch, groups, len(phases), per_out, *counts))
    else:
        each = []
        for r in phases:
            taps = [-(-(k - p) // s) for k, p, s in zip(kernel, r, strides, strict=True)]
            if min(taps) > 0:
                part = run(_taps(b, w, r, strides, taps), taps)
            else:
                nothing = b.const(0, DType.I32 if x.dtype.is_int else x.dtype)
                part = b.expand(nothing, (batch, channels, *counts))
            each.append(b.reshape(finished(part, 1), (batch, groups, 1, per_out, *counts)))
        out = b.concat(each, 2)
    # [N, g, s..., O/g, q...] -> [N, g, O/g, q0, s0, q1, s1, ...]
    out = b.reshape(out, (batch, groups, *strides, per_out, *counts))
    places = [axis for i in range(spatial) for axis in (3 + spatial + i, 2 + i)]
    out = b.permute(out, (0, 1, 2 + spatial, *places))
    out = b.reshape(out, (batch, channels, *(c * s for c, s in zip(counts, strides, strict=True))))
    starts = [a - q * s for a, q, s in zip(begins, first, strides, strict=True)]
    return b.slice(out, [0, 0, *starts], [batch, channels, *sizes])
