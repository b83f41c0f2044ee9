"""Functions of whole matrices: inverses, factors, eigenvalues; LAPACK computes them, through numpy.

Matrices lie in the last two axes. One that has no answer (singular, not positive definite, not finite) gets NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, wide
from MNN.ops.inference import infer

Array = NDArray[Any]
Shape = tuple[int, ...]


def _each(function: Callable[..., Any], *arrays: Array) -> Any:
    """``function`` on all matrices; one by one where some have no answer, which get NaN."""
    try:
        return function(*arrays)
    except np.linalg.LinAlgError:
        pass
    if arrays[0].ndim == 2:
        like = np.stack([np.eye(a.shape[-2], a.shape[-1], dtype=a.dtype) for a in arrays[:1]])[0]
        made = function(like, *arrays[1:])
        return tuple(np.full_like(m, np.nan) for m in made) if isinstance(made, tuple) else np.full_like(made, np.nan)
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    lines = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    found = [_each(function, *(a[at] for a in lines)) for at in range(batch[0])]
    return tuple(map(np.stack, zip(*found, strict=True))) if isinstance(found[0], tuple) else np.stack(found)


def lu(a: Array) -> tuple[Array, Array]:
    """Both factors in one matrix, and the rows swapped in each step (counted from 1), as LAPACK's getrf has them."""
    a = a.copy()
    m, n = a.shape[-2:]
    flat = a.reshape(-1, m, n)
    pivots = np.empty((len(flat), min(m, n)), np.int32)
    every = np.arange(len(flat))
    for k in range(min(m, n)):
        best = k + np.argmax(np.abs(flat[:, k:, k]), axis=1)
        pivots[:, k] = best + 1
        chosen = flat[every, best].copy()
        flat[every, best] = flat[:, k]
        flat[:, k] = chosen
        pivot = chosen[:, k : k + 1]
        with np.errstate(all="ignore"):
            flat[:, k + 1 :, k] = np.where(pivot == 0, flat[:, k + 1 :, k], flat[:, k + 1 :, k] / pivot)
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k : k + 1] * flat[:, k : k + 1, k + 1 :]
    return flat.reshape(a.shape), pivots.reshape(*a.shape[:-2], min(m, n))


def triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """``x`` of ``a x = b`` by substitution; only the triangle is looked at."""
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x: Array = np.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    with np.errstate(all="ignore"):
        for i in range(n - 1, -1, -1) if upper else range(n):
            done = slice(i + 1, n) if upper else slice(0, i)
            x[..., i : i + 1, :] -= a[..., i : i + 1, done] @ x[..., done, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x


def exponential(a: Array) -> Array:
    """Scaling and squaring with Taylor's polynomial of degree 18, which leaves 1e-17 where norms are below 1/2."""
    norm = np.abs(a).sum(-2).max(initial=0.0)
    steps = max(int(np.ceil(np.log2(max(norm, 1e-30)))) + 1, 0) if np.isfinite(norm) else 0
    a = a / 2.0**steps
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    found: Array = np.broadcast_to(eye, a.shape).copy()
    for k in range(18, 0, -1):
        found = eye + (a / k) @ found
    for _ in range(steps):
        found = found @ found
    return found


@dataclass(frozen=True)
class Kind:
    """``run(arrays, upper, full)`` gives the results; ``shapes(m, n, full)`` those of their axes behind the batch's."""

    run: Callable[[Sequence[Array], bool, bool], Any]
    shapes: Callable[[int, int, bool], Sequence[Shape]]
    square: bool = True
    whole: tuple[int, ...] = ()
    """Results that are i32."""


def _mirrored(a: Array, upper: bool) -> Array:
    """The symmetric matrix that one triangle tells."""
    kept = np.triu(a) if upper else np.tril(a)
    return kept + np.swapaxes(np.triu(kept, 1) if upper else np.tril(kept, -1), -1, -2)


def _cholesky(a: Array, upper: bool) -> tuple[Array, Array]:
    """The factor, and in which row (counted from 1) it was seen that there is none; 0 where there is one."""
    lower = _each(np.linalg.cholesky, _mirrored(a, upper))
    missing = np.isnan(lower).any((-1, -2))
    rows = np.zeros(missing.shape, np.int32)
    for at in np.ndindex(missing.shape):
        if not missing[at]:
            continue
        whole = _mirrored(a[at], upper)
        sizes = range(1, a.shape[-1] + 1)
        rows[at] = next((n for n in sizes if not np.linalg.eigvalsh(whole[:n, :n])[0] > 0), 0)
    return np.swapaxes(lower, -1, -2) if upper else lower, rows


def _svd(a: Array, full: bool) -> tuple[Array, Array, Array]:
    return tuple(_each(lambda x: tuple(np.linalg.svd(x, full_matrices=full)), a))


KINDS = {
    "inverse": Kind(lambda x, *_: _each(np.linalg.inv, x[0]), lambda m, n, _: [(n, n)]),
    "cholesky": Kind(lambda x, upper, _: _cholesky(x[0], upper), lambda m, n, _: [(n, n), ()], whole=(1,)),
    "lu": Kind(lambda x, *_: lu(x[0]), lambda m, n, _: [(m, n), (min(m, n),)], False, (1,)),
    "qr": Kind(
        lambda x, _, full: tuple(np.linalg.qr(x[0], "complete" if full else "reduced")),
        lambda m, n, full: [(m, m), (m, n)] if full else [(m, min(m, n)), (min(m, n), n)], False,
    ),
    "eigh": Kind(
        lambda x, upper, _: tuple(_each(lambda a: tuple(np.linalg.eigh(a, "U" if upper else "L")), x[0])),
        lambda m, n, _: [(n,), (n, n)],
    ),
    "svd": Kind(
        lambda x, _, full: _svd(x[0], full),
        lambda m, n, full: [(m, m if full else min(m, n)), (min(m, n),), (n if full else min(m, n), n)], False,
    ),
    "slogdet": Kind(lambda x, *_: tuple(np.linalg.slogdet(x[0])), lambda m, n, _: [(), ()]),
    "exponential": Kind(lambda x, *_: exponential(x[0]), lambda m, n, _: [(n, n)]),
    "solve": Kind(lambda x, *_: _each(np.linalg.solve, *x), lambda m, n, _: []),
    "triangular": Kind(lambda x, upper, unit: triangular(x[0], x[1], upper, unit), lambda m, n, _: []),
}  # fmt: skip
"""``solve`` and ``triangular`` take ``a`` and ``b``, matrices too, whose axes in front broadcast."""


@register("MatrixFunction")
class MatrixFunction(Operator):
    """``kind`` of :data:`KINDS`. ``upper``: which triangle is taken (given, for ``cholesky``); ``full``: square factors
    of others than square matrices, or for ``triangular``: ones on the diagonal."""

    attributes = {"kind": "inverse", "upper": False, "full": False}
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        name, upper, full = self.str_attr(node, "kind"), self.bool_attr(node, "upper"), self.bool_attr(node, "full")
        kind = KINDS.get(name)
        x = operand(b, inputs, 0)
        given = [t for t in inputs if t is not None]
        if kind is None:
            raise ShapeError(f"{b.where}: there is no function '{name}' of matrices; {', '.join(KINDS)} are")
        if x.rank < 2 or not x.dtype.is_float or (kind.square and x.shape[-1] != x.shape[-2]):
            raise ShapeError(f"{b.where}: needs {'square ' if kind.square else ''}matrices of floats, found {x}")
        batch, (m, n) = x.shape[:-2], x.shape[-2:]
        shapes = [(*batch, *s) for s in kind.shapes(m, n, full)]
        if not shapes:
            other = operand(b, inputs, 1)
            if other.rank < 2 or other.shape[-2] != n or other.dtype is not x.dtype:
                raise ShapeError(f"{b.where}: {x} does not fit the other side, {other}")
            shapes = [(*broadcast(batch, other.shape[:-2], where=b.where), *other.shape[-2:])]
        operands = [wide(b, t) for t in given]
        types = [(DType.I32 if i in kind.whole else operands[0].dtype, s) for i, s in enumerate(shapes)]

        def run(arrays: Sequence[Array]) -> Sequence[Array]:
            found = kind.run(arrays, upper, full)
            results = found if isinstance(found, tuple) else (found,)
            return [np.asarray(r, t.numpy, order="C") for r, (t, _) in zip(results, types, strict=True)]

        made = b.host(name, run, operands, *types)
        return [t if i in kind.whole else b.cast(t, x.dtype) for i, t in enumerate(made)]


_TALL, _WIDE = (1 << 41, 1 << 40), (1 << 40, 1 << 41)
"""Sizes that stand for any: of results, those count that are the same axis in matrices that are tall and wide."""


@infer.rule(MatrixFunction)
def _infer_matrices(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    shape, kind = infer.sizes(x), KINDS.get(str(node.attrs.get("kind", "inverse")))
    if shape is None or kind is None or len(shape) < 2:
        return []
    full = bool(node.attrs.get("full", False))
    tall, wide_ = (kind.shapes(*sides, full) for sides in (_TALL, _WIDE))
    if not tall:  # of the other side, whose batch broadcasts
        other = infer.sizes(infer.operand(node, 1))
        if other is None or len(other) < 2:
            return []
        rank = max(len(shape), len(other)) - 2
        same = shape[:-2] == other[:-2]
        return [(x.dtype, (*(shape[:-2] if same else [None] * rank), *other[-2:]))]
    out: list[infer.InferredShape] = []
    for i, pairs in enumerate(zip(tall, wide_, strict=True)):
        axes = [
            next((n for n, t, w in zip(shape[-2:], _TALL, _WIDE, strict=True) if (a, b) == (t, w)), None)
            for a, b in zip(*pairs, strict=True)
        ]
        if kind.square:
            axes = [shape[-1]] * len(axes)
        out.append((DType.I32 if i in kind.whole else x.dtype, (*shape[:-2], *axes)))
    return out
