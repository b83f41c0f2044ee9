"""Arithmetic of Python's numbers in programs: computed at once where they are known, else in the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.frontends.common.expressions import select
from MNN.frontends.torch.builder import TorchBuilder, number_type
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_LARGEST = 1 << 64


def _power(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int) and y >= 0 and abs(x).bit_length() * y > 1024:
        raise OverflowError("a power of more than 1024 bits")
    return x**y


def _shifted(x: int, y: int) -> int:
    if not 0 <= y < 64:
        raise OverflowError(f"a shift by {y}")
    return x << y


_KNOWN: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "truediv": operator.truediv, "mod": operator.mod, "pow": _power, "neg": operator.neg, "pos": operator.pos,
    "abs": abs, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "and": lambda x, y: x and y if isinstance(x, bool) else x & y,
    "or": lambda x, y: x or y if isinstance(x, bool) else x | y, "xor": operator.xor, "not": operator.not_,
    "max": max, "min": min, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "ceil": math.ceil,
    "floor": math.floor, "trunc": math.trunc, "round": round, "float": float, "int": int, "bool": bool,
    "lshift": _shifted, "rshift": operator.rshift, "sin": math.sin, "cos": math.cos, "tan": math.tan, "log2": math.log2,
    "sum": lambda *a: sum(a), "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite, "fmod": math.fmod,
    "remainder": operator.mod, "copysign": math.copysign, "log1p": math.log1p, "tanh": math.tanh, "pow_float": pow,
    "ite": lambda condition, x, y: x if condition else y,
}  # fmt: skip
_BINARY = {
    "add": "ADD", "sub": "SUB", "mul": "MUL", "pow": "POW", "max": "MAXIMUM", "min": "MINIMUM", "mod": "MOD",
    "remainder": "MOD", "floordiv": "FLOORDIV", "and": "BITWISE_AND", "or": "BITWISE_OR", "xor": "BITWISE_XOR",
}  # fmt: skip
_COMPARED = {
    "eq": "EQUAL", "ne": "NOTEQUAL", "lt": "LESS", "le": "LESS_EQUAL", "gt": "GREATER", "ge": "GREATER_EQUAL",
}  # fmt: skip
_TRUTHS = {"and": "MUL", "or": "LOGICALOR", "xor": "LOGICALXOR"}
_OF_FLOATS = {
    "sqrt": "SQRT", "exp": "EXP", "log": "LOG", "sin": "SIN", "cos": "COS", "tan": "TAN", "tanh": "TANH",
    "log1p": "LOG1P",
}  # fmt: skip
_TO_INTS = {"ceil": "CEIL", "floor": "FLOOR", "round": "ROUND", "trunc": ""}
NAMES = frozenset(_KNOWN)


def compute(ctx: TorchBuilder, name: str, *args: Scalar) -> Scalar:
    """The result of a function of numbers. Raises ``LookupError`` for one that is not known."""
    if not any(isinstance(a, Number) for a in args):
        found = _KNOWN[name](*args)
        if isinstance(found, int) and abs(found) > _LARGEST:
            raise ctx.unsupported(f"a number of {found.bit_length()} bits")
        return found  # type: ignore[no-any-return]
    if name == "ite" and not isinstance(args[0], Number):
        return args[1] if args[0] else args[2]
    kinds = [number_type(a) for a in args]
    floats = DType.F64 in kinds
    wide = DType.F64 if floats else DType.I64
    if name == "sum":
        total: Scalar = 0
        for a in args:
            total = compute(ctx, "add", total, a)
        return total
    if name in ("max", "min") and len(args) != 2:
        first, *others = args
        return compute(ctx, name, first, compute(ctx, name, *others)) if len(others) > 1 else first
    if name == "ite":
        wide = DType.F64 if DType.F64 in kinds[1:] else DType.BOOL if set(kinds) == {DType.BOOL} else DType.I64
        chosen = [ctx.scalar(a, wide) for a in args[1:]]
        return _number(select(ctx, ctx.scalar(args[0], DType.BOOL), *chosen), wide)
    if name in _TRUTHS and set(kinds) == {DType.BOOL}:
        return _made(ctx, "BinaryOp", DType.BOOL, [ctx.scalar(a, DType.BOOL) for a in args], _TRUTHS[name])
    if name == "not":
        before = args[0].at_zero if isinstance(args[0], Number) else None
        made = ctx.op("Not", ctx.not_zero(ctx.scalar(args[0], kinds[0])))
        return Number(made, at_zero=None if before is None else not before)
    if name in ("floordiv", "mod", "remainder") and floats:
        x, y = (ctx.scalar(a, DType.F64) for a in args)
        if name != "floordiv":
            return _made(ctx, "BinaryOp", DType.F64, [x, y], "FLOORMOD")
        return Number(ctx.unary("FLOOR", ctx.op("BinaryOp", x, y, opType="REALDIV")))
    if name in _BINARY:
        return _made(ctx, "BinaryOp", wide, [ctx.scalar(a, wide) for a in args], _BINARY[name])
    if name in _COMPARED:
        if _are_one(*args):
            return bool(_KNOWN[name](0, 0))
        made = ctx.op("BinaryOp", *(ctx.scalar(a, wide) for a in args), opType=_COMPARED[name])
        return _number(made, DType.BOOL, _at_zero(name, args))
    if name == "truediv":
        return _made(ctx, "BinaryOp", DType.F64, [ctx.scalar(a, DType.F64) for a in args], "REALDIV")
    if name in ("neg", "abs"):
        return _made(ctx, "UnaryOp", wide, [ctx.scalar(args[0], wide)], name.upper())
    if name in _OF_FLOATS:
        return _made(ctx, "UnaryOp", DType.F64, [ctx.scalar(args[0], DType.F64)], _OF_FLOATS[name])
    if name in _TO_INTS and len(args) == 1:
        whole = ctx.scalar(args[0], DType.F64) if floats else ctx.scalar(args[0], DType.I64)
        if floats and _TO_INTS[name]:
            whole = ctx.unary(_TO_INTS[name], whole)
        return _number(ctx.cast(whole, DType.I64), DType.I64)
    if name in ("float", "int", "bool", "pos"):
        kind = {"float": DType.F64, "int": DType.I64, "bool": DType.BOOL}.get(name, wide)
        return _number(ctx.scalar(args[0], kind), kind)
    raise LookupError(name)


def _are_one(x: Scalar, y: Scalar) -> bool:
    """Whether both are the same size of the program."""
    return isinstance(x, Number) and isinstance(y, Number) and (x.value is y.value or x.size == y.size != "")


def same(ctx: TorchBuilder, x: Sequence[Any], y: Sequence[Any]) -> Scalar:
    """Whether lists hold the same numbers."""
    if len(x) != len(y):
        return False
    found: Scalar = True
    for a, b in zip(x, y, strict=True):
        if isinstance(a, Number) or isinstance(b, Number):
            equal = compute(ctx, "eq", a, b)
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            equal = same(ctx, a, b)
        else:
            equal = bool(a == b)
        if equal is False or found is False:
            return False
        found = equal if found is True else found if equal is True else compute(ctx, "and", found, equal)
    return found


def _made(ctx: TorchBuilder, op: str, dtype: DType, operands: list[Value], kind: str) -> Number:
    return _number(ctx.op(op, *operands, opType=kind), dtype)


def _number(value: Value, dtype: DType, at_zero: bool | None = None) -> Number:
    value.dtype = value.dtype or dtype
    value.shape = () if value.shape is None else value.shape
    return Number(value, at_zero=at_zero)


def _at_zero(name: str, args: tuple[Scalar, ...]) -> bool | None:
    """What a comparison of a count with a number is for a count of 0, if it is the contrary for all others."""
    at_0, *others = (_KNOWN[name](*(n if isinstance(a, Number) else a for a in args)) for n in (0, 1, 2, _LARGEST))
    return at_0 if all(other != at_0 for other in others) else None


def known_number(ctx: TorchBuilder, x: Scalar) -> Scalar:
    """A number of the graph that turns out to be known."""
    if isinstance(x, Number):
        found = ctx.constant(x.value)
        if found is not None:
            return found.reshape(-1)[0].item()  # type: ignore[no-any-return]
        sizes = ctx.model.shape_inference.known_ints(x.value)
        if sizes is not None and len(sizes) == 1 and x.dtype is not DType.F64:
            return bool(sizes[0]) if x.dtype is DType.BOOL else int(sizes[0])
    return x


def number_of(array: np.ndarray) -> Scalar:
    """The only element of an array."""
    return array.reshape(-1)[0].item()  # type: ignore[no-any-return]
