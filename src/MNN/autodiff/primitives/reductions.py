"""Reductions and running reductions."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.autodiff.rules import Cotangents, Wanted, rule
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder


@rule(p.Reduce)
def _reduce(b: Builder, prim: p.Reduce, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    x, given = prim.inputs[0], g[0]
    assert given is not None
    if prim.shift:
        return [None]
    if prim.op == "sum":
        return [b.expand(given, x.shape)]
    if prim.op == "prod":
        return [b.op("mul", b.expand(given, x.shape), _others(b, x, prim.axes))]
    # the largest (or smallest) elements share the gradient evenly
    out = prim.outputs[0]

    def same(s: BodyBuilder, a: int, m: int) -> int:
        one, zero = s.const(1.0, s.dtype(a)), s.const(0.0, s.dtype(a))
        return s("select", s("eq", a, m), one, zero)

    count = b.reduce("sum", b.map(same, x, out), prim.axes)
    share = b.op("div", given, count)

    def pick(s: BodyBuilder, a: int, m: int, part: int) -> int:
        return s("select", s("eq", a, m), part, s.const(0.0, s.dtype(a)))

    return [b.map(pick, x, out, share)]


def _others(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """For each element the product of all others that are reduced with it, also where some are zero."""
    kept = [i for i in range(x.rank) if i not in axes]
    order = [*kept, *axes]
    moved = b.permute(x, order)
    flat = b.reshape(moved, (*[x.shape[i] for i in kept], -1))
    last = flat.rank - 1
    before = b.scan("mul", flat, last, exclusive=True)
    behind = b.scan("mul", flat, last, exclusive=True, reverse=True)
    back = b.reshape(b.op("mul", before, behind), moved.shape)
    return b.permute(back, [order.index(i) for i in range(x.rank)])


@rule(p.ArgReduce)
def _argreduce(b: Builder, prim: p.ArgReduce, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    return [None]
