"""Connectionist temporal classification: the loss of sequences whose places in time are not known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, math, reducing, shaping
from MNN.expr.types import NC4HW4, NCHW
from MNN.expr.var import Var

_NEVER = -2e30
"""The logarithm of what cannot be; infinities would make NaN of their differences."""
_INFINITE = 1e29


def ctc(
    log_probs: ArrayLike,
    targets: ArrayLike,
    input_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Var:
    """How improbable ``targets [N, S]`` are (whole numbers; of each row the first ``target_lengths [N]`` count), summed
    over all ways to spread them, with ``blank`` between, over the first ``input_lengths [N]`` steps of ``log_probs
    [T, N, C]``, logarithms of probabilities. A sample's loss is divided by its number of labels; given is the mean.

    That of a row which its steps are too few for is infinite, or with ``zero_infinity`` 0. As torch's ``ctc_loss`` has
    it (Graves, Fernandez, Gomez and Schmidhuber, 2006). Each step is a part of the program: it plans longer for more.

    Raises :class:`ShapeError` or :class:`MNNError` for shapes, a blank, labels or lengths that do not fit.
    """
    x = build.floats(log_probs)
    x = shaping.convert(x, NCHW) if x.data_format is NC4HW4 else x
    y, steps, counts = (build.to_var(v) for v in (targets, input_lengths, target_lengths))
    if (
        x.ndim != 3
        or y.ndim != 2
        or y.shape[0] != x.shape[1]
        or [list(v.shape) for v in (steps, counts)] != [[x.shape[1]]] * 2
    ):
        raise ShapeError(
            "ctc takes log_probs [T, N, C], targets [N, S] and both lengths [N], found "
            f"{x.shape}, {y.shape}, {steps.shape} and {counts.shape}"
        )
    if any(v._kind.is_float for v in (y, steps, counts)):
        raise MNNError("ctc takes labels and lengths as whole numbers, found floats")
    (length, batch, classes), most = map(int, x.shape), int(y.shape[1])
    if not 0 <= blank < classes:
        raise MNNError(f"the blank of ctc is one of the {classes} classes, found {blank}")
    _check(y, steps, counts, (length, most, classes))
    labels = _with_blanks(shaping.cast(y, np.int32), batch, most, blank)
    places = shaping.broadcast_to(np.arange(batch, dtype=np.int32)[:, None], [batch, 2 * most + 1])
    picked = shaping.gather_nd(shaping.transpose(x, [1, 2, 0]), shaping.stack([places, labels], -1))
    rows = shaping.transpose(picked, [2, 0, 1])  # [T, N, 2 * S + 1]
    return _mean(_ends(rows, labels, steps, counts, blank), counts, zero_infinity)


def _check(y: Var, steps: Var, counts: Var, limits: tuple[int, int, int]) -> None:
    """Raises :class:`MNNError` for numbers that are known and do not fit."""
    length, most, classes = limits
    named = ("input_lengths", steps, length), ("target_lengths", counts, most), ("targets", y, classes - 1)
    for name, var, limit in named:
        array = var._array() if var._expr.op == "Const" else np.zeros(0, np.int32)
        if array.size and not 0 <= array.min() <= array.max() <= limit:
            wrong = array.min() if array.min() < 0 else array.max()
            raise MNNError(f"{name} of ctc lie between 0 and {limit}, found {wrong}")


def _with_blanks(y: Var, batch: int, most: int, blank: int) -> Var:
    """Labels with blanks before, between and behind them: ``[N, 2 * S + 1]``."""
    between = build.to_var(np.full((batch, most), blank, np.int32))
    pairs = shaping.reshape(shaping.stack([between, y], 2), [batch, 2 * most])
    return shaping.concat([pairs, build.to_var(np.full((batch, 1), blank, np.int32))], 1)


def _ends(rows: Var, labels: Var, steps: Var, counts: Var, blank: int) -> Var:
    """The logarithm of the probability of every sample's labels: the forward variables of the paper, step by step."""
    length, batch, width = map(int, rows.shape)
    never = [build.to_var(np.full((batch, min(n, width)), _NEVER, np.float32)) for n in (1, 2)]
    # two labels follow each other without a blank between where they differ
    earlier = shaping.slice(labels, [0, 0], [batch, max(width - 2, 0)])
    differs = math.not_equal(shaping.slice(labels, [0, min(2, width)], [batch, -1]), earlier)
    blanks = build.to_var(np.zeros((batch, min(2, width)), np.int32))
    skips = shaping.concat([blanks, shaping.cast(differs, np.int32)], 1)
    begins = build.to_var(np.where(np.arange(width) < 2, 0, _NEVER).astype(np.float32)[None])
    ends = shaping.reshape(steps, [batch, 1])
    alpha = begins + shaping.reshape(shaping.slice(rows, [0, 0, 0], [1, batch, width]), [batch, width])
    for t in range(1, length):
        one = shaping.concat([never[0], shaping.slice(alpha, [0, 0], [batch, width - 1])], 1) if width > 1 else never[0]
        two = shaping.concat([never[1], shaping.slice(alpha, [0, 0], [batch, max(width - 2, 0)])], 1)
        total = _sum_of([alpha, one, math.select(skips, two, _NEVER)])
        moved = total + shaping.reshape(shaping.slice(rows, [t, 0, 0], [1, batch, width]), [batch, width])
        alpha = math.select(math.greater(ends, t), moved, alpha)
    last = shaping.reshape(counts, [batch, 1]) * 2
    index = build.to_var(np.arange(width, dtype=np.int32)[None])
    at_end = math.logical_or(math.equal(index, last), math.equal(index, last - 1))
    found = math.select(at_end, alpha, _NEVER)
    largest = reducing.reduce_max(found, [1], True)
    return shaping.reshape(math.log(reducing.reduce_sum(math.exp(found - largest), [1], True)) + largest, [batch])


def _sum_of(logs: list[Var]) -> Var:
    """The logarithm of the sum of numbers that are given by their logarithms."""
    first, *others = logs
    largest = first
    for v in others:
        largest = math.maximum(largest, v)
    total = math.exp(first - largest)
    for v in others:
        total = total + math.exp(v - largest)
    return math.log(total) + largest


def _mean(logs: Var, counts: Var, zero_infinity: bool) -> Var:
    """The mean of losses for each label."""
    impossible = math.less(logs, -_INFINITE)
    losses = math.select(impossible, 0.0 if zero_infinity else np.float32(np.inf), math.negative(logs))
    return reducing.reduce_mean(losses / shaping.cast(math.maximum(counts, 1), np.float32), [0])


__all__ = ["ctc"]
