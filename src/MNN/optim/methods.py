"""Optimisers: gradient descent, Adam and AdamW, RMSprop, Lion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from MNN.expr.var import Var
from MNN.nn.module import Module
from MNN.nn.settings import Setting, flag, not_negative, share
from MNN.optim.groups import Group
from MNN.optim.optimizer import Optimizer
from MNN.optim.regularization import Regularization_Method
from MNN.optim.step_graph import Method
from MNN.optim.update_graph import Rule, adam, descent

if TYPE_CHECKING:
    from typing_extensions import Unpack

L2 = Regularization_Method.L2


class Options(TypedDict, total=False):
    """Keywords that all optimisers take, see :class:`~MNN.optim.optimizer.Optimizer`."""

    accumulate: int
    clip_norm: float
    clip_value: float
    precision: str
    threads: int | None
    debug: bool
    activation_memory: int | None
    loss_scale: float | str | None
    groups: Sequence[Group]
    average: float


class SGD(Optimizer):
    """Gradient descent with momentum: ``h = momentum * h + rate * g; x -= h``, as MNN has it."""

    momentum, nesterov = Setting(share), Setting(flag)

    def __init__(
        self,
        module: Module,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        regularization_method: Regularization_Method | str = L2,
        nesterov: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(module, learning_rate, weight_decay, regularization_method, **options)
        self.momentum, self.nesterov = momentum, nesterov

    def method(self) -> Method:
        pull = (("weightDecay", self.weight_decay), ("regularization", self.regularization_method.name))
        return Method("SgdStep", (("momentum", self.momentum), ("nesterov", self.nesterov), *pull), ("momentum",))

    def update_rule(self) -> tuple[list[tuple[Var, Var]], Rule]:
        if self.nesterov:
            return super().update_rule()
        return [], descent(self.momentum, self.weight_decay, self.regularization_method)


class ADAM(Optimizer):
    """Adam (Kingma and Ba, 2014), with ``eps`` beside the root that is not corrected yet, as MNN has it. ``amsgrad``:
    what steps are divided by never shrinks (Reddi, Kale and Kumar, 2018)."""

    decoupled = False
    corrected = False
    momentum, momentum2, eps, amsgrad = Setting(share), Setting(share), Setting(not_negative), Setting(flag)

    def __init__(
        self,
        module: Module,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        regularization_method: Regularization_Method | str = L2,
        *,
        amsgrad: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(module, learning_rate, weight_decay, regularization_method, **options)
        self.momentum, self.momentum2 = momentum, momentum2
        self.eps, self.amsgrad = eps, amsgrad

    def method(self) -> Method:
        attributes = (
            ("momentum", self.momentum),
            ("momentum2", self.momentum2),
            ("epsilon", self.eps),
            ("correctEpsilon", self.corrected),
            ("weightDecay", self.weight_decay),
            ("regularization", "decoupled" if self.decoupled else self.regularization_method.name),
            ("amsgrad", self.amsgrad),
        )
        return Method("AdamStep", attributes, ("momentum", "momentum2", *["largest"] * self.amsgrad))

    def update_rule(self) -> tuple[list[tuple[Var, Var]], Rule]:
        if self.decoupled or self.corrected or self.amsgrad:
            return super().update_rule()
        step, rule = adam(self.momentum, self.momentum2, self.eps, self.weight_decay, self.regularization_method)
        return [step], rule


class AdamW(ADAM):
    """Adam whose weight decay is not part of the gradient (Loshchilov and Hutter, 2019), ``eps`` as torch has it."""

    decoupled = True
    corrected = True

    def __init__(
        self,
        module: Module,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        weight_decay: float = 1e-2,
        eps: float = 1e-8,
        *,
        amsgrad: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(module, learning_rate, momentum, momentum2, weight_decay, eps, amsgrad=amsgrad, **options)


class RMSprop(Optimizer):
    """RMSprop (Tieleman and Hinton, 2012), as torch has it."""

    decay, momentum, eps = Setting(share), Setting(share), Setting(not_negative)

    def __init__(
        self,
        module: Module,
        learning_rate: float = 1e-2,
        decay: float = 0.99,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(module, learning_rate, weight_decay, **options)
        self.decay, self.momentum, self.eps = decay, momentum, eps

    def method(self) -> Method:
        pull = (("weightDecay", self.weight_decay), ("regularization", self.regularization_method.name))
        attributes = (("decay", self.decay), ("momentum", self.momentum), ("epsilon", self.eps), *pull)
        return Method("RmspropStep", attributes, ("squares", "momentum"))


class Lion(Optimizer):
    """Lion (Chen et al., 2023), with decoupled weight decay."""

    momentum, momentum2 = Setting(share), Setting(share)

    def __init__(
        self,
        module: Module,
        learning_rate: float = 1e-4,
        momentum: float = 0.9,
        momentum2: float = 0.99,
        weight_decay: float = 0.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(module, learning_rate, weight_decay, **options)
        self.momentum, self.momentum2 = momentum, momentum2

    def method(self) -> Method:
        pull = (("weightDecay", self.weight_decay), ("regularization", "decoupled"))
        return Method("LionStep", (("momentum", self.momentum), ("momentum2", self.momentum2), *pull), ("momentum",))


def Grad() -> Optimizer:  # noqa: N802 - PyMNN's name
    """An optimizer without a module: for :meth:`~MNN.optim.optimizer.Optimizer.grad`, and for the update graph of
    :class:`SGD` as it is by default."""
    found = SGD(Module())
    found.module = None
    return found


__all__ = ["ADAM", "SGD", "AdamW", "Grad", "Lion", "RMSprop"]
