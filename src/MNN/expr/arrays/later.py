"""Elementwise functions of constants of many numbers, in the fewest steps to a result that is computed when somebody
reads it (:class:`~MNN.expr.fused.Deferred`): a chain of them costs less to put together than numpy takes for one.

Results are those of the operators, which whatever is unusual is left to: these functions give None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.expr.arrays import few, places
from MNN.expr.arrays.functions import function, rounding
from MNN.expr.arrays.scalars import scalar, whole
from MNN.expr.fused import Deferred, programs
from MNN.expr.fused.deferred import Operand
from MNN.expr.fused.functions import Function
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.output import KINDS
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_new: Any = object.__new__
_F32, _I32 = DType.F32, DType.I32


def _met(number: Any, kind: DType) -> np.ndarray | None:
    """A plain number in the element type that it meets; None where that takes thought."""
    return scalar(number) if kind is _F32 else whole(number) if kind is _I32 else None


class _Functions(dict[DType, Function | None]):
    """An operator's by the element type of its operands."""

    def __init__(self, op: str, operands: int, kinds: tuple[DType, ...]) -> None:
        super().__init__()
        self._op, self._operands, self._kinds = op, operands, kinds

    def __missing__(self, kind: DType) -> Function | None:
        found = None
        if kind in self._kinds:
            found = function(self._op, (kind,) * self._operands)
        self[kind] = found
        return found


def _made(numbers: Deferred, like: Var) -> Var:
    made: Var = _new(Var)
    made._node, made._index, made._layout, made._unconverted, made._few = numbers, 0, like._layout, None, None
    return made


def _present(x: Var, most: int) -> tuple[Operand, DType, tuple[int, ...]] | None:
    """What a constant of more than ``most`` numbers holds or will, its element type and its shape."""
    numbers = x._few
    if numbers is not None:
        return None if numbers.size <= most else (numbers, KINDS[numbers.dtype], numbers.shape)
    expr: Any = x._node
    if type(expr) is Deferred:
        return expr, expr.function.kind, expr.shape
    if expr.op != "Const" or expr.borrowed:
        return None
    kind, shape = expr.leaf_type
    if (later := expr._deferred) is not None:
        return later, kind, shape
    numbers = expr._held
    return None if numbers is None or numbers.size <= most else (numbers, kind, shape)


def each(op: str, kinds: tuple[DType, ...]) -> Callable[[Any], Var | None]:
    """The operator ``op`` of each number of a constant, of ``kinds``, of more numbers than numpy is asked for."""
    functions = _Functions(op, 1, kinds)

    def apply(x: Any) -> Var | None:
        if type(x) is not Var or SETTINGS.lazy or (found := _present(x, few.limit(op))) is None:
            return None
        numbers, kind, shape = found
        function = functions[kind]
        return None if function is None else _made(Deferred.of(function, (numbers,), shape), x)

    return apply


def reverse(op: str, kinds: tuple[DType, ...]) -> Callable[[Any, Any], Var | None]:
    """The operator ``op`` of a plain number and each number of a constant, as :func:`each`; given the constant first,
    as Python does."""
    functions = _Functions(op, 2, kinds)

    def apply(x: Any, number: Any) -> Var | None:
        if type(x) is not Var or SETTINGS.lazy or (found := _present(x, few.limit(op))) is None:
            return None
        numbers, kind, shape = found
        function, other = functions[kind], _met(number, kind)
        return None if function is None or other is None else _made(Deferred.of(function, (other, numbers), shape), x)

    return apply


def pairwise(op: str, kinds: tuple[DType, ...]) -> Callable[[Any, Any], Var | None]:
    """The operator ``op`` of pairs of numbers in one element type, of ``kinds``: those of two constants of one shape,
    or of a constant and a plain number, of more than numpy is asked for."""
    functions = _Functions(op, 2, kinds)

    def apply(x: Any, y: Any) -> Var | None:
        if type(x) is not Var or SETTINGS.lazy:
            return None
        two = type(y) is Var
        most = few.limit(op)
        if (one := _present(x, -1 if two else most)) is None:
            return None
        a, kind, shape = one
        b: Operand | None
        if two:
            if y._layout is not x._layout or (other := _present(y, -1)) is None:
                return None
            b = other[0]
            if other[1] is not kind or other[2] != shape:
                return None
            if type(a) is not Deferred and type(b) is not Deferred and a.size <= most:  # type: ignore[union-attr]
                return None
        elif (b := _met(y, kind)) is None:
            return None
        function = functions[kind]
        return None if function is None else _made(Deferred.of(function, (a, b), shape), x)

    return apply


def rounded(x: Any) -> Var | None:
    """The nearest whole numbers of floats, halves away from zero."""
    if type(x) is not Var or SETTINGS.lazy or (found := _present(x, -1)) is None or found[1] not in few.FLOATS:
        return None
    return _made(Deferred.of(rounding(found[1]), (found[0],), found[2]), x)


places.offer(programs.computed, "computed")
places.follow(programs.told)

__all__ = ["each", "pairwise", "reverse", "rounded", "scalar", "whole"]
