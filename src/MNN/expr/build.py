"""Makes Vars: from what users give, and by applying operators."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from contextvars import ContextVar
from math import copysign
from typing import Any

import numpy as np

from MNN.expr import compute
from MNN.expr.arrays import direct, few
from MNN.expr.fused import Deferred, function_of, is_function
from MNN.expr.fused.settings import is_lazy
from MNN.expr.node import Expr, UnwrittenError
from MNN.expr.output import KINDS
from MNN.expr.types import NCHW, NHWC, data_format, promote, storable
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.ops.core.datatypes import data_type

LAYER: ContextVar[str] = ContextVar("layer", default="")
"""The path of the module that is computing (``encoder.attention``), for messages."""


_PICTURES = {kind.numpy: kind for kind in (DType.U8, DType.F32)}
"""Element types of most pictures, which are kept as they are."""
_new: Any = object.__new__
_F32, _I32 = DType.F32.numpy, DType.I32.numpy


def leaf(array: np.ndarray, layout: data_format = NCHW, op: str = "Const") -> Var:
    """A Var that holds numbers; the array must not change afterwards."""
    if op == "Const":
        return few.constant(array, DType.of(array), layout)
    return Var(Expr.leaf(op, DType.of(array), array.shape, array), 0, layout)


def picture(array: np.ndarray) -> Var:
    """A Var of an image or of what belongs to one, channels last."""
    found = array.dtype
    if (found is _F32 or found is _I32) and type(array) is np.ndarray and array.size <= few.ALONE:
        alone: Var = _new(Var)  # as few.constant() makes them, of what most are
        alone._few, alone._layout, alone._index, alone._unconverted = array, NHWC, 0, None
        return alone
    kind = _PICTURES.get(found)
    if kind is None or (kind in few.NUMBERS and array.size <= few.ALONE):
        kind = DType.of(array)
        stored = storable(kind)
        return few.constant(array if stored is kind else array.astype(stored.numpy), stored, NHWC)
    made: Var = _new(Var)
    expr = made._node = _new(Expr)
    expr.leaf_type, expr._held = (kind, array.shape), array
    made._layout, made._index, made._unconverted, made._few = NHWC, 0, None, None
    return made


def to_var(value: object, like: Var | None = None) -> Var:
    """A Var of anything that stands for numbers: a Var, an array, a (nested) sequence or a number.

    A plain number (or list of numbers) meets ``like`` in its element type unless it is a fraction and that is not.
    """
    if type(value) is Var or isinstance(value, Var):
        return value
    if type(value) is int or (type(value) is float and (value or copysign(1.0, value) > 0)):  # -0.0 is 0.0 to a cache
        return _number(value, None if like is None else like._kind, NCHW if like is None else like.data_format)
    return _given(value, None if like is None else like._kind, NCHW if like is None else like.data_format)


def _given(value: object, kind: DType | None, layout: data_format) -> Var:
    array = compute.as_array(value, "an operand", kind is DType.F64)
    borrowed = not isinstance(value, (bool, int, float, list, tuple))
    if kind is not None and not isinstance(value, np.ndarray) and (
        kind.is_float or (array.dtype.kind == "i" and kind is DType.I64)
    ):  # fmt: skip
        array = array.astype(kind.numpy)
    made = leaf(array, layout if array.ndim == 0 else NCHW)
    if borrowed:
        made._expr.borrowed = True
    return made


def own(x: Var) -> Var:
    """A Var that is given to the user with the numbers that came. A constant is another Var then, so that what is
    written to one of the two, or to the user's array in which its numbers lie, is not written to the other."""
    if x._few is not None:
        return few.constant(x._few, x._kind, x._layout)
    expr = x._expr
    if expr.op != "Const":
        return x
    expr.own()
    later = expr._deferred  # asked for before the numbers, which are there when it goes
    same = Expr.leaf(expr.op, *expr.leaf_type, expr._held)
    same._deferred = later
    return Var(same, 0, x._layout, x._unconverted)


