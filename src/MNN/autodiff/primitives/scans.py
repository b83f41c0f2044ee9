"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.autodiff.rules import Cotangents, Wanted, rule, zeros
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder


@rule(p.Scan)
def _scan(b: Builder, prim: p.Scan, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    x, given, axis = prim.inputs[0], g[0], prim.axis
    assert given is not None
    if prim.op == "add":
        return [b.scan("add", given, axis, exclusive=prim.exclusive, reverse=not prim.reverse)]
    if not x.shape[axis]:
        return [None]
    if prim.reverse:
        x, given = _flip(b, x, axis), _flip(b, given, axis)
    if prim.exclusive:  # the result one place further; what falls in at the beginning is a constant
        given = _shift(b, given, axis, -1, 0.0)
    found = _product(b, x, given, axis) if prim.op == "mul" else _extreme(b, prim.op, x, given, axis)
    return [_flip(b, found, axis) if prim.reverse else found]


def _flip(b: Builder, x: Tensor, axis: int) -> Tensor:
    starts = [n - 1 if i == axis else 0 for i, n in enumerate(x.shape)]
    return b.slice(x, starts, x.shape, [-1 if i == axis else 1 for i in range(x.rank)])


def _shift(b: Builder, x: Tensor, axis: int, places: int, fill: float) -> Tensor:
    """Elements moved towards the end (or, negative, towards the beginning), ``fill`` in what gets free."""
    low = [places if i == axis else 0 for i in range(x.rank)]
    low, high = ([max(n, 0) for n in low], [max(-n, 0) for n in low])
    wide = b.pad(x, low, high, fill)
    return b.slice(wide, [-places if i == axis and places < 0 else 0 for i in range(x.rank)], x.shape)


def _product(b: Builder, x: Tensor, g: Tensor, axis: int) -> Tensor:
    """Element ``j`` is in all products from ``j`` on: its gradient is the product before it times ``s[j]``, with
    ``s[j] = g[j] + x[j + 1] * s[j + 1]``. This recurrence is run by doubling (Hillis and Steele, 1986), without a
    division, so that zeros are elements like others."""
    factor, total = _shift(b, x, axis, -1, 0.0), g
    reach, size = 1, x.shape[axis]
    while reach < size:
        further = _shift(b, total, axis, -reach, 0.0)
        total = b.op("add", total, b.op("mul", factor, further))
        if 2 * reach < size:
            factor = b.op("mul", factor, _shift(b, factor, axis, -reach, 0.0))
        reach *= 2
    return b.op("mul", b.scan("mul", x, axis, exclusive=True), total)


def _extreme(b: Builder, op: str, x: Tensor, g: Tensor, axis: int) -> Tensor:
    """Each result goes back to the last element until then that is as large (or small)."""
    running = b.scan(op, x, axis)
    line = [1] * x.rank
    line[axis] = x.shape[axis]
    places = b.const(np.arange(x.shape[axis], dtype=np.int64).reshape(line))

    def own(s: BodyBuilder, a: int, m: int, place: int) -> int:
        return s("select", s("eq", a, m), place, s.const(0, DType.I64))

    source = b.scan("max", b.map(own, x, running, places), axis)
    walk = [-1 if i == axis else i for i in range(x.rank)]
    return b.scatter("add", zeros(b, x), g, [source], [axis], walk)
