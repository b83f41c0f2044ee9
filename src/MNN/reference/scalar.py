"""The reference implementation of scalar programs (:class:`MNN.ir.scalar.Body`): the measure of every kernel.

Floating point is computed in the dtype of the instruction, ``f16`` and ``bf16`` in ``float32`` with a rounding where a
``cast`` to them or an output asks for it. Choices beyond the rules in :mod:`MNN.ir.scalar`:

- ``floordiv`` of floats is ``floor(x / y)``; ``rem`` is C's ``fmod`` and ``mod`` has the divisor's sign.
- integer ``pow`` wraps; a negative exponent gives the truncated reciprocal (0, except for bases 1 and -1).
- ``shr`` is arithmetic on signed integers; a negative shift counts as "the width or more".
- ``floor ceil round trunc`` leave integers as they are; transcendental operations need floats.
- on bool, ``add``/``max`` are or, ``mul``/``min`` are and, ``sub`` is xor.
- ``argmax``/``argmin`` treat NaN as the largest/smallest; the first (or ``_last``: last) of equals wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from MNN.ir.dtype import DType
from MNN.ir.scalar import ENTRIES, Body, Instr

Array = NDArray[Any]


def compute_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The numpy dtype in which values of ``dtype`` are computed."""
    return np.dtype(np.float32) if dtype in (DType.F16, DType.BF16) else dtype.numpy