def _number(value: float | int, kind: DType | None, layout: data_format) -> Var:
    """A number in a formula, which comes again: a Var of its own, which may be written to, of numbers that stay."""
    return leaf(_numbers(value, kind), layout)


@functools.lru_cache(maxsize=256, typed=True)
def _numbers(value: float | int, kind: DType | None) -> np.ndarray:
    return _given(value, kind, NCHW)._array()


def layout_of(operands: Sequence[Var | None]) -> data_format:
    """The layout of a result: that of the first operand of the highest rank."""
    found = None
    for v in operands:
        if v is not None and v._layout is not found:
            if found is not None:
                break
            found = v._layout
    else:
        return NCHW if found is None else found
    top, layout = -1, NCHW
    for v in operands:
        if v is not None and (rank := v.ndim) > top:
            top, layout = rank, v._layout
    return layout


def apply_all(
    op: str, operands: Sequence[Var | None], outputs: int, layout: data_format | None = None, **attrs: Any
) -> list[Var]:
    """An operator's results. Of constants they are computed at once; misfits raise :class:`MNNError` here."""
    if layout is None:
        layout = layout_of(operands)
    results = None if is_lazy() else _computed(op, operands, outputs, attrs)
    if results is not None:
        return [_kept(a, layout) for a in results]
    expr = Expr(op, [None if v is None else (v._expr, v._index) for v in operands], attrs)
    expr.outputs, expr.layer = outputs, LAYER.get()
    with contextlib.suppress(UnwrittenError):  # sizes that depend on numbers are found when those are there
        expr.types()
    return [Var(expr, i, layout) for i in range(outputs)]


def _computed(op: str, operands: Sequence[Var | None], outputs: int, attrs: dict[str, Any]) -> list[np.ndarray] | None:
    """The results of an operator on constants; None where other operands are among them."""
    given: list[Deferred | np.ndarray | None] = []
    borrowed = False
    later = op == "Reduction" and len(operands) == 1  # which may compute the elements in passing
    for v in operands:
        if v is None:
            given.append(None)
            continue
        if (alone := v._few) is not None:
            given.append(alone)
            continue
        expr = v._expr
        if expr.op != "Const":
            if expr.sources:
                return None
            given.append(v._array())
        else:
            present = expr._deferred if later else None
            given.append(v._array() if present is None else present)
            borrowed = borrowed or expr.borrowed
    results = compute.run_operator(op, attrs, given, outputs)
    if borrowed:
        shared = [a for a in given if isinstance(a, np.ndarray)]
        results = [a.copy() if any(np.may_share_memory(a, b) for b in shared) else a for a in results]
    return results


def _kept(array: np.ndarray, layout: data_format) -> Var:
    """A result as a constant, in an element type that a Var has."""
    kind = DType.of(array)
    if (own := storable(kind)) is not kind:
        array = array.astype(own.numpy)
    return few.constant(array, own, layout)


def _deferred(op: str, operands: Sequence[Var | None], attrs: dict[str, Any]) -> Expr | None:
    """A function of constants that is computed when it is read; None where that is not what is given."""
    given: list[Deferred | np.ndarray] = []
    kinds: list[DType] = []
    shape: tuple[int, ...] = ()
    borrowed = False
    for v in operands:
        if v is None:
            return None
        present: Deferred | np.ndarray | None = v._few
        if isinstance(present, np.ndarray):  # which stays without a node
            kind, own = KINDS[present.dtype], present.shape
        else:
            if (expr := v._expr).op != "Const":
                return None
            if (present := expr._deferred) is None and (present := expr._held) is None:
                return None
            kind, own = expr.leaf_type
            borrowed = borrowed or expr.borrowed
        given.append(present)
        kinds.append(kind)
        if own != shape and own:
            try:
                shape = np.broadcast_shapes(shape, own) if shape else own
            except ValueError:
                return None  # the operator tells of it
    function = function_of(op, attrs, tuple(kinds))
    if function is None:
        return None
    later = Expr.later(Deferred.of(function, given, shape))
    if borrowed:
        later.results()  # the numbers as they are now
    return later


