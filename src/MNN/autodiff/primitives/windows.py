"""Pooling windows: every element gathers from the windows that it is in.

An element at ``q * stride + r`` of an axis is in the windows ``q - m`` as tap ``r + stride * m``: for each phase ``r``
one elementwise map over slices of the windows' gradients, as in :mod:`MNN.ops.linear.transposed`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce

from MNN.autodiff.primitives.convolutions import taps
from MNN.autodiff.primitives.views import put_back
from MNN.autodiff.rules import Cotangents, Wanted, rule
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder

_AT_ONCE = 8
"""Slices that one map compares."""
Part = Callable[[int, Sequence[Tensor]], Tensor]
"""From the number of a tap and slices of what windows have, what the tap's element gets."""


@rule(p.Window)
def _window(b: Builder, prim: p.Window, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    given = g[0]
    assert given is not None
    if prim.op == "sum":
        return [_spread(b, prim, [given], [0.0], lambda _, seen: seen[0])]
    first = _first(b, prim)

    def part(tap: int, seen: Sequence[Tensor]) -> Tensor:
        def pick(s: BodyBuilder, which: int, share: int) -> int:
            here = s("eq", which, s.const(tap, DType.I32))
            return s("select", here, share, s.const(0.0, s.dtype(share)))

        return b.map(pick, seen[1], seen[0])

    return [_spread(b, prim, [given, first], [0.0, -1], part)]


def _first(b: Builder, prim: p.Window) -> Tensor:
    """The number of the first tap of each window that is as large as its result, as i32."""
    x, out = prim.inputs[0], prim.outputs[0]
    seen = [b.slice(x, *t) for t in taps(x, prim.kernel, prim.strides, prim.dilations, out.shape[2:])]
    found = b.const(-1, DType.I32)
    last = len(seen)
    while last > 0:
        begin = max(last - _AT_ONCE, 0)

        def choose(s: BodyBuilder, largest: int, otherwise: int, *values: int, begin: int = begin) -> int:
            for number in range(len(values) - 1, -1, -1):
                here = s("eq", values[number], largest)
                otherwise = s("select", here, s.const(begin + number, DType.I32), otherwise)
            return otherwise

        found = b.map(choose, out, found, *seen[begin:last])
        last = begin
    return found


def _spread(b: Builder, prim: p.Window, values: Sequence[Tensor], fills: Sequence[float], part: Part) -> Tensor:
    """The sum over taps of what each gives to the elements under it."""
    x, kernel, strides = prim.inputs[0], prim.kernel, prim.strides
    if any(d > 1 and s > 1 for d, s in zip(prim.dilations, strides, strict=True)):
        slices = taps(x, kernel, strides, prim.dilations, values[0].shape[2:])
        made = [put_back(b, part(i, values), starts, steps, x.shape) for i, (starts, _, steps) in enumerate(slices)]
        return reduce(lambda a, z: b.op("add", a, z), made)
    axes = len(kernel)
    counts = [-(-n // s) for n, s in zip(x.shape[2:], strides, strict=True)]
    # taps of an axis by phase: how far back the window begins (in windows), and the tap
    reach: list[list[list[tuple[int, int]]]] = []
    for k, s, d in zip(kernel, strides, prim.dilations, strict=True):
        reach.append([[(t * d // s, t) for t in range(k) if t * d % s == r] for r in range(s)])
    low = [max((m for phase in of for m, _ in phase), default=0) for of in reach]
    high = [max(c - n, 0) for c, n in zip(counts, values[0].shape[2:], strict=True)]
    wide = [b.pad(v, [0, 0, *low], [0, 0, *high], fill) for v, fill in zip(values, fills, strict=True)]
    sizes = [*x.shape[:2], *counts]
    phases = []
    for phase in itertools.product(*reach):
        terms = []
        for choice in itertools.product(*phase):
            starts = [0, 0, *(a - m for a, (m, _) in zip(low, choice, strict=True))]
            number = 0
            for (_, tap), k in zip(choice, kernel, strict=True):
                number = number * k + tap
            terms.append(part(number, [b.slice(v, starts, sizes) for v in wide]))
        none = b.expand(b.like(0.0, x), sizes)
        phases.append(reduce(lambda a, z: b.op("add", a, z), terms) if terms else none)
    if len(phases) == 1:
        return _cut(b, phases[0], x.shape)
    joined = b.concat([b.reshape(t, (*x.shape[:2], 1, *counts)) for t in phases], 2)
    joined = b.reshape(joined, (*x.shape[:2], *strides, *counts))
    order = [axis for i in range(axes) for axis in (2 + axes + i, 2 + i)]
    moved = b.permute(joined, (0, 1, *order))
    return _cut(b, b.reshape(moved, (*x.shape[:2], *(c * s for c, s in zip(counts, strides, strict=True)))), x.shape)


def _cut(b: Builder, found: Tensor, shape: Sequence[int]) -> Tensor:
    return b.slice(found, [0] * found.rank, shape)
