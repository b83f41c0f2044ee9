"""Losses: a prediction and a target in, one number out. Those of PyMNN take both as ``[N, C]``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.shaping import convert, one_hot
from MNN.expr.types import NC4HW4, NCHW
from MNN.expr.var import Var
from MNN.ir.dtype import DType


def _two(predicts: ArrayLike, targets: ArrayLike) -> tuple[Var, Var]:
    found = [build.floats(v) for v in (predicts, targets)]
    a, b = (convert(v, NCHW) if v.data_format is NC4HW4 else v for v in found)
    if a.ndim != 2 or a.shape != b.shape:
        raise ShapeError(f"a loss takes a prediction and a target [N, C] of one shape, found {a.shape} and {b.shape}")
    return a, b


def _mean_of_sums(x: Var) -> Var:
    """Sums over rows, their mean."""
    rows = build.apply("Reduction", x, build.ints([1]), operation="SUM")
    return build.apply("Reduction", rows, build.ints([0]), operation="MEAN")


def _log(x: Var) -> Var:
    return build.apply("UnaryOp", x, opType="LOG")


def cross_entropy(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``-mean(sum(log(predicts) * targets))``: probabilities (of a softmax) and one-hot targets."""
    p, t = _two(predicts, one_hot_targets)
    return build.apply("UnaryOp", _mean_of_sums(build.binary("MUL", _log(p), t)), opType="NEG")


def kl(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``mean(sum(predicts * (log(predicts) - log(targets))))``."""
    p, t = _two(predicts, one_hot_targets)
    return _mean_of_sums(build.binary("MUL", p, build.binary("SUB", _log(p), _log(t))))


def mse(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``mean(sum((predicts - targets) ** 2))``."""
    difference = build.binary("SUB", *_two(predicts, one_hot_targets))
    return _mean_of_sums(build.binary("MUL", difference, difference))


def mae(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``mean(sum(abs(predicts - targets)))``."""
    return _mean_of_sums(build.apply("UnaryOp", build.binary("SUB", *_two(predicts, one_hot_targets)), opType="ABS"))


def hinge(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``mean(sum(max(0, 1 - predicts * targets)))``."""
    p, t = _two(predicts, one_hot_targets)
    margin = build.binary("SUB", 1.0, build.binary("MUL", p, t))
    return _mean_of_sums(build.binary("MAXIMUM", 0.0, margin))


def softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Var:
    """The mean cross entropy of ``logits [..., C]``, which are no probabilities yet, and labels ``[...]``, whole
    numbers. (It is computed from the logits, so that no probability can be rounded to zero.)"""
    x, y = build.floats(logits), build.to_var(labels)
    x = convert(x, NCHW) if x.data_format is NC4HW4 else x
    if list(x.shape[:-1]) != list(y.shape) or y._kind.is_float:
        raise ShapeError(
            f"logits [..., C] take labels [...] of whole numbers, found {x.shape} and {y.shape} of {y._kind.value}"
        )
    if y._expr.op == "Const":
        check_labels(y._array(), int(x.shape[-1]))
    flat = build.apply("Reshape", x, build.ints([-1, x.shape[-1]]))
    wanted = one_hot(build.apply("Reshape", build.cast(y, DType.I32), build.ints([-1])), x.shape[-1])
    return soft_cross_entropy(flat, wanted)


def check_labels(labels: np.ndarray, classes: int) -> None:
    """Raises :class:`MNNError` for labels that are none of so many classes: their losses would be of other ones."""
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise MNNError(f"the label {wrong} is none of the {classes} classes that are told apart, 0 to {classes - 1}")


def soft_cross_entropy(logits: ArrayLike, probabilities: ArrayLike) -> Var:
    """``-mean(sum(log_softmax(logits) * probabilities))``: scores ``[N, C]`` and how probable each class shall be."""
    x, wanted = _two(logits, probabilities)
    logs = build.apply("LogSoftmax", x, axis=1)
    return build.apply("UnaryOp", _mean_of_sums(build.binary("MUL", logs, wanted)), opType="NEG")


__all__ = ["cross_entropy", "hinge", "kl", "mae", "mse", "soft_cross_entropy", "softmax_cross_entropy"]
