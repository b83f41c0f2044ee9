"""Linear models and support vector machines of ONNX-ML: products, kernels, votes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.classical.scores import best, label, logistic, rows, transform
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _numbers(op: Operator, node: Node, key: str) -> np.ndarray:
    found = op.attr(node, key)
    return np.zeros(0, np.float32) if found is None else np.asarray(found, np.float32).reshape(-1)


def _single(b: Builder, inputs: Sequence[Tensor | None]) -> Tensor:
    return b.cast(rows(b, operand(b, inputs, 0)), DType.F32)


def _matrix(b: Builder, values: np.ndarray, columns: int, what: str) -> np.ndarray:
    if not values.size or columns < 1 or values.size % columns:
        raise ShapeError(f"{b.where}: {values.size} {what} do not fit inputs of {columns} features")
    return values.reshape(-1, columns)


@register("LinearScores")
class LinearScores(Operator):
    """``x [n, f] @ coefficients.T + intercepts``: ``[n, k]``. ``coefficients`` are k rows of f; intercepts may lack."""

    in_mnn = False
    attributes = {"coefficients": None, "intercepts": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = _single(b, inputs)
        weights = _matrix(b, _numbers(self, node, "coefficients"), x.shape[1], "coefficients")
        bias = _numbers(self, node, "intercepts")
        if bias.size not in (0, 1, len(weights)):
            raise ShapeError(f"{b.where}: {bias.size} intercepts for {len(weights)} rows of coefficients")
        out = b.matmul(x, b.const(np.ascontiguousarray(weights.T)))
        return [b.op("add", out, b.const(bias)) if bias.size else out]


_KERNEL: dict[str, object] = {"vectors": None, "kernel": "LINEAR", "params": None}


def _kernel(op: Operator, b: Builder, node: Node, x: Tensor) -> Tensor:
    """The kernel function of every row and every support vector, ``[n, v]``; ``params`` are gamma, coef0 and degree."""
    vectors = _matrix(b, _numbers(op, node, "vectors"), x.shape[1], "numbers of support vectors")
    params, kind = _numbers(op, node, "params"), op.str_attr(node, "kernel")
    gamma, shift, degree = (float(v) for v in (params if params.size else np.zeros(3)))
    if kind == "RBF":
        apart = b.op("sub", b.unsqueeze(x, [1]), b.const(vectors[None]))
        far = b.reduce("sum", b.op("mul", apart, apart), [2], keepdims=False)
        return b.op("exp", b.op("mul", far, b.like(-gamma, far)))
    dot = b.matmul(x, b.const(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return dot
    inner = b.op("add", b.op("mul", dot, b.like(gamma, dot)), b.like(shift, dot))
    if kind == "POLY":
        return b.op("pow", inner, b.like(degree, inner))
    if kind == "SIGMOID":
        return b.op("tanh", inner)
    raise ShapeError(f"{b.where}: kernel '{kind}' is not one of {', '.join(KERNELS)}")


def _weighed(b: Builder, x: Tensor, weights: np.ndarray, bias: np.ndarray) -> Tensor:
    """``x @ weights + bias``, summed in double precision: the weights of support vectors cancel each other."""
    wide = b.matmul(b.cast(x, DType.F64), b.const(weights, DType.F64))
    return b.cast(b.op("add", wide, b.const(bias, DType.F64)), DType.F32)


@register("SVMRegressor")
class SVMRegressor(Operator):
    """``[n, f]`` to ``[n, 1]``: ``kernel @ coefficients + rho``; the sign of it with ``oneClass``."""

    in_mnn = False
    attributes = {**_KERNEL, "coefficients": None, "rho": None, "oneClass": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, weights, rho = _single(b, inputs), _numbers(self, node, "coefficients"), _numbers(self, node, "rho")
        k = _kernel(self, b, node, x) if self.attr(node, "vectors") is not None else x
        if weights.size != k.shape[1] or not rho.size:
            raise ShapeError(f"{b.where}: {weights.size} coefficients and {rho.size} offsets for {k.shape[1]} numbers")
        y = _weighed(b, k, weights[:, None], rho[:1])
        if not self.bool_attr(node, "oneClass"):
            return [y]
        above = b.op("gt", y, b.like(0.0, y))
        return [b.map(lambda m, a: m("select", a, m.const(1.0, DType.F32), m.const(-1.0, DType.F32)), above)]


@register("SVMClassifier")
class SVMClassifier(Operator):
    """``[n, f]`` to labels ``[n]`` and scores: of classes where ``probA`` and ``probB`` are given, else of the pairs of
    classes (two columns, ``(-s, s)``, for two classes).

    ``perClass`` counts the support vectors of each class, ``coefficients`` are ``[classes - 1, vectors]``; each pair of
    classes has one vote, as in libsvm (Chang and Lin, 2011).
    """

    in_mnn = False
    attributes = {
        **_KERNEL, "coefficients": None, "rho": None, "perClass": None, "labels": None, "probA": None, "probB": None,
        "transform": "NONE",
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, labels = _single(b, inputs), np.asarray(self.attr(node, "labels")).reshape(-1)
        k, pairs = labels.size, list(combinations(range(labels.size), 2))
        values = _kernel(self, b, node, x)
        rho = _numbers(self, node, "rho")
        if k < 2 or rho.size < len(pairs):
            raise ShapeError(f"{b.where}: {rho.size} offsets for the pairs of {k} classes")
        weights = self._pairs(b, node, values.shape[1], pairs, k)
        scores = _weighed(b, values, weights, rho[: len(pairs)])
        turn, always = np.zeros((len(pairs), k), np.float32), np.zeros(k, np.float32)
        for p, (i, j) in enumerate(pairs):
            turn[p, i], turn[p, j] = 1, -1
            always[j] += 1
        won = b.cast(b.op("gt", scores, b.like(0.0, scores)), DType.F32)
        votes = b.op("add", b.matmul(won, b.const(turn)), b.const(always))
        return [label(b, labels, best(b, votes)), self._scores(b, node, scores, k)]

    def _pairs(self, b: Builder, node: Node, count: int, pairs: Sequence[tuple[int, int]], classes: int) -> np.ndarray:
        """The coefficients of every pair, ``[vectors, pairs]``."""
        per, given = self.ints_attr(node, "perClass"), _numbers(self, node, "coefficients")
        if len(per) != classes or sum(per) != count or min(per) < 0 or given.size < (classes - 1) * count:
            raise ShapeError(
                f"{b.where}: {given.size} coefficients and vectors per class {list(per)} do not fit {count} vectors of "
                f"{classes} classes"
            )
        rows, ends = given[: (classes - 1) * count].reshape(classes - 1, count), np.cumsum([0, *per])
        weights = np.zeros((count, len(pairs)), np.float32)
        for p, (i, j) in enumerate(pairs):
            weights[ends[i] : ends[i + 1], p] = rows[j - 1, ends[i] : ends[i + 1]]
            weights[ends[j] : ends[j + 1], p] = rows[i, ends[j] : ends[j + 1]]
        return weights

    def _scores(self, b: Builder, node: Node, scores: Tensor, classes: int) -> Tensor:
        how, a, c = self.str_attr(node, "transform"), _numbers(self, node, "probA"), _numbers(self, node, "probB")
        if a.size:
            if min(a.size, c.size) < scores.shape[1]:
                raise ShapeError(f"{b.where}: {a.size} and {c.size} parameters of probabilities for {scores.shape[1]}")
            line = b.op("add", b.op("mul", scores, b.const(a[: scores.shape[1]])), b.const(c[: scores.shape[1]]))
            pairwise = b.clamp(logistic(b, b.op("neg", line)), 1e-7, 1 - 1e-7)
            shape = (scores.shape[0], classes)
            (joined,) = b.host("probabilities", lambda r: [couple(r[0], classes)], [pairwise], (DType.F32, shape))
            return transform(b, joined, how)
        if classes > 2:
            return transform(b, scores, how)
        if how == "LOGISTIC":
            return b.concat([logistic(b, b.op("neg", scores)), logistic(b, scores)], 1)
        first = b.op("neg", scores) if how == "NONE" else b.op("sub", b.like(1.0, scores), scores)
        return b.concat([first, scores], 1)


def couple(pairwise: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities of classes ``[n, k]`` from those of pairs ``[n, k (k - 1) / 2]``.

    The second method of Wu, Lin and Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling
    (2004), algorithm 2, with libsvm's rule to stop.
    """
    n = len(pairwise)
    r = np.zeros((n, classes, classes), np.float32)
    for column, (i, j) in enumerate(combinations(range(classes), 2)):
        r[:, i, j], r[:, j, i] = pairwise[:, column], 1 - pairwise[:, column]
    q = -np.swapaxes(r, 1, 2) * r
    diagonal = np.arange(classes)
    q[:, diagonal, diagonal] = np.sum(r * r, axis=1)
    p = np.full((n, classes), 1 / classes, np.float32)
    active, limit = np.arange(n), np.float32(0.005 / classes)
    for _ in range(100):
        part, own = q[active], p[active]
        qp = np.einsum("nij,nj->ni", part, own)
        total = np.sum(own * qp, axis=1)
        going = np.abs(qp - total[:, None]).max(axis=1, initial=0) >= limit
        active, part, own, qp, total = active[going], part[going], own[going], qp[going], total[going]
        if not active.size:
            break
        for i in range(classes):
            step = (total - qp[:, i]) / part[:, i, i]
            own[:, i] += step
            scale = 1 + step
            total = (total + step * (step * part[:, i, i] + 2 * qp[:, i])) / scale / scale
            qp = (qp + step[:, None] * part[:, i]) / scale[:, None]
            own = own / scale[:, None]
        p[active] = own
    return p
