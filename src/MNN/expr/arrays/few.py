"""Functions of constants that numpy answers at once, where finding what computes them otherwise takes longer.

That is so for few numbers, and for what numpy does as fast as memory gives them whatever their count: joining,
positions of extremes, running sums. Results are those of the reference implementation, bit by bit, whose functions they
are; anything else, operands that do not fit among them, is left to the operators: those functions give None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.expr.arrays.quiet import POOLED, pooled, run, silently
from MNN.expr.fused import Deferred, copies
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.node import Expr
from MNN.expr.types import data_format
from MNN.expr.var import Var
from MNN.ir.dtype import DType

FEW = 1 << 14
"""Numbers up to which numpy is asked for functions that take longer than memory does."""
ALONE = 1 << 18
"""Numbers up to which a constant is without a node, and numpy is asked for what no loop is made of."""
CHAINED = 1 << 16
"""Numbers up to which it is asked for elementwise functions: of more, two in one loop are faster than numpy's calls."""
MANY = 1 << 21
"""Numbers up to which it is asked for extremes, which it finds as fast as the caches give them."""
FLOATS = (DType.F32, DType.F64)
NUMBERS = (*FLOATS, DType.I32, DType.I64)
COPIED = 1 << 12
"""Numbers up to which a copy costs less than what later functions lose by other strides."""
MISFITS = (ValueError, IndexError, TypeError)

Array = np.ndarray
Function = Callable[..., Any]
_new: Any = object.__new__


def _squared_difference(x: Array, y: Array) -> Any:
    found = np.subtract(x, y)
    return np.multiply(found, found)


def _reciprocal(x: Array) -> Any:
    return np.divide(x.dtype.type(1), x)


UNARY: dict[str, Function] = {
    "ABS": np.abs, "NEG": np.negative, "SQRT": np.sqrt, "EXP": np.exp, "LOG": np.log, "LOG1P": np.log1p,
    "EXPM1": np.expm1, "SIN": np.sin, "COS": np.cos, "TAN": np.tan, "ASIN": np.arcsin, "ACOS": np.arccos,
    "ATAN": np.arctan, "SINH": np.sinh, "COSH": np.cosh, "TANH": np.tanh, "ASINH": np.arcsinh, "ACOSH": np.arccosh,
    "ATANH": np.arctanh, "FLOOR": np.floor, "CEIL": np.ceil, "SIGN": np.sign, "SQUARE": np.square,
    "RECIPROCAL": _reciprocal,
}  # fmt: skip
OF_NUMBERS: dict[str, Function] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum,
}  # fmt: skip
OF_FLOATS: dict[str, Function] = {
    "REALDIV": np.divide, "POW": np.power, "ATAN2": np.arctan2, "SquaredDifference": _squared_difference,
}  # fmt: skip
_BINARY: dict[tuple[str, DType], Function] = {
    **{(op, kind): function for op, function in OF_NUMBERS.items() for kind in NUMBERS},
    **{(op, kind): function for op, function in OF_FLOATS.items() for kind in FLOATS},
    ("MAXIMUM", DType.U8): np.maximum,
    ("MINIMUM", DType.U8): np.minimum,
}
COMPARING: dict[str, Function] = {
    "EQUAL": np.equal, "NOTEQUAL": np.not_equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less, "LESS_EQUAL": np.less_equal,
}  # fmt: skip
REDUCING: dict[str, Function] = {
    "SUM": np.add.reduce, "PROD": np.multiply.reduce, "MAXIMUM": np.maximum.reduce, "MINIMUM": np.minimum.reduce,
}  # fmt: skip
_EXTREMES = ("MAXIMUM", "MINIMUM")
LIGHT = {*OF_NUMBERS, "REALDIV", "ABS", "NEG", "SIGN", "FLOOR", "CEIL", "SQUARE", "RECIPROCAL", "SQRT"}
"""What numpy computes as fast as the caches give it numbers."""
_PLACES = (int, slice)


def constant(found: Any, kind: DType, layout: data_format) -> Var:
    """A Var of a result, made without the calls that constructors are: they are a third of what an addition costs."""
    array = found if type(found) is Array else np.asarray(found, kind.numpy)
    made: Var = _new(Var)
    if array.size <= ALONE and kind in NUMBERS:
        made._few, made._layout, made._index, made._unconverted = array, layout, 0, None
        return made
    expr = _new(Expr)
    expr.leaf_type, expr._held = (kind, array.shape), array
    made._node, made._index, made._layout, made._unconverted, made._few = expr, 0, layout, None, None
    return made


def _held(x: Var) -> Array | None:
    """The numbers of a constant that has them."""
    if SETTINGS.lazy:
        return None
    few = x._few
    if few is not None:
        return few
    if type(x._node) is Deferred:
        return None
    expr = x._expr
    return expr._held if expr.op == "Const" else None


def _ready(x: Var) -> Array | None:
    """As :func:`_held`; few numbers that are not computed yet are computed."""
    found = _held(x)
    return x._now(FEW) if found is None and not SETTINGS.lazy else found


