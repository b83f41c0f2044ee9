"""One step of an optimiser, as ONNX defines it: new parameters from old ones, their gradients and the state."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand


class Step(Operator):
    """Operands: the rate (a scalar), the step's number (a scalar of i64), then as many parameters, gradients and states
    of each kind. Results: the new parameters, then the new states of each kind."""

    in_mnn = False
    states = 1

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kinds = 2 + self.states
        given = [operand(b, inputs, i) for i in range(len(inputs))]
        count = (len(given) - 2) // kinds
        if count < 1 or len(given) != 2 + kinds * count:
            raise ShapeError(f"{b.where}: {len(given)} operands are no rate, number and {kinds} of each parameter")
        rate, time = (b.reshape(t, ()) for t in given[:2])
        groups = [given[2 + k * count : 2 + (k + 1) * count] for k in range(kinds)]
        made = [self.one(b, node, rate, time, *parts) for parts in zip(*groups, strict=True)]
        return [new for line in zip(*made, strict=True) for new in line]

    def one(
        self, b: Builder, node: Node, rate: Tensor, time: Tensor, x: Tensor, g: Tensor, *states: Tensor
    ) -> tuple[Tensor, ...]:
        """The new parameter and its new states."""
        raise NotImplementedError

    def number(self, b: Builder, node: Node, key: str, like: Tensor) -> Tensor:
        return b.like(self.float_attr(node, key), like)

    def gradient(self, b: Builder, node: Node, x: Tensor, g: Tensor) -> Tensor:
        """With what the norm of the parameters adds to it."""
        return b.op("add", b.op("mul", self.number(b, node, "normCoefficient", x), x), g)


@register("Adagrad")
class Adagrad(Step):
    """Duchi, Hazan and Singer, Adaptive Subgradient Methods (2011). State: the sum of squares."""

    attributes = {"decayFactor": 0.0, "epsilon": 0.0, "normCoefficient": 0.0}

    def one(
        self, b: Builder, node: Node, rate: Tensor, time: Tensor, x: Tensor, g: Tensor, *states: Tensor
    ) -> tuple[Tensor, ...]:
        g, decay = self.gradient(b, node, x, g), self.number(b, node, "decayFactor", x)
        slower = b.op("add", b.like(1.0, x), b.op("mul", b.cast(time, x.dtype), decay))
        squares = b.op("add", states[0], b.op("mul", g, g))
        size = b.op("add", b.op("sqrt", squares), self.number(b, node, "epsilon", x))
        step = b.op("mul", b.op("div", b.cast(rate, x.dtype), slower), g)
        return b.op("sub", x, b.op("div", step, size)), squares


@register("Adam")
class Adam(Step):
    """Kingma and Ba (2014), arXiv:1412.6980. States: the running means of the gradient and of its square."""

    states = 2
    attributes = {
        "alpha": 0.9, "beta": 0.999, "epsilon": 0.0, "normCoefficient": 0.0, "normCoefficientPost": 0.0,
    }  # fmt: skip

    def one(
        self, b: Builder, node: Node, rate: Tensor, time: Tensor, x: Tensor, g: Tensor, *states: Tensor
    ) -> tuple[Tensor, ...]:
        alpha, beta, dtype = self.float_attr(node, "alpha"), self.float_attr(node, "beta"), x.dtype
        g = self.gradient(b, node, x, g)

        def mean(old: Tensor, new: Tensor, keep: float) -> Tensor:
            return b.op("add", b.op("mul", b.like(keep, x), old), b.op("mul", b.like(1 - keep, x), new))

        first, second = mean(states[0], g, alpha), mean(states[1], b.op("mul", g, g), beta)

        def adjusted(m: BodyBuilder, r: int, t: int) -> int:
            r, t64 = m.cast(r, DType.F64), m.cast(t, DType.F64)
            one = m.const(1.0, DType.F64)
            low = m("sub", one, m("pow", m.const(alpha, DType.F64), t64))
            high = m("sub", one, m("pow", m.const(beta, DType.F64), t64))
            started = m("gt", t64, m.const(0.0, DType.F64))
            return m.cast(m("select", started, m("div", m("mul", r, m("sqrt", high)), low), r), dtype)

        size = b.op("add", b.op("sqrt", second), self.number(b, node, "epsilon", x))
        moved = b.op("sub", x, b.op("div", b.op("mul", b.map(adjusted, rate, time), first), size))
        kept = b.like(1 - self.float_attr(node, "normCoefficientPost"), x)
        return b.op("mul", kept, moved), first, second


@register("Momentum")
class Momentum(Step):
    """Gradient descent with momentum; ``mode`` ``nesterov`` looks ahead (Sutskever et al., 2013)."""

    attributes = {"alpha": 0.0, "beta": 0.0, "normCoefficient": 0.0, "mode": "standard"}

    def one(
        self, b: Builder, node: Node, rate: Tensor, time: Tensor, x: Tensor, g: Tensor, *states: Tensor
    ) -> tuple[Tensor, ...]:
        g, alpha = self.gradient(b, node, x, g), self.number(b, node, "alpha", x)
        beta, dtype, counts = self.float_attr(node, "beta"), x.dtype, time.dtype

        def share(m: BodyBuilder, t: int) -> int:
            later = m("gt", t, m.const(0, counts))
            return m("select", later, m.const(beta, dtype), m.const(1.0, dtype))

        moving = b.op("add", b.op("mul", alpha, states[0]), b.op("mul", b.map(share, time), g))
        nesterov = self.str_attr(node, "mode") == "nesterov"
        step = b.op("add", g, b.op("mul", alpha, moving)) if nesterov else moving
        return b.op("sub", x, b.op("mul", b.cast(rate, x.dtype), step)), moving
