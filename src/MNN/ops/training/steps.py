"""Steps of optimisers on whole models: all parameters at once, each by one elementwise map, in place where they are
states.

Operands of a step: the rate (a number), which step it is (i64, from 1 on), whether it counts (bool: what does not is
left as it was), then parameters, as many gradients, and as many of each state. Results: new parameters, then new
states.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand

DECAYS = ("L1", "L2", "L1L2", "decoupled")
COMMON = {"rateFactor": 1.0, "average": 0.0}
"""Attributes of all of them."""


class TrainingStep(Operator):
    """``weightDecay`` pulls parameters to zero: ``L2`` adds it times the parameter to the gradient, ``L1`` times its
    sign, ``L1L2`` both; ``decoupled`` takes it, times the rate, off the parameter itself (Loshchilov and Hutter,
    2019). ``rateFactor``: what the rate is multiplied by. ``average``: with a number above 0 the last state is the
    running mean of new parameters, of which that share is kept in a step."""

    in_mnn = False

    def states(self, node: Node) -> int:
        """How many numbers a parameter's element has besides it and its running mean."""
        del node
        return 1

    def scalars(self, b: Builder, node: Node, rate: Tensor, time: Tensor) -> list[Tensor]:
        """Numbers that are the same for all elements, beginning with the rate."""
        del b, node, time
        return [rate]

    def one(
        self, s: BodyBuilder, node: Node, scalars: Sequence[int], x: int, g: int, states: Sequence[int]
    ) -> list[int]:
        """The new element and its new states."""
        raise NotImplementedError

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        given = [operand(b, inputs, i) for i in range(len(inputs))]
        kinds = 2 + self.states(node) + self._averages(node)
        count = (len(given) - 3) // kinds
        if count < 1 or len(given) != 3 + kinds * count:
            raise ShapeError(
                f"{b.where}: {len(given)} operands are no rate, number, flag and {kinds} of each parameter"
            )
        rate, time, good = (b.reshape(t, ()) for t in given[:3])
        if (factor := self.float_attr(node, "rateFactor")) != 1:
            rate = b.op("mul", rate, b.like(factor, rate))
        groups = [given[3 + k * count : 3 + (k + 1) * count] for k in range(kinds)]
        made = []
        for parts in zip(*groups, strict=True):
            numbers = [b.cast(t, parts[0].dtype) for t in self.scalars(b, node, rate, time)]
            body = self._body(node, len(numbers), parts[0].dtype)
            prim = p.Map([*numbers, good, *parts], body=body)
            made.append(b.emit(prim, *[(t.dtype, t.shape) for t in (parts[0], *parts[2:])]))
        return [new for line in zip(*made, strict=True) for new in line]

    def _body(self, node: Node, count: int, dtype: DType) -> Body:
        s = BodyBuilder()
        scalars = [s.arg(dtype) for _ in range(count)]
        good = s.arg(DType.BOOL)
        averages = self._averages(node)
        x, g, *states = [s.arg(dtype) for _ in range(2 + self.states(node) + averages)]
        moved = self.one(s, node, scalars, x, self._decayed(s, node, x, g), states)
        moved[0] = self._shrunk(s, node, scalars[0], x, moved[0])
        if averages:
            moved.append(self.mean(s, states[-1], moved[0], self.float_attr(node, "average")))
        return s.build(*[s("select", good, new, old) for new, old in zip(moved, (x, *states), strict=True)])

    def _averages(self, node: Node) -> bool:
        return self.float_attr(node, "average") > 0

    def _decayed(self, s: BodyBuilder, node: Node, x: int, g: int) -> int:
        decay, kind = self.float_attr(node, "weightDecay"), self.str_attr(node, "regularization")
        if not decay or kind == "decoupled":
            return g
        pull = {"L1": s("sign", x), "L2": x}.get(kind)
        if pull is None:
            pull = s("add", s("sign", x), x)
        return s("add", g, s("mul", s.const(decay, s.dtype(x)), pull))

    def _shrunk(self, s: BodyBuilder, node: Node, rate: int, x: int, moved: int) -> int:
        decay = self.float_attr(node, "weightDecay")
        if not decay or self.str_attr(node, "regularization") != "decoupled":
            return moved
        return s("sub", moved, s("mul", s("mul", rate, s.const(decay, s.dtype(x))), x))

    def number(self, s: BodyBuilder, node: Node, key: str, like: int) -> int:
        """An attribute as a constant."""
        return s.const(self.float_attr(node, key), s.dtype(like))

    def mean(self, s: BodyBuilder, old: int, new: int, keep: float) -> int:
        """The running mean that keeps this share of what it was."""
        kind = s.dtype(old)
        return s("add", s("mul", s.const(keep, kind), old), s("mul", s.const(1 - keep, kind), new))


