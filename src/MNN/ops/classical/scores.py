"""What classical models do to scores: the post transforms of ONNX-ML, and the label of the best class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order of TreeEnsemble's numbers."""
_TINY = 1e-7
"""SOFTMAX_ZERO leaves out scores that are not farther than this from zero."""


def transform(b: Builder, x: Tensor, how: str) -> Tensor:
    """Scores ``[n, k]`` after one of :data:`TRANSFORMS`. Raises :class:`ShapeError` for another."""
    if how == "NONE":
        return x
    if how == "LOGISTIC":
        return logistic(b, x)
    if how == "PROBIT":
        return _probit(b, x)
    if how == "SOFTMAX":
        e = b.op("exp", b.op("sub", x, b.reduce("max", x, [-1])))
        return b.op("div", e, b.reduce("sum", e, [-1]))
    if how == "SOFTMAX_ZERO":
        return _softmax_zero(b, x)
    raise ShapeError(f"{b.where}: post transform '{how}' is not one of {', '.join(TRANSFORMS)}")


def logistic(b: Builder, x: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``, exact for small results too."""

    def body(m: BodyBuilder, a: int) -> int:
        one = m.const(1.0, x.dtype)
        e = m("exp", m("neg", m("abs", a)))  # never overflows
        large = m("div", one, m("add", one, e))
        return m("select", m("lt", a, m.const(0.0, x.dtype)), m("mul", e, large), large)

    return b.map(body, x)


def _probit(b: Builder, x: Tensor) -> Tensor:
    """The quantile of the normal distribution, by Winitzki's approximation of the inverse error function (2008) with
    the constants that ONNX Runtime has."""

    def body(m: BodyBuilder, a: int) -> int:
        def number(value: float) -> int:
            return m.const(value, x.dtype)

        z = m("sub", m("mul", a, number(2.0)), number(1.0))
        line = m("log", m("mul", m("sub", number(1.0), z), m("add", number(1.0), z)))
        half = m("add", number(2 / (3.14159 * 0.147)), m("mul", number(0.5), line))
        root = m("sqrt", m("sub", m("mul", half, half), m("mul", number(1 / 0.147), line)))
        size = m("sqrt", m("sub", root, half))
        signed = m("select", m("lt", z, number(0.0)), m("neg", size), size)
        return m("mul", number(math.sqrt(2.0)), signed)

    return b.map(body, x)


def _softmax_zero(b: Builder, x: Tensor) -> Tensor:
    """A softmax of the scores that are not zero; zeros stay zero."""
    top = b.reduce("max", x, [-1])

    def far(m: BodyBuilder, a: int) -> int:
        return m("gt", m("abs", a), m.const(_TINY, x.dtype))

    def weight(m: BodyBuilder, a: int, t: int) -> int:
        return m("select", far(m, a), m("exp", m("sub", a, t)), m.const(0.0, x.dtype))

    def small(m: BodyBuilder, a: int, t: int) -> int:
        return m("select", far(m, a), m("exp", m("sub", a, t)), m("mul", a, m("exp", m("neg", t))))

    return b.op("div", b.map(small, x, top), b.reduce("sum", b.map(weight, x, top), [-1]))


def label(b: Builder, labels: np.ndarray, index: Tensor) -> Tensor:
    """``labels[index]``: a gather for integers, a host call for strings."""
    if labels.dtype.kind != "O":
        return b.take(b.const(labels.astype(np.int64)), index, 0)
    return b.host("labels", lambda a: [labels[a[0]]], [index], (DType.STR, index.shape))[0]


def best(b: Builder, scores: Tensor) -> Tensor:
    """The column of the largest score of each row; the first of equals."""
    return b.argreduce("argmax", scores, -1, keepdims=False)


def rows(b: Builder, x: Tensor) -> Tensor:
    """A matrix of single precision (doubles stay doubles): rows are examples."""
    require_rank(b, x, 1, 2)
    if x.dtype is DType.STR or x.dtype.is_narrow:
        raise ShapeError(f"{b.where}: needs numbers, found {x.dtype.value}")
    flat = b.reshape(x, (1, x.shape[0])) if x.rank == 1 else x
    return flat if x.dtype is DType.F64 else b.cast(flat, DType.F32)


@register("PostTransform")
class PostTransform(Operator):
    """Scores ``[n, k]`` after a transform of :data:`TRANSFORMS`."""

    in_mnn = False
    attributes = {"transform": "NONE"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [transform(b, operand(b, inputs, 0), self.str_attr(node, "transform"))]


@register("Classify")
class Classify(Operator):
    """Raw scores to the label of each row ``[n]`` and its scores ``[n, classes]``.

    Several columns: the best one wins, and ``transform`` applies to all. One column is the score of the second class of
    two: it wins above ``threshold``. The first class then gets ``complement`` of it: ``one`` (1 - s), ``negative``
    (-s), ``logistic`` (both through the logistic function) or nothing (``none``: there is one column of scores).
    With two columns and ``decide`` not negative that column alone decides, in the same way.
    """

    in_mnn = False
    attributes = {"labels": None, "transform": "NONE", "threshold": 0.0, "complement": "none", "decide": -1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        scores, labels = operand(b, inputs, 0), np.asarray(self.attr(node, "labels")).reshape(-1)
        how = self.str_attr(node, "transform")
        require_rank(b, scores, 2)
        if labels.size < max(scores.shape[1], 2):
            raise ShapeError(f"{b.where}: {labels.size} labels for {max(scores.shape[1], 2)} classes")
        column, several = self.int_attr(node, "decide"), scores.shape[1] > 1
        if several and column < 0:
            return [label(b, labels, best(b, scores)), transform(b, scores, how)]
        one = b.slice(scores, [0, min(column, scores.shape[1] - 1)], [scores.shape[0], 1]) if several else scores
        above = b.op("gt", one, b.like(self.float_attr(node, "threshold"), one))
        found = label(b, labels, b.reshape(b.cast(above, DType.I64), (-1,)))
        if several:
            return [found, transform(b, scores, how)]
        return [found, self._both(b, scores, above, self.str_attr(node, "complement"), how)]

    def _both(self, b: Builder, s: Tensor, above: Tensor, complement: str, how: str) -> Tensor:
        if how == "PROBIT":
            return transform(b, s, how)
        if complement == "logistic":
            return b.concat([logistic(b, b.op("neg", s)), logistic(b, s)], 1)
        if complement == "one":
            return b.concat([b.op("sub", b.like(1.0, s), s), s], 1)
        if complement == "negative":
            return b.concat([b.op("neg", s), s], 1)
        return s
