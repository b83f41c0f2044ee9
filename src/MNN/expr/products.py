"""Products over axes and whole quotients as numpy defines them. Integers stay integers, exact up to the width of their
type."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr import indexing, math, shaping
from MNN.expr.arrays import direct, few
from MNN.expr.arrays.options import check_casting, check_order, into
from MNN.expr.build import apply, cast, ints, layout_of, leaf, number, pair, to_var
from MNN.expr.compute import COMPILED_WORK
from MNN.expr.fused.settings import is_lazy
from MNN.expr.types import ElementType, VarOrNumber, dtype_of
from MNN.expr.var import Var


def _product(x: Var, y: Var) -> Var:
    a, b = pair(x, y)
    found = few.product(a, b, COMPILED_WORK)
    return found if found is not None else apply("MatMul", a, b, transposeA=False, transposeB=False)


def matmul(
    a: ArrayLike, b: ArrayLike, out: Var | None = None, *, casting: str = "same_kind", order: str | None = "K",
    dtype: ElementType | None = None, subok: bool = True,
) -> VarOrNumber:  # fmt: skip
    """The matrix product by numpy's rules for batches and vectors, of operands as ``dtype``, written into ``out``."""
    if out is None and dtype is None and order == "K" and (found := direct.product(a, b, COMPILED_WORK)) is not None:
        return found
    check_order(order, "matmul")
    x, y = to_var(a), to_var(b)
    if dtype is not None:
        check_casting([x._kind, y._kind], kind := dtype_of(dtype), casting, "matmul")
        x, y = cast(x, kind), cast(y, kind)
    return into(indexing.result(_product(x, y)), out, casting)


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


def outer(a: ArrayLike, b: ArrayLike, out: Var | None = None) -> Var:
    """All products of two flat arrays."""
    found = math.multiply(shaping.reshape(a, [-1, 1]), shaping.reshape(b, [1, -1]))
    return to_var(into(found, out))


def floor_divide(x: ArrayLike, y: ArrayLike) -> Var:
    """The largest whole number that is not above the exact quotient, which ``floor(x / y)`` is not where ``x / y`` was
    rounded up: 9 for 1.0 and 0.1. Floats by 0 are infinite, whole numbers 0.

    As Python and numpy do it (``float_divmod``): the dividend without its remainder is divided."""
    a, b = pair(x, y)
    if not a._kind.is_float:
        return math.floordiv(a, b)
    if not (a._expr.sources or b._expr.sources or is_lazy()):
        return leaf(np.asarray(few.silently(np.floor_divide, a._array(), b._array())), layout_of([a, b]))
    rest, quotient = math.mod(a, b), math.divide(a, b)
    below = cast(math.less(math.multiply(math.sign(rest), math.sign(b)), 0.0), a._kind)
    whole = math.round(math.subtract(math.divide(math.subtract(a, rest), b), below))
    whole = math.select(math.equal(whole, 0.0), math.multiply(quotient, 0.0), whole)  # the sign of a zero
    return math.select(math.equal(b, 0.0), quotient, whole)