@register("SgdStep")
class SgdStep(TrainingStep):
    """Gradient descent with momentum. State: the last step, which has the rate in it (as MNN has it)."""

    attributes = {"momentum": 0.9, "weightDecay": 0.0, "regularization": "L2", "nesterov": False, **COMMON}

    def one(
        self, s: BodyBuilder, node: Node, scalars: Sequence[int], x: int, g: int, states: Sequence[int]
    ) -> list[int]:
        step = s("mul", scalars[0], g)
        momentum = self.number(s, node, "momentum", x)
        moving = s("add", s("mul", momentum, states[0]), step)
        ahead = s("add", step, s("mul", momentum, moving)) if self.bool_attr(node, "nesterov") else moving
        return [s("sub", x, ahead), moving]


@register("AdamStep")
class AdamStep(TrainingStep):
    """Kingma and Ba (2014). States: running means of the gradient and its square. ``epsilon`` is added to the root
    before its bias is corrected (as MNN has it), or, with ``correctEpsilon``, behind (as torch has it). ``amsgrad``:
    what is divided by never shrinks (Reddi, Kale and Kumar, 2018); the largest mean of squares is a third state."""

    attributes = {
        "momentum": 0.9, "momentum2": 0.999, "epsilon": 1e-8, "correctEpsilon": False, "weightDecay": 0.0,
        "regularization": "L2", "amsgrad": False, **COMMON,
    }  # fmt: skip

    def states(self, node: Node) -> int:
        return 3 if self.bool_attr(node, "amsgrad") else 2

    def scalars(self, b: Builder, node: Node, rate: Tensor, time: Tensor) -> list[Tensor]:
        first, second = self.float_attr(node, "momentum"), self.float_attr(node, "momentum2")
        epsilon = self.float_attr(node, "epsilon")
        correct = self.bool_attr(node, "correctEpsilon")

        def left(s: BodyBuilder, t: int, keep: float) -> int:
            """What of a running mean is not its beginning."""
            t64 = s.cast(t, DType.F64)
            return s("sub", s.const(1.0, DType.F64), s("pow", s.const(keep, DType.F64), t64))

        def adjusted(s: BodyBuilder, r: int, t: int) -> int:
            root = s("sqrt", left(s, t, second))
            return s.cast(s("div", s("mul", s.cast(r, DType.F64), root), left(s, t, first)), s.dtype(r))

        def floor(s: BodyBuilder, r: int, t: int) -> int:
            found = s.const(epsilon, DType.F64)
            return s.cast(s("mul", found, s("sqrt", left(s, t, second))) if correct else found, s.dtype(r))

        return [rate, b.map(adjusted, rate, time), b.map(floor, rate, time)]

    def one(
        self, s: BodyBuilder, node: Node, scalars: Sequence[int], x: int, g: int, states: Sequence[int]
    ) -> list[int]:
        _, rate, epsilon = scalars
        first = self.mean(s, states[0], g, self.float_attr(node, "momentum"))
        second = self.mean(s, states[1], s("mul", g, g), self.float_attr(node, "momentum2"))
        largest = [s("max", states[2], second)] if self.bool_attr(node, "amsgrad") else []
        size = s("add", s("sqrt", largest[0] if largest else second), epsilon)
        return [s("sub", x, s("div", s("mul", rate, first), size)), first, second, *largest]


@register("RmspropStep")
class RmspropStep(TrainingStep):
    """Tieleman and Hinton (2012). States: the running mean of squares, and the last step."""

    attributes = {
        "decay": 0.99, "momentum": 0.0, "epsilon": 1e-8, "weightDecay": 0.0, "regularization": "L2", **COMMON,
    }  # fmt: skip

    def states(self, node: Node) -> int:
        return 2

    def one(
        self, s: BodyBuilder, node: Node, scalars: Sequence[int], x: int, g: int, states: Sequence[int]
    ) -> list[int]:
        squares = self.mean(s, states[0], s("mul", g, g), self.float_attr(node, "decay"))
        step = s("div", g, s("add", s("sqrt", squares), self.number(s, node, "epsilon", x)))
        moving = s("add", s("mul", self.number(s, node, "momentum", x), states[1]), step)
        return [s("sub", x, s("mul", scalars[0], moving)), squares, moving]


@register("LionStep")
class LionStep(TrainingStep):
    """Chen et al. (2023), arXiv:2302.06675: the sign of a running mean. State: that mean."""

    attributes = {"momentum": 0.9, "momentum2": 0.99, "weightDecay": 0.0, "regularization": "decoupled", **COMMON}

    def one(
        self, s: BodyBuilder, node: Node, scalars: Sequence[int], x: int, g: int, states: Sequence[int]
    ) -> list[int]:
        way = s("sign", self.mean(s, states[0], g, self.float_attr(node, "momentum")))
        kept = self.mean(s, states[0], g, self.float_attr(node, "momentum2"))
        return [s("sub", x, s("mul", scalars[0], way)), kept]
