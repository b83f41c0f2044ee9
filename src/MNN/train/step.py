"""Steps of a model on batches: its expression is made once for every shape of a batch, then numbers are fed to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.node import Expr
from MNN.expr.var import Var
from MNN.ir.graph import Value
from MNN.nn import loss as losses
from MNN.nn.module import Module
from MNN.nn.steps import STEP
from MNN.optim.capture import Captured, Key, capture
from MNN.optim.optimizer import Optimizer
from MNN.optim.program import Recent
from MNN.runtime.executor import Executor

Kind = tuple[tuple[str, tuple[int, ...]], ...]


class Steps:
    """What ``fit`` and ``evaluate`` do with a batch. Without a loss: cross entropy or the squared error."""

    def __init__(self, model: Module, optimizer: Optimizer | None, loss: Callable[[Var, Var], Var] | None) -> None:
        self._model, self._optimizer, self._loss = model, optimizer, loss or default_loss
        self._known: Recent[Kind, tuple[Captured, list[Expr]]] = Recent()
        self._looks: Recent[Key, tuple[Executor, list[Value], list[Value]]] = Recent()

    def begin(self) -> None:
        """Before a pass over data: what expressions hold of the model's numbers, such as a convolution's weights as
        integers, is made of those that it has now."""
        self._known.clear()

    def step(self, inputs: Sequence[Var], targets: Sequence[Var]) -> tuple[float, np.ndarray]:
        """The loss before the step, and what the model gave."""
        assert self._optimizer is not None
        captured, arrays = self._captured(inputs, targets)
        found = self._optimizer.step_on(captured, arrays)
        return float(found[0].reshape(-1)[0]), found[1]

    def look(self, inputs: Sequence[Var], targets: Sequence[Var]) -> tuple[float, np.ndarray]:
        """The loss, and what the model gives; nothing changes."""
        captured, arrays = self._captured(inputs, targets)
        known = self._looks.recall(captured.key)
        if known is None:
            graph, values = captured.graph()
            ordered = [values[id(leaf)] for leaf in captured.leaves]
            made = Executor(graph, SETTINGS.config()), ordered, graph.outputs
            known = self._looks.keep(captured.key, made)
        executor, ordered, outputs = known
        feeds = {v: arrays.get(id(leaf), leaf.array) for v, leaf in zip(ordered, captured.leaves, strict=True)}
        loss, predicted = executor.run(feeds, outputs)
        return float(np.asarray(loss).reshape(-1)[0]), np.asarray(predicted)

    def expression(self, inputs: Sequence[Var], targets: Sequence[Var]) -> tuple[Captured, list[Expr]]:
        """What gives the loss and the model's answer for such a batch, and the leaves that stand for the batch."""
        batch = (*inputs, *targets)
        kind = _kind(batch)
        known = self._known.recall(kind)
        if known is None:
            leaves = [Expr.leaf("Input", v._kind, tuple(v.shape), v._array()) for v in batch]
            given = [Var(e, 0, v.data_format) for e, v in zip(leaves, batch, strict=True)]
            taken, wanted = given[: len(inputs)], given[len(inputs) :]
            predicted = self._model.forward(taken[0] if len(taken) == 1 else taken)
            if not isinstance(predicted, Var):
                raise MNNError(
                    "a model that is trained gives one Var; write the loop with an optimizer's step() otherwise"
                )
            if len(wanted) != 1:
                raise MNNError(f"a loss takes one target, the data have {len(wanted)}")
            loss = self._loss(predicted, wanted[0])
            if not isinstance(loss, Var) or loss.size != 1:
                found = loss.shape if isinstance(loss, Var) else type(loss).__name__
                raise MNNError(f"the loss must be one number, found {found}; reduce it with a mean or a sum")
            known = self._known.keep(kind, (capture([loss, predicted]), leaves))
        return known

    def _captured(self, inputs: Sequence[Var], targets: Sequence[Var]) -> tuple[Captured, dict[int, np.ndarray]]:
        captured, leaves = self.expression(inputs, targets)
        batch = (*inputs, *targets)
        arrays = {id(e): v._array() for e, v in zip(leaves, batch, strict=True)}
        if self._loss is default_loss and not targets[0]._kind.is_float:
            losses.check_labels(arrays[id(leaves[-1])], int(captured.outputs[1].shape[-1]))
        for leaf in captured.leaves:
            if id(leaf) not in arrays and leaf is not STEP and leaf.array is not None:
                arrays.setdefault(id(leaf), leaf.array)
        return captured, arrays


def default_loss(predicted: Var, target: Var) -> Var:
    """Cross entropy of logits for whole numbers, the squared error for floats."""
    if not target._kind.is_float:
        return losses.softmax_cross_entropy(predicted, target)
    if list(predicted.shape) != list(target.shape):
        raise ShapeError(f"the model gives {predicted.shape}, and the targets are {target.shape}: they must be alike")
    difference = build.binary("SUB", predicted, target)
    square = build.binary("MUL", difference, difference)
    return build.apply("Reduction", square, build.ints(range(square.ndim)), operation="MEAN")


def _kind(batch: Sequence[Var]) -> Kind:
    return tuple((v._kind.value, tuple(v.shape)) for v in batch)


__all__ = ["Steps", "default_loss"]