def _both(a: Var, b: Var) -> data_format | None:
    """The layout of a result; None where it takes thought."""
    return a._layout if a._layout is b._layout else None


def function(op: str, operands: int) -> Function | None:
    """numpy's function for an operator on so many operands."""
    return UNARY.get(op) if operands == 1 else OF_NUMBERS.get(op, OF_FLOATS.get(op))


ROUND = "to the nearest"
"""Stands for :func:`rounded` where others have an operator, which there is none for."""


def limit(op: str) -> int:
    """Numbers up to which numpy is asked for an operator on each."""
    return CHAINED if op in LIGHT or op == ROUND else ALONE if op in COMPARING else FEW


def _pair(x: Var, y: Var, most: int) -> tuple[Array, Array] | None:
    """The numbers of two constants that have one element type and layout, at most so many of each."""
    a, b = _held(x), _held(y)
    if a is None or b is None or a.size > most or b.size > most or x._layout is not y._layout or x._kind is not y._kind:
        return None
    return a, b


def unary(op: str, x: Var) -> Var | None:
    """A function of each number, of floats."""
    array, function = _held(x), UNARY.get(op)
    if function is None or array is None or array.size > limit(op):
        return None
    kind = x._kind
    return constant(pooled(function, array), kind, x._layout) if kind in FLOATS else None


_HALF = {np.dtype(t): np.nextafter(t(0.5), t(0)) for t in (np.float32, np.float64)}
"""The largest number below a half: what is added to it to be cut off must not be rounded up."""


def rounded(array: Array) -> Any:
    """The nearest whole numbers, halves away from zero, of floats."""
    found = np.trunc(np.add(np.copysign(_HALF[array.dtype], array), array))
    return np.add(found, array.dtype.type(0))  # 0 is not below zero


_I32 = np.dtype(np.int32)
_ENDS = (-(1 << 31), (1 << 31) - 1)
_SQUARES = float(1 << 61)
"""A sum of squares up to which all numbers fit int32, however it was rounded."""
_least: Any = np.minimum.reduce
_most: Any = np.maximum.reduce


def cast(x: Var, kind: DType) -> Var | None:
    """Numbers in an element type that has them all; or of f32 as int32, where all are inside of it."""
    array = _ready(x)
    if array is None or array.size > ALONE:
        return None
    if kind is DType.I32 and x._kind is DType.F32:
        found = silently(array.astype, _I32)
        # processors give an end of the range for what lies outside, or 0 for what is no number, as is wanted here
        inside = silently(np.vdot, array, array) < _SQUARES  # which is there sooner than extremes
        if not inside and array.size:
            inside = _least(found, None) > _ENDS[0] and _most(found, None) < _ENDS[1]
        return constant(found, kind, x._layout) if inside else None
    if not np.can_cast(array.dtype, kind.numpy):
        return None
    return constant(array.astype(kind.numpy), kind, x._layout)


def binary(op: str, x: Var, y: Var) -> Var | None:
    """A function of pairs of numbers, which broadcast."""
    pair = _pair(x, y, limit(op))
    if pair is None:
        return None
    kind = x._kind
    function = _BINARY.get((op, kind))
    if function is None:
        return None
    try:
        return constant(pooled(function, *pair), kind, x._layout)
    except MISFITS:
        return None


def clipped(x: Var, low: float, high: float) -> Var | None:
    """Numbers limited to an interval."""
    array = _held(x)
    if array is None or array.size > ALONE or x._kind is not DType.F32:
        return None
    found = silently(limited, array, np.float32(low), np.float32(high))
    return constant(found, DType.F32, x._layout)


def _clip() -> Function:
    core: Any = getattr(np, "_core", None)
    core = core if hasattr(core, "umath") else np.core  # before numpy 2, where _core is there for unpickling alone
    found: Function = core.umath.clip  # what numpy.clip() calls
    return found


def limited(array: Array, low: Any, high: Any) -> Any:
    """Numbers within bounds of their element type."""
    return CLIP(array, low, high)


CLIP = _clip()


def compare(op: str, x: Var, y: Var) -> Var | None:
    """A comparison of pairs of numbers, which broadcast: 0 and 1, as ``int``."""
    pair, function = _pair(x, y, ALONE), COMPARING.get(op)
    if pair is None or function is None:
        return None
    try:
        return constant(silently(function, *pair).astype(np.int32), DType.I32, x._layout)
    except MISFITS:
        return None


def select(condition: Var, x: Var, y: Var) -> Var | None:
    """One of two numbers in one element type, where the condition is a whole number."""
    c, a, b, layout = _held(condition), _held(x), _held(y), _both(x, y)
    if c is None or a is None or b is None or layout is None or c.size > FEW or a.size > FEW or b.size > FEW:
        return None
    if c.dtype.kind == "f":
        return None
    try:
        return constant(np.where(c, a, b), x._kind, layout)
    except MISFITS:
        return None


