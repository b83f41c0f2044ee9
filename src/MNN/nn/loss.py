"""Losses: a prediction and a target in, one number out. Those of PyMNN take both as ``[N, C]``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.math import not_equal, select
from MNN.expr.shaping import convert, one_hot
from MNN.expr.types import NC4HW4, NCHW
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.nn.ctc import ctc
from MNN.nn.settings import count, portion, shown


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


def _log_of(x: Var, share: Var) -> Var:
    """``log(x)``, and 0 where what it is multiplied by is 0: ``0 log 0`` is 0 then, and so is its gradient."""
    one = build.number(1.0, DType.F32)
    return _log(select(not_equal(share, build.number(0.0, DType.F32)), x, one))


def cross_entropy(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``-mean(sum(log(predicts) * targets))``: probabilities (of a softmax) and one-hot targets. Where a target is 0, a
    probability counts nothing, be it 0 too."""
    p, t = _two(predicts, one_hot_targets)
    return build.apply("UnaryOp", _mean_of_sums(build.binary("MUL", _log_of(p, t), t)), opType="NEG")


def kl(predicts: ArrayLike, one_hot_targets: ArrayLike) -> Var:
    """``mean(sum(predicts * (log(predicts) - log(targets))))``; a probability of 0 counts nothing."""
    p, t = _two(predicts, one_hot_targets)
    return _mean_of_sums(build.binary("MUL", p, build.binary("SUB", _log_of(p, p), _log_of(t, p))))


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


def softmax_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ignore: int | None = None,
    smoothing: float = 0.0,
) -> Var:
    """The mean cross entropy of ``logits [..., C]``, which are no probabilities yet, and labels ``[...]``, whole
    numbers. (It is computed from the logits, so that no probability can be rounded to zero.)

    ``weights [C]``: how much samples of each class count; the mean is weighted. ``ignore``: a label whose samples do
    not count; where all have it, the loss is NaN. ``smoothing``: the share of what is wanted that is spread over all
    classes (Szegedy et al., 2016). As torch's ``cross_entropy`` has all three.
    """
    x, y = build.floats(logits), build.to_var(labels)
    x = convert(x, NCHW) if x.data_format is NC4HW4 else x
    if list(x.shape[:-1]) != list(y.shape) or y._kind.is_float:
        raise ShapeError(
            f"logits [..., C] take labels [...] of whole numbers, found {x.shape} and {y.shape} of {y._kind.value}"
        )
    classes = int(x.shape[-1])
    share = portion("smoothing", smoothing)
    ignore = None if ignore is None else count("ignore", ignore)
    if ignore is not None and not -(1 << 31) <= ignore < 1 << 31:
        raise MNNError(f"ignore is a label, a whole number of 32 bits, found {shown(ignore)}")
    if y._expr.op == "Const":
        array = y._array()
        check_labels(array if ignore is None else array[array != ignore], classes)
    flat = build.apply("Reshape", x, build.ints([-1, classes]))
    rows = build.apply("Reshape", build.cast(y, DType.I32), build.ints([-1]))
    if weights is None and ignore is None and not share:
        return soft_cross_entropy(flat, one_hot(rows, classes))
    counts = build.to_var(np.ones(1, np.float32))
    if ignore is not None:
        counted = not_equal(rows, build.ints(ignore))
        rows = select(counted, rows, build.ints(0))
        counts = build.apply("Reshape", build.cast(counted, DType.F32), build.ints([-1, 1]))
    per_class = build.floats(np.ones(classes, np.float32) if weights is None else weights)
    if list(per_class.shape) != [classes]:
        raise ShapeError(f"weights of {classes} classes have the shape [{classes}], found {per_class.shape}")
    true = build.binary("MUL", one_hot(rows, classes), build.binary("MUL", counts, per_class))
    wanted = true
    if share:
        spread = build.binary("MUL", counts, build.binary("MUL", per_class, share / classes))
        wanted = build.binary("ADD", build.binary("MUL", true, 1 - share), spread)
    sums = build.binary("MUL", build.apply("LogSoftmax", flat, axis=1), wanted)
    total, weight = (build.apply("Reduction", v, build.ints([0, 1]), operation="SUM") for v in (sums, true))
    return build.apply("UnaryOp", build.binary("REALDIV", total, weight), opType="NEG")


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


__all__ = ["cross_entropy", "ctc", "hinge", "kl", "mae", "mse", "soft_cross_entropy", "softmax_cross_entropy"]
