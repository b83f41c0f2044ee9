"""Products over axes as numpy defines them. Integers stay integers, exact up to the width of their type."""

from __future__ import annotations

from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import indexing, math, shaping
from MNN.expr.arrays import direct, few
from MNN.expr.build import apply, ints, layout_of, number, pair, to_var
from MNN.expr.compute import COMPILED_WORK
from MNN.expr.types import VarOrNumber
from MNN.expr.var import Var


def _product(x: Var, y: Var) -> Var:
    a, b = pair(x, y)
    found = few.product(a, b, COMPILED_WORK)
    return found if found is not None else apply("MatMul", a, b, transposeA=False, transposeB=False)


def matmul(a: ArrayLike, b: ArrayLike) -> VarOrNumber:
    """The matrix product by numpy's rules for batches and vectors."""
    if (found := direct.product(a, b, COMPILED_WORK)) is not None:
        return found
    return indexing.result(_product(to_var(a), to_var(b)))


def dot(a: ArrayLike, b: ArrayLike) -> VarOrNumber:
    """Sums of products over the last axis of ``a`` and the last but one of ``b`` (the only one of a vector); a plain
    number scales. The shape is that of ``a`` without its axis, then that of ``b`` without its own."""
    x, y = to_var(a), to_var(b)
    if not x.ndim or not y.ndim:
        return indexing.result(math.multiply(x, y))
    if (found := direct.product(x, y, COMPILED_WORK)) is not None:
        return found
    if y.ndim < 3:
        return indexing.result(_product(x, y))
    length = y.shape[-2]
    if x.shape[-1] != length:
        raise ShapeError(f"the shapes {x.shape} and {y.shape} do not fit: {x.shape[-1]} products against {length}")
    sizes = [*x.shape[:-1], *y.shape[:-2], y.shape[-1]]
    if not x.size or not y.size:  # sizes of 0 mean something else to reshape()
        return apply("Fill", ints(sizes), number(0, pair(x, y)[0]._kind), layout=layout_of([x, y]))
    first = shaping.transpose(y, [y.ndim - 2, *range(y.ndim - 2), y.ndim - 1])
    found = _product(shaping.reshape(x, [-1, length]), shaping.reshape(first, [length, -1]))
    return indexing.result(shaping.reshape(found, sizes))


def inner(a: ArrayLike, b: ArrayLike) -> VarOrNumber:
    """Sums of products over the last axes; a plain number scales."""
    x, y = to_var(a), to_var(b)
    return dot(x, y.swapaxes(-1, -2) if x.ndim and y.ndim > 1 else y)


def vdot(a: ArrayLike, b: ArrayLike) -> VarOrNumber:
    """The inner product of the flat arrays."""
    return dot(to_var(a).ravel(), to_var(b).ravel())


def outer(a: ArrayLike, b: ArrayLike) -> Var:
    """All products of two flat arrays."""
    return math.multiply(shaping.reshape(a, [-1, 1]), shaping.reshape(b, [1, -1]))
