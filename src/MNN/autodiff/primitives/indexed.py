"""Indexed reads and writes: each is the other's adjoint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.autodiff.rules import Cotangents, Wanted, rule, zeros
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder


@rule(p.Gather)
def _gather(b: Builder, prim: p.Gather, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    data, given = prim.inputs[0], g[0]
    assert given is not None
    rest: list[Tensor | None] = [None] * (len(prim.inputs) - 1)
    if (still := prim.still) is not None:

        def moving(s: BodyBuilder, slope: int, index: int) -> int:
            return s("select", s("eq", index, s.const(still, s.dtype(index))), s.const(0, s.dtype(slope)), slope)

        given = b.map(moving, given, prim.inputs[1])
    return [b.scatter("add", zeros(b, data), given, prim.inputs[1:], prim.indexed, prim.walk), *rest]


@rule(p.Scatter)
def _scatter(b: Builder, prim: p.Scatter, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    given = g[0]
    assert given is not None
    data, updates = _RULES[prim.op](b, prim, given, wanted)
    rest: list[Tensor | None] = [None] * (len(prim.inputs) - 2)
    return [data, updates, *rest]


@rule(p.TopK)
def _topk(b: Builder, prim: p.TopK, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    """The elements go back to where they were."""
    x, given, places = prim.inputs[0], g[0], prim.outputs[1]
    if given is None:
        return [None]
    walk = [-1 if i == prim.axis else i for i in range(x.rank)]
    index = places if places.dtype in (DType.I32, DType.I64) else b.cast(places, DType.I64)
    return [b.scatter("add", zeros(b, x), given, [index], [prim.axis], walk)]


Both = tuple["Tensor | None", "Tensor | None"]


def _read(b: Builder, prim: p.Scatter, source: Tensor) -> Tensor:
    """What lies where the updates are put."""
    return b.gather(source, prim.inputs[2:], prim.indexed, prim.walk, prim.inputs[1].shape)


def _write(b: Builder, prim: p.Scatter, op: str, data: Tensor, updates: Tensor) -> Tensor:
    return b.scatter(op, data, updates, prim.inputs[2:], prim.indexed, prim.walk)


def _one(b: Builder, like: Tensor) -> Tensor:
    return b.expand(b.like(1.0, like), like.shape)


def _set(b: Builder, prim: p.Scatter, g: Tensor, wanted: Wanted) -> Both:
    """Of several writes to one place the last one counts."""
    updates = prim.inputs[1]
    data = _write(b, prim, "set", g, zeros(b, updates)) if wanted[0] else None
    if not wanted[1]:
        return data, None
    numbers = b.const(np.arange(int(np.prod(updates.shape)), dtype=np.int64).reshape(updates.shape))
    none = b.expand(b.const(-1, DType.I64), prim.inputs[0].shape)
    last = _read(b, prim, _write(b, prim, "set", none, numbers))

    def pick(s: BodyBuilder, winner: int, own: int, share: int) -> int:
        return s("select", s("eq", winner, own), share, s.const(0.0, s.dtype(share)))

    return data, b.map(pick, last, numbers, _read(b, prim, g))


def _add(b: Builder, prim: p.Scatter, g: Tensor, wanted: Wanted) -> Both:
    return g if wanted[0] else None, _read(b, prim, g) if wanted[1] else None


def _mul(b: Builder, prim: p.Scatter, g: Tensor, wanted: Wanted) -> Both:
    """Products of all others, also where some are zero: those without zeros, and how many of these there are."""
    data, updates = prim.inputs[:2]
    whole = _write(b, prim, "mul", _one(b, data), updates)
    own = b.op("mul", g, whole) if wanted[0] else None
    if not wanted[1]:
        return own, None

    def filled(s: BodyBuilder, u: int) -> int:
        return s("select", s("eq", u, s.const(0.0, s.dtype(u))), s.const(1.0, s.dtype(u)), u)

    def zero(s: BodyBuilder, u: int) -> int:
        is_zero = s("eq", u, s.const(0.0, s.dtype(u)))
        return s("select", is_zero, s.const(1.0, s.dtype(u)), s.const(0.0, s.dtype(u)))

    product = _read(b, prim, _write(b, prim, "mul", _one(b, data), b.map(filled, updates)))
    count = _read(b, prim, _write(b, prim, "add", zeros(b, data), b.map(zero, updates)))

    def others(s: BodyBuilder, u: int, whole: int, zeros_here: int, share: int) -> int:
        none, one = s.const(0.0, s.dtype(u)), s.const(1.0, s.dtype(u))
        alone = s("select", s("eq", zeros_here, one), whole, none)
        plain = s("select", s("eq", zeros_here, none), s("div", whole, u), none)
        return s("mul", share, s("select", s("eq", u, none), alone, plain))

    return own, b.map(others, updates, product, count, _read(b, prim, b.op("mul", g, data)))


def _extreme(b: Builder, prim: p.Scatter, g: Tensor, wanted: Wanted) -> Both:
    """All that are as large (or small) as the result share its gradient evenly."""
    data, updates, out = *prim.inputs[:2], prim.outputs[0]

    def same(s: BodyBuilder, a: int, z: int) -> int:
        return s("select", s("eq", a, z), s.const(1.0, s.dtype(a)), s.const(0.0, s.dtype(a)))

    kept, put = b.map(same, data, out), b.map(same, updates, _read(b, prim, out))
    share = b.op("div", g, _write(b, prim, "add", kept, put))
    return b.op("mul", share, kept), b.op("mul", _read(b, prim, share), put)


_RULES = {"set": _set, "add": _add, "mul": _mul, "max": _extreme, "min": _extreme}