def evaluate(body: Body, args: Sequence[Array], tables: Sequence[Array] = ()) -> list[Array]:
    """Runs ``body`` on arrays that broadcast together; one new array per output, of the common shape.

    Row programs may hold ``reduce.*`` instructions: they reduce over the last axis of the common shape and keep it with
    extent 1. An output that depends on nothing but reductions and row constants keeps that extent 1. ``tables``: those
    of the primitive, for ``lookup``.
    """
    shapes = {np.shape(a) for a in args}
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    values: list[Array] = []
    with np.errstate(all="ignore"):
        for instr in body.code:
            if instr.op == "arg":
                assert isinstance(instr.value, int)
                stored = np.asarray(args[instr.value])
                kept = stored.astype(body.args[instr.value].numpy, copy=False)
                values.append(kept.astype(compute_dtype(instr.dtype), copy=False))
            elif instr.op.startswith("reduce."):
                values.append(_reduce(instr, values[instr.args[0]], shape))
            elif instr.op == "lookup":
                entry = (values[instr.args[0]].astype(np.int64) + ENTRIES // 2) % ENTRIES
                values.append(tables[int(instr.value)][entry].astype(instr.dtype.numpy))
            else:
                operands = [values[a] for a in instr.args]
                values.append(_apply(instr, operands, [body.code[a].dtype for a in instr.args]))
        results: list[Array] = []
        reduced = any(i.op.startswith("reduce.") for i in body.code)
        for o in body.outputs:
            value = values[o].astype(body.code[o].dtype.numpy, copy=False)
            own = not any(np.may_share_memory(value, other) for other in (*args, *results))
            if not own or not (reduced or (value.shape == shape and value.flags.c_contiguous)):
                value = value.copy() if reduced else np.broadcast_to(value, shape).copy()
            results.append(value)
    return results


def convert(x: Array, source: DType, to: DType) -> Array:
    """``cast``: saturating from floats to integers, wrapping between integers, ``!= 0`` to bool."""
    if to is DType.BOOL:
        return np.asarray(x != 0)
    if to in (DType.F16, DType.BF16):
        return x.astype(np.float32).astype(to.numpy).astype(np.float32)
    if source.is_float and to.is_int:
        info = np.iinfo(to.numpy.str)
        low, high = float(info.min), float(info.max) + (1.0 if info.bits < 64 else 0.0)  # 2**63 rounds up by itself
        inside = np.where((x >= low) & (x < high), np.trunc(x), 0).astype(to.numpy)
        return np.where(x >= high, to.numpy.type(info.max), np.where(x < low, to.numpy.type(info.min), inside))
    return x.astype(to.numpy)


def undefined(body: Body) -> str:
    """The first operation of a body that has no meaning on its operands' dtype, in words; empty when there is none."""
    for instr in body.code:
        if instr.op in ("arg", "const", "cast", "select", "fma", "lookup") or instr.op.startswith("reduce."):
            continue
        source = body.code[instr.args[0]].dtype
        table = _BOOL if source is DType.BOOL else _INT if source.is_int else _FLOAT
        if source is DType.STR or source.is_narrow or (instr.op not in table and instr.op not in _ANY):
            return f"operation '{instr.op}' has no meaning on {source.value}"
    return ""


def _apply(instr: Instr, x: list[Array], dtypes: list[DType]) -> Array:
    op, dtype = instr.op, instr.dtype
    if op == "const":
        return np.asarray(instr.number()).astype(compute_dtype(dtype))
    if op == "cast":
        return convert(x[0], dtypes[0], dtype)
    if op == "select":
        return np.where(x[0], x[1], x[2])
    if op == "fma":
        return fused(*x) if dtype is DType.F32 else np.asarray(x[0] * x[1] + x[2])
    source = dtypes[0]
    for table in (_BOOL if source is DType.BOOL else _INT if source.is_int else _FLOAT, _ANY):
        if op in table:
            result = np.asarray(table[op](*x))
            return result if result.dtype == np.bool_ else result.astype(compute_dtype(source), copy=False)
    raise TypeError(f"operation '{op}' has no meaning on {source.value}")


def fused(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` of f32 with one rounding: the product is exact in f64, and its sum is rounded there to odd, from
    which rounding again gives what rounding once does (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008)."""
    with np.errstate(invalid="ignore", over="ignore"):
        product, wide = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
        total = np.asarray(product + wide)
        back = total - product
        error = (product - (total - back)) + (wide - back)
        odd = (total.view(np.int64) & 1).astype(np.bool_)
        moved = np.nextafter(total, np.copysign(np.inf, error))
        kept = odd | ~np.isfinite(total) | ~(error != 0)
        return np.where(kept, total, moved).astype(np.float32)


def _reduce(instr: Instr, x: Array, shape: tuple[int, ...]) -> Array:
    op = instr.op.removeprefix("reduce.")
    x = np.broadcast_to(x, shape)
    if op == "sum":
        return np.asarray(x.sum(-1, keepdims=True, dtype=x.dtype))
    if op == "prod":
        return np.asarray(x.prod(-1, keepdims=True, dtype=x.dtype))
    if op in ("max", "min"):
        return np.asarray(x.max(-1, keepdims=True) if op == "max" else x.min(-1, keepdims=True))
    pick = np.argmax if op.startswith("argmax") else np.argmin
    if op.endswith("_last"):
        return np.asarray(x.shape[-1] - 1 - pick(x[..., ::-1], axis=-1, keepdims=True)).astype(instr.dtype.numpy)
    return np.asarray(pick(x, axis=-1, keepdims=True)).astype(instr.dtype.numpy)


# Integers. Division goes through guarded operands: numpy's own result for a zero divisor is not defined.


def _trunc_div(x: Array, y: Array) -> Array:
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    q = x // safe
    q = np.where((x - q * safe != 0) & ((x < 0) != (safe < 0)), q + 1, q)
    return np.where(y == 0, 0, q)


def _int_rem(x: Array, y: Array) -> Array:
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    return np.where(y == 0, 0, x - _trunc_div(x, safe) * safe)


def _floor_div(x: Array, y: Array) -> Array:
    return np.where(y == 0, 0, x // np.where(y == 0, 1, y).astype(y.dtype))


def _int_mod(x: Array, y: Array) -> Array:
    return np.where(y == 0, 0, x % np.where(y == 0, 1, y).astype(y.dtype))


def _int_pow(x: Array, y: Array) -> Array:
    negative = np.where(x == 1, 1, np.where((x == -1), np.where(y & 1, -1, 1), 0)) if x.dtype.kind == "i" else x * 0
    result = np.power(x, np.where(y < 0, 0, y).astype(y.dtype))
    return np.where(y < 0, negative, result)


def _shift(left: bool) -> Callable[[Array, Array], Array]:
    def shift(x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8
        inside = (y >= 0) & (y < bits)
        amount = np.where(inside, y, 0).astype(x.dtype)
        return np.where(inside, np.left_shift(x, amount) if left else np.right_shift(x, amount), 0)

    return shift


def _float_mod(x: Array, y: Array) -> Array:
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function in float64, rounded to x's dtype."""
    return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)


def _one(x: Array) -> Any:
    return x.dtype.type(1)


_ANY: dict[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "min": np.minimum, "max": np.maximum, "isnan": lambda x: np.zeros(x.shape, np.bool_),
    "isinf": lambda x: np.zeros(x.shape, np.bool_),
}  # fmt: skip
_BOOL: dict[str, Callable[..., Any]] = {
    "not": np.logical_not, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
    "add": np.logical_or, "mul": np.logical_and, "sub": np.logical_xor,
    "max": np.logical_or, "min": np.logical_and,
}  # fmt: skip
_INT: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert,
    "floor": np.positive, "ceil": np.positive, "round": np.positive, "trunc": np.positive,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _trunc_div, "rem": _int_rem,
    "floordiv": _floor_div, "mod": _int_mod, "pow": _int_pow, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": _shift(True), "shr": _shift(False),
}  # fmt: skip
_FLOAT: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda x: _one(x) / np.sqrt(x),
    "recip": lambda x: _one(x) / x, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p,
    "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": lambda x, y: np.floor(x / y), "mod": _float_mod, "rem": np.fmod, "pow": np.power,
    "atan2": np.arctan2,
}  # fmt: skip
