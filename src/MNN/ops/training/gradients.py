"""What is done to gradients between differentiation and an optimiser's step: adding up and clipping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand


@register("AccumulateGradients")
class AccumulateGradients(Operator):
    """Operands: whether a step follows, whether these gradients count (bools), gradients, and as many sums so far.
    Results: sums with ``1 / every`` of the gradients, and what the next sums begin with: these, or zero after a
    step."""

    in_mnn = False
    attributes = {"every": 1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        given = [operand(b, inputs, i) for i in range(len(inputs))]
        count = (len(given) - 2) // 2
        if count < 1 or len(given) != 2 + 2 * count:
            raise ShapeError(f"{b.where}: {len(given)} operands are no two flags and as many gradients as sums")
        step, good = (b.reshape(t, ()) for t in given[:2])
        share = 1.0 / self.int_attr(node, "every")

        def added(s: BodyBuilder, ok: int, g: int, total: int) -> int:
            return s("select", ok, s("add", total, s("mul", g, s.const(share, s.dtype(g)))), total)

        def rest(s: BodyBuilder, now: int, ok: int, g: int, total: int) -> int:
            return s("select", now, s.const(0.0, s.dtype(g)), added(s, ok, g, total))

        pairs = list(zip(given[2 : 2 + count], given[2 + count :], strict=True))
        sums = [b.map(added, good, g, total) for g, total in pairs]
        return [*sums, *[b.map(rest, step, good, g, total) for g, total in pairs]]


@register("ClipGradients")
class ClipGradients(Operator):
    """Gradients, each element limited to ``maxValue``, then all of them scaled so that the root of the sum of all
    squares is at most ``maxNorm`` (0: no limit). The last result is that root before it was limited, as f32."""

    in_mnn = False
    attributes = {"maxNorm": 0.0, "maxValue": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        given = [operand(b, inputs, i) for i in range(len(inputs))]
        most, largest = self.float_attr(node, "maxValue"), self.float_attr(node, "maxNorm")
        if most < 0 or largest < 0:
            raise ShapeError(f"{b.where}: limits of gradients must not be negative, found {most} and {largest}")
        if most:
            given = [b.clamp(g, -most, most) for g in given]
        total = b.const(0.0, DType.F32)
        for g in given:
            square = b.reduce("sum", b.op("mul", g, g), range(g.rank), keepdims=False)
            total = b.op("add", total, b.cast(b.reshape(square, ()), DType.F32))
        norm = b.op("sqrt", total)
        if not largest:
            return [*given, norm]

        def factor(s: BodyBuilder, n: int) -> int:
            room = s("div", s.const(largest, DType.F32), s("add", n, s.const(1e-6, DType.F32)))
            return s("min", room, s.const(1.0, DType.F32))

        scale = b.map(factor, norm)
        return [*[b.op("mul", g, b.cast(scale, g.dtype)) for g in given], norm]


@register("AllFinite")
class AllFinite(Operator):
    """Whether no element of its operands is infinite, NaN or (of bools) false, as one bool; with ``either`` whether
    that is so of one of them at least."""

    in_mnn = False
    attributes = {"either": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        def bad(s: BodyBuilder, x: int) -> int:
            boolean = s.dtype(x) is DType.BOOL
            flag = s("not", x) if boolean else s("or", s("isnan", x), s("isinf", x))
            return s("select", flag, s.const(1, DType.I32), s.const(0, DType.I32))

        either = self.bool_attr(node, "either")
        total = b.const(int(either), DType.I32)
        for i in range(len(inputs)):
            x = operand(b, inputs, i)
            mark = b.reshape(b.reduce("max", b.map(bad, x), range(x.rank), keepdims=False), ())
            total = b.op("min" if either else "max", total, mark)
        return [b.op("eq", total, b.const(0, DType.I32))]


@register("Parameter")
class Parameter(Operator):
    """Its operand, as a tensor of which gradients are taken: where it is a constant, nothing is computed from it
    beforehand."""

    keeps_shape = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return b.host("parameter", list, [x], (x.dtype, x.shape), pure=False)


def holding(value: Value, name: str) -> Node:
    """A node that gives a constant, under another name, as an operand that is not known beforehand."""
    return Node("Parameter", name, [value], [Value(name, value.dtype, value.shape)])


@register("StepDropout")
class StepDropout(Operator):
    """Dropout (Srivastava et al., 2014) that a step's number decides: operands ``x`` and that number (i64). The same
    seed and number give the same mask, so that training which is resumed goes on as it would have."""

    keeps_shape = True
    in_mnn = False
    attributes = {"seed": 0, "ratio": 0.5}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, time = operand(b, inputs, 0), operand(b, inputs, 1)
        ratio, seed = self.float_attr(node, "ratio"), self.int_attr(node, "seed")
        if not 0 <= ratio < 1:
            raise ShapeError(f"{b.where}: a dropout ratio of {ratio}, expected one in [0, 1)")
        if not ratio:
            return [x]

        def draw(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            key = [seed & 0xFFFFFFFF, int(arrays[0].reshape(-1)[0])]
            return [np.random.Generator(np.random.Philox(key=key)).random(x.shape, np.float32) >= ratio]

        label = f"dropout {seed} {ratio}"
        mask = b.host(label, draw, [time], (DType.BOOL, x.shape))[0]
        scale = 1.0 / (1.0 - ratio)

        def keep(s: BodyBuilder, a: int, m: int) -> int:
            return s("select", m, s("mul", a, s.const(scale, s.dtype(a))), s.const(0.0, s.dtype(a)))

        return [b.map(keep, x, mask)]
