"""Learning from another network's scores besides the labels (Hinton, Vinyals and Dean, 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.expr import build
from MNN.expr.reducing import softmax
from MNN.expr.shaping import concat, convert, slice
from MNN.expr.types import NC4HW4, NCHW
from MNN.expr.var import Var
from MNN.nn.loss import soft_cross_entropy, softmax_cross_entropy
from MNN.nn.module import Module
from MNN.train.metrics import Metric, accuracy


class Distilled(Module):
    """A student that is trained, and a teacher that stays as it is: the scores of both, one behind the other."""

    def __init__(self, student: Module, teacher: Module) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher
        teacher.freeze()
        teacher.train(False)

    def train(self, flag: bool = True) -> None:
        """Switches training of the student on or off."""
        super().train(flag)
        self.teacher.train(False)

    def forward(self, x: Any) -> Var:
        """Pictures to ``[N, 2 * classes]``."""
        return concat([_plain(self.student(x)), _plain(self.teacher(x))], 1)


def loss_of(classes: int, temperature: float, share: float) -> Callable[[Var, Var], Var]:
    """``share`` of the cross entropy of the student's probabilities with the teacher's, both of scores divided by
    ``temperature``, times its square; and the rest of that with the labels."""

    def loss(both: Var, labels: Var) -> Var:
        student, teacher = (slice(both, [0, at], [-1, classes]) for at in (0, classes))
        wanted = softmax(build.binary("DIV", teacher, temperature), 1)
        soft = soft_cross_entropy(build.binary("DIV", student, temperature), wanted)
        hard = softmax_cross_entropy(student, labels)
        weights = share * temperature**2, 1 - share
        return build.binary("ADD", build.binary("MUL", soft, weights[0]), build.binary("MUL", hard, weights[1]))

    return loss


def accuracy_of(classes: int) -> Metric:
    """The student's accuracy."""

    def found(predictions: np.ndarray, targets: np.ndarray) -> float:
        return accuracy(predictions[:, :classes], targets)

    return found


def _plain(x: Var) -> Var:
    return convert(x, NCHW) if x.data_format is NC4HW4 else x


__all__ = ["Distilled", "accuracy_of", "loss_of"]