def reduce(operation: str, x: Var, axes: Sequence[int], keepdims: bool) -> Var | None:
    """A sum, product, mean or extreme over axes, all of them where none is named."""
    array = _ready(x)
    if array is None or not array.size or not array.ndim:
        return None
    if array.size > (MANY if operation in _EXTREMES else ALONE):
        return None
    kind = x._kind
    mean = operation == "MEAN"
    function = REDUCING.get("SUM" if mean else operation)
    if function is None or (kind not in (FLOATS if mean else NUMBERS) and operation not in _EXTREMES):
        return None
    over = None if not axes else tuple(axes)
    try:
        found = silently(function, array, over, array.dtype, None, keepdims)
    except MISFITS:
        return None
    if mean:
        found = np.divide(found, array.dtype.type(array.size // max(np.size(found), 1)))
    return constant(found, kind, x._layout)


def variance(x: Var, axes: Sequence[int], keepdims: bool, less: int) -> Var | None:
    """The mean of squared differences from the mean, of floats; the divisor is the count less ``less``."""
    array = _ready(x)
    if array is None or not array.size or not array.ndim:
        return None
    kind = x._kind
    if kind not in FLOATS or array.size > ALONE:
        return None
    over = None if not axes else tuple(axes)
    try:
        found = silently(spread, array, over, keepdims, less)
    except MISFITS:
        return None
    return None if found is None else constant(found, kind, x._layout)


def spread(array: Array, over: int | tuple[int, ...] | None, keepdims: bool, less: int) -> Any:
    """The mean of squared differences from the mean; None where the divisor is none."""
    kind = array.dtype
    add: Any = np.add.reduce
    total = add(array, over, kind, None, True)
    count = array.size // total.size
    if count <= less:
        return None
    apart = np.subtract(array, np.divide(total, kind.type(count)))
    squares = add(np.multiply(apart, apart), over, kind, None, keepdims)
    return np.divide(squares, kind.type(count - less))


def position(x: Var, axis: int, high: bool) -> Var | None:
    """Where the extreme along an axis is."""
    array = _ready(x)
    if array is None or not array.size or not array.ndim or x._kind not in NUMBERS:
        return None
    try:
        found = (np.argmax if high else np.argmin)(array, axis)
    except MISFITS:
        return None
    return constant(np.asarray(found, np.int32), DType.I32, x._layout)


def running_sum(x: Var, axis: int) -> Var | None:
    """Sums of what comes before along an axis, and itself."""
    array = _ready(x)
    if array is None or not array.size or x._kind not in NUMBERS:
        return None
    found = silently(np.add.accumulate, copies.contiguous(array), axis, array.dtype)
    return constant(found, x._kind, x._layout)


def joined(parts: Sequence[Var], axis: int, kind: DType) -> Var | None:
    """Tensors of one element type one after the other."""
    layout = parts[0]._layout
    arrays = [_ready(p) for p in parts if p._layout is layout]
    if len(arrays) < len(parts) or any(a is None for a in arrays):
        return None
    try:
        given: list[Any] = arrays  # none is None
        found: Array = (copies.joined if sum([a.size for a in given]) > ALONE else np.concatenate)(given, axis)
    except MISFITS:
        return None
    return constant(found, kind, layout) if found.flags.c_contiguous else None


def product(x: Var, y: Var, most: float) -> Var | None:
    """The matrix product of operands in one element type, of at most so many multiplications."""
    a, b, layout = _ready(x), _ready(y), _both(x, y)
    if a is None or b is None or layout is None or not a.ndim or not b.ndim or not a.size or not b.size:
        return None
    if x._kind not in NUMBERS or a.size * (b.shape[-1] if b.ndim > 1 else 1) > most:
        return None
    try:
        return constant(silently(np.matmul, a, b), x._kind, layout)
    except MISFITS:
        return None


def part(x: Var, key: object) -> Any:
    """The part of a constant that positions and slices choose; a single element is a Python number."""
    array: Any = _ready(x)
    if array is None or not (type(key) in _PLACES or (type(key) is tuple and all(type(k) in _PLACES for k in key))):
        return None
    try:
        found = array[key]
    except MISFITS:
        return None
    if type(found) is not Array:
        return found.item()
    return constant(copies.fresh(found) if found.size > ALONE else found.copy("C"), x._kind, x._layout)


def moved(x: Var, order: Sequence[int]) -> Var | None:
    """Axes in another order."""
    array = _ready(x)
    if array is None or array.size > FEW:
        return None
    try:
        found = array.transpose(order)
    except MISFITS:
        return None
    return constant(found.copy("C"), x._kind, x._layout)


__all__ = [
    "ALONE", "CHAINED", "CLIP", "COMPARING", "COPIED", "FEW", "FLOATS", "LIGHT", "MANY", "MISFITS", "NUMBERS",
    "OF_FLOATS", "OF_NUMBERS", "POOLED", "REDUCING", "ROUND", "UNARY", "Array", "binary", "cast", "clipped", "compare",
    "constant", "function", "joined", "limit", "limited", "moved", "part", "pooled", "position", "product", "reduce",
    "rounded", "run",
    "running_sum", "select", "silently", "spread", "unary", "variance",
]  # fmt: skip
