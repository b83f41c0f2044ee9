"""Quantisation that is trained with: numbers rounded to the steps that integers will have, and gradients as if they
were not (Jacob et al. 2018, arXiv:1712.05877; the estimator is that of Bengio et al. 2013, arXiv:1308.3432)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.shape import elements
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer

FEATURE_LIMIT = 127.0
"""Features are whole numbers from -127 to 127."""
SMALLEST_WEIGHT = 1e-6
"""A channel's weights are quantised as if the largest of them were no less."""
METHODS = ("MAXIMUM", "MOVING_AVERAGE")
_LAST_BIT = 2.0**149
"""Of which every number of single precision is a whole multiple's inverse."""


def _cut(s: BodyBuilder, x: int) -> int:
    """A number of single precision, through which no gradient goes: rounding has none, and rounds nothing here."""
    whole = s("round", s("mul", s.cast(x, DType.F64), s.const(_LAST_BIT, DType.F64)))
    return s.cast(s("mul", whole, s.const(1 / _LAST_BIT, DType.F64)), DType.F32)


def _straight_through(s: BodyBuilder, x: int, rounded: int) -> int:
    """``rounded``, which depends on ``x`` by rounding alone, with the gradient of ``x``."""
    return s("add", rounded, s("sub", x, _cut(s, x)))


def _bounded(s: BodyBuilder, x: int, limit: float) -> int:
    kind = s.dtype(x)
    return s("min", s("max", x, s.const(-limit, kind)), s.const(limit, kind))


@register("FakeQuantizeWeights")
class FakeQuantizeWeights(Operator):
    """Weights ``[O, ...]`` in steps of ``max |w| / (2 ** (bits - 1) - 1)`` of their output channel."""

    keeps_shape = True
    in_mnn = False
    attributes = {"bits": 8}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        w = operand(b, inputs, 0, "w")
        bits = self.int_attr(node, "bits")
        if not 2 <= bits <= 8 or not w.rank or w.dtype is not DType.F32:
            raise ShapeError(f"{b.where}: weights {list(w.shape)} of {w.dtype.value} in {bits} bits; 2 to 8 are known")
        limit = float(2 ** (bits - 1) - 1)
        largest = b.reduce("max", b.op("abs", w), range(1, w.rank))

        def body(s: BodyBuilder, x: int, m: int) -> int:
            m = _cut(s, s("max", m, s.const(SMALLEST_WEIGHT, DType.F32)))
            step = s("div", m, s.const(limit, DType.F32))
            return _straight_through(s, x, s("mul", _bounded(s, s("round", s("div", x, step)), limit), step))

        return [b.map(body, w, largest)]


@register("FakeQuantizeFeatures")
class FakeQuantizeFeatures(Operator):
    """Operands: ``x``, and the least and largest number that were met so far (one each, both 0: none was). Results:
    ``x`` in 254 steps between its own least and largest number, 0 among them; then what the two become: with
    ``method`` MAXIMUM the widest, with MOVING_AVERAGE ``momentum`` times what they were plus the rest of these."""

    in_mnn = False
    updates: ClassVar[dict[int, int]] = {1: 1, 2: 2}
    attributes = {"method": "MOVING_AVERAGE", "momentum": 0.99}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, known = operand(b, inputs, 0, "x"), [operand(b, inputs, i) for i in (1, 2)]
        method, keep = self.str_attr(node, "method"), self.float_attr(node, "momentum")
        if method not in METHODS or not 0 <= keep < 1:
            raise ShapeError(f"{b.where}: the method {method!r} with momentum {keep}; known: {', '.join(METHODS)}")
        if x.dtype is not DType.F32 or not elements(x.shape) or any(elements(t.shape) != 1 for t in known):
            raise ShapeError(f"{b.where}: {x.dtype.value} {list(x.shape)} with ranges of {[t.shape for t in known]}")
        ends = [b.reshape(b.reduce(kind, x, range(x.rank)), ()) for kind in ("min", "max")]

        def steps(s: BodyBuilder, low: int, high: int) -> tuple[int, int]:
            low, high = s("min", low, s.const(0.0, DType.F32)), s("max", high, s.const(0.0, DType.F32))
            step = s("div", s("sub", high, low), s.const(2 * FEATURE_LIMIT, DType.F32))
            step = s("select", s("eq", step, s.const(0.0, DType.F32)), s.const(1.0, DType.F32), step)
            zero = s("round", s("sub", s("neg", s("div", low, step)), s.const(FEATURE_LIMIT, DType.F32)))
            return step, zero

        def body(s: BodyBuilder, v: int, low: int, high: int) -> int:
            step, zero = steps(s, _cut(s, low), _cut(s, high))
            code = _bounded(s, s("round", s("add", s("div", v, step), zero)), FEATURE_LIMIT)
            return _straight_through(s, v, s("mul", s("sub", code, zero), step))

        def end(of: str, s: BodyBuilder, low: int, high: int, was_low: int, was_high: int) -> int:
            step, zero = steps(s, low, high)
            nothing, most = s.const(0.0, DType.F32), s.const(FEATURE_LIMIT, DType.F32)
            code, was = (s("neg", most), was_low) if of == "min" else (most, was_high)
            new = s(of, s("mul", s("sub", code, zero), step), nothing)
            if method == "MAXIMUM":
                mixed = s(of, was, new)
            else:
                mixed = s("add", s("mul", was, s.const(keep, DType.F32)), s("mul", new, s.const(1 - keep, DType.F32)))
            first = s("and", s("eq", was_low, nothing), s("eq", was_high, nothing))
            return s("select", first, new, mixed)

        low, high = ends
        was = [b.cast(b.reshape(t, ()), DType.F32) for t in known]
        after = [b.map(functools.partial(end, of), low, high, *was) for of in ("min", "max")]
        return [b.map(body, x, low, high), *[b.reshape(a, t.shape) for a, t in zip(after, known, strict=True)]]


@infer.rule(FakeQuantizeFeatures)
def _infer_features(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(v.dtype, infer.sizes(v)) for v in (infer.operand(node, i) for i in range(3))]


__all__ = ["FEATURE_LIMIT", "METHODS", "SMALLEST_WEIGHT", "FakeQuantizeFeatures", "FakeQuantizeWeights"]