def apply(op: str, *operands: Var | None, layout: data_format | None = None, **attrs: Any) -> Var:
    """The only result of an operator."""
    if not is_lazy():
        if is_function(op) and (later := _deferred(op, operands, attrs)) is not None:
            return Var(later, 0, layout_of(operands) if layout is None else layout)
        results = _computed(op, operands, 1, attrs)
        if results is not None:
            return _kept(results[0], layout_of(operands) if layout is None else layout)
    return apply_all(op, operands, 1, layout, **attrs)[0]


def cast(x: Var, kind: DType) -> Var:
    """The same numbers in another element type: fractions are cut off, numbers out of range saturate."""
    if x._kind is kind:
        return x
    found = few.cast(x, kind)
    return found if found is not None else apply("Cast", x, dstT=data_type(kind))


def floats(x: object) -> Var:
    """The operand of a function that is defined on floats only."""
    v = to_var(x)
    return v if v._kind.is_float else cast(v, DType.F32)


def pair(x: object, y: object) -> tuple[Var, Var]:
    """Two operands in one element type."""
    return _meeting(*_two(x, y))


def _two(x: object, y: object) -> tuple[Var, Var]:
    if type(x) is Var:
        if type(y) is Var:
            return x, y
        if type(y) is float and (y or copysign(1.0, y) > 0):
            return x, _number(y, x._kind, x._layout)
    a = x if isinstance(x, Var) else to_var(x, y if isinstance(y, Var) else None)
    return a, y if isinstance(y, Var) else to_var(y, a if a is x else None)


def _meeting(a: Var, b: Var) -> tuple[Var, Var]:
    one, other = a._kind, b._kind
    if one is other:
        return a, b
    kind = promote(one, other)
    return cast(a, kind), cast(b, kind)


def binary(op: str, x: object, y: object) -> Var:
    """An arithmetic operator on two operands that broadcast."""
    a, b = (x, y) if type(x) is Var and type(y) is Var else _two(x, y)
    found = few.binary(op, a, b)
    return found if found is not None else apply("BinaryOp", *_meeting(a, b), opType=op)


def pairwise(op: str, reverse: bool = False) -> direct.Pairwise:
    """An arithmetic operator as a function of two operands that broadcast, prepared for constants of few numbers;
    ``reverse``: which gets the second operand first."""
    return direct.pairwise(op, functools.partial(binary, op), reverse)


def comparing(op: str) -> direct.Pairwise:
    """A comparison as a function of two operands, prepared as :func:`pairwise`."""
    return direct.comparing(op, functools.partial(compare, op))


def compare(op: str, x: object, y: object) -> Var:
    """A comparison; 1 where it holds, 0 elsewhere, as ``int``."""
    a, b = _two(x, y)
    found = few.compare(op, a, b)
    return found if found is not None else cast_truth(apply("BinaryOp", *_meeting(a, b), opType=op))


def cast_truth(x: Var) -> Var:
    """Truth values as ``int``, also inside of graphs that are compiled."""
    return apply("Cast", x, dstT="DT_INT32") if x._expr.op not in ("Const", "Cast") else x


def ints(values: object) -> Var:
    """A constant vector of whole numbers, for operands such as shapes and axes."""
    return leaf(np.asarray(values, np.int32).reshape(-1))


def number(value: float | int, kind: DType) -> Var:
    """A constant scalar."""
    return leaf(np.asarray(value, kind.numpy))


__all__ = [
    "apply", "apply_all", "binary", "cast", "cast_truth", "compare", "comparing", "floats", "ints", "layout_of", "leaf",
    "number", "own", "pair", "pairwise", "picture", "to_var",
]  # fmt: skip
