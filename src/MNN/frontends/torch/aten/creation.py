"""Tensors from nothing, or in the shape of others."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from MNN.frontends.torch.aten.casting import item
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Ints, Number, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import known_number
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

LARGE = 1 << 12
"""Constants of more elements are made while running."""
MOST = 1 << 12
"""Rows of matrices that are made while converting."""


def bounded(ctx: TorchBuilder, count: object, most: int, what: str) -> int:
    """A number that a constant's size follows from. Raises :class:`UnsupportedError` where it is too large."""
    found = ctx.known(count, what)
    if not 0 <= found <= most:
        raise ctx.unsupported(f"{found} {what} (at most {most})")
    return found


def filled(ctx: TorchBuilder, sizes: Ints, number: Scalar, dtype: DType) -> Value:
    """A tensor of these sizes full of a number."""
    value = ctx.scalar(number, dtype)
    known = [n for n in sizes if not isinstance(n, Number)]
    if len(known) == len(sizes) and value.is_const and np.prod(known, dtype=object) <= LARGE:
        return ctx.const(np.full(known, value.array().reshape(()), dtype.numpy))
    made = ctx.op("Fill", ctx.ints(sizes), value)
    made.dtype = dtype
    return made


def _like(ctx: TorchBuilder, x: Value, number: Scalar, dtype: DType | int | None) -> Value:
    kind = ctx.element_type(dtype, ctx.type_of(x))
    made = ctx.op("Fill", ctx.shape_like(x), ctx.scalar(number, kind))
    made.dtype = kind
    return made


@aten("zeros", "empty", "empty_permuted", "new_zeros_sizes")
def zeros(ctx: TorchBuilder, size: Ints, *_: Any, dtype: DType | int | None = None) -> Value:
    """What is not written to (``empty``) is zero here."""
    return filled(ctx, size, 0, ctx.element_type(dtype if dtype is not None or not _ else _type_among(_)))


def _type_among(args: tuple[Any, ...]) -> DType | int | None:
    """TorchScript of older files gives the type by position."""
    first = args[0]
    return first if isinstance(first, (DType, int)) and not isinstance(first, bool) else None


@aten("ones")
def ones(ctx: TorchBuilder, size: Ints, *_: Any, dtype: DType | int | None = None) -> Value:
    return filled(ctx, size, 1, ctx.element_type(dtype if dtype is not None or not _ else _type_among(_)))


@aten("empty_strided")
def empty_strided(ctx: TorchBuilder, size: Ints, stride: Ints, dtype: DType | int | None = None) -> Value:
    return filled(ctx, size, 0, ctx.element_type(dtype))


@aten("full")
def full(ctx: TorchBuilder, size: Ints, value: Scalar | Value, *_: Any, dtype: DType | int | None = None) -> Value:
    kind = ctx.common(value)
    kind = ctx.element_type(dtype, DType.F32 if kind is DType.F64 and not isinstance(value, Value) else kind)
    if isinstance(value, Value):
        return ctx.op("Fill", ctx.ints(size), ctx.cast(value, kind))
    return filled(ctx, size, value, kind)


@aten("zeros_like", "empty_like")
def zeros_like(ctx: TorchBuilder, x: Value, *_: Any, dtype: DType | int | None = None) -> Value:
    return _like(ctx, x, 0, dtype if dtype is not None or not _ else _type_among(_))


@aten("ones_like")
def ones_like(ctx: TorchBuilder, x: Value, *_: Any, dtype: DType | int | None = None) -> Value:
    return _like(ctx, x, 1, dtype if dtype is not None or not _ else _type_among(_))


@aten("full_like")
def full_like(ctx: TorchBuilder, x: Value, value: Scalar, *_: Any, dtype: DType | int | None = None) -> Value:
    return _like(ctx, x, value, dtype if dtype is not None or not _ else _type_among(_))


@aten("fill")
def fill(ctx: TorchBuilder, x: Value, value: Scalar | Value) -> Value:
    if isinstance(value, Value):
        return ctx.op("Fill", ctx.shape_like(x), ctx.cast(value, ctx.type_of(x)))
    return _like(ctx, x, value, None)


@aten("zero")
def zero(ctx: TorchBuilder, x: Value) -> Value:
    return _like(ctx, x, 0, None)


@aten("new_zeros", "new_empty")
def new_zeros(ctx: TorchBuilder, x: Value, size: Ints, *_: Any, dtype: DType | int | None = None) -> Value:
    return filled(ctx, size, 0, ctx.element_type(dtype, ctx.type_of(x)))


@aten("new_empty_strided")
def new_empty_strided(ctx: TorchBuilder, x: Value, size: Ints, stride: Ints, dtype: DType | int | None = None) -> Value:
    return filled(ctx, size, 0, ctx.element_type(dtype, ctx.type_of(x)))


@aten("new_ones")
def new_ones(ctx: TorchBuilder, x: Value, size: Ints, *_: Any, dtype: DType | int | None = None) -> Value:
    return filled(ctx, size, 1, ctx.element_type(dtype, ctx.type_of(x)))


@aten("new_full")
def new_full(
    ctx: TorchBuilder, x: Value, size: Ints, value: Scalar, *_: Any, dtype: DType | int | None = None
) -> Value:
    return filled(ctx, size, value, ctx.element_type(dtype, ctx.type_of(x)))


@aten("arange", "range")
def arange(ctx: TorchBuilder, *args: Scalar | Value, dtype: DType | int | None = None) -> Value:
    """``arange(end)``, ``(start, end)`` or ``(start, end, step)``; ``range`` includes the end."""
    numbers = [known_number(ctx, item(ctx, a)) if isinstance(a, Value) else a for a in args[:3]]
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    floats = any(isinstance(n, float) or (isinstance(n, Number) and n.dtype is DType.F64) for n in (start, end, step))
    kind = ctx.element_type(dtype, DType.F32 if floats else DType.I64)
    if floats and not kind.is_float and all(isinstance(n, (int, float)) for n in (start, end, step)):
        first, stride = int(start), int(step)  # type: ignore[arg-type]
        if kind is not DType.I64:  # torch counts with the floats, for all but this type
            count = bounded(ctx, math.ceil((end - start) / step), MOST**2, "numbers")  # type: ignore[operator]
            return ctx.const((first + stride * np.arange(count)).astype(kind.numpy))
        start, end, step, floats = first, int(end), stride, False  # type: ignore[arg-type]
    if not any(isinstance(n, Number) for n in (start, end, step)):
        wide = np.arange(start, end, step) if floats else np.arange(int(start), int(end), int(step))  # type: ignore[arg-type]
        if wide.size <= LARGE:
            return ctx.const(wide.astype(kind.numpy))
    inner = (
        kind
        if kind in (DType.F32, DType.F64, DType.I64, DType.I32) and not floats
        else DType.F32
        if floats
        else DType.I64
    )
    made = ctx.op("Range", *[ctx.scalar(n, inner) for n in (start, end, step)])
    return ctx.cast(made, kind)


@aten("linspace")
def linspace(
    ctx: TorchBuilder, start: Scalar | Value, end: Scalar | Value, steps: int, dtype: DType | int | None = None
) -> Value:
    kind = ctx.element_type(dtype)
    if isinstance(start, (int, float)) and isinstance(end, (int, float)):
        wide = np.linspace(start, end, bounded(ctx, steps, MOST**2, "steps"), dtype=np.float64)
        return ctx.const(wide.astype(kind.numpy))
    made = ctx.op("LinSpace", ctx.operand(start, DType.F32), ctx.operand(end, DType.F32), ctx.const(np.int32(steps)))
    return ctx.cast(made, kind)


@aten("logspace")
def logspace(
    ctx: TorchBuilder, start: Scalar | Value, end: Scalar | Value, steps: int, base: Scalar | Value = 10.0,
    dtype: DType | int | None = None,
) -> Value:  # fmt: skip
    """Of integers the bounds are cut to integers, as torch does."""
    kind = ctx.element_type(dtype)
    given = [ctx.operand(v, DType.F64) for v in (start, end, base)]
    if not kind.is_float:
        given[:2] = [ctx.cast(ctx.cast(v, DType.I64), DType.F64) for v in given[:2]]
    low, high, power = (ctx.reshape(v, [1]) for v in given)
    shares = ctx.const(np.linspace(0, 1, bounded(ctx, steps, MOST**2, "steps")))
    exponents = ctx.binary("ADD", ctx.binary("MUL", shares, ctx.binary("SUB", high, low)), low)
    return ctx.cast(ctx.binary("POW", power, exponents), kind)


_WINDOWS: dict[str, tuple[float, ...]] = {
    "hann_window": (0.5, 0.5), "hamming_window": (0.54, 0.46), "blackman_window": (0.42, 0.5, 0.08),
}  # fmt: skip
"""Weights of cosines whose signs alternate."""


@aten(*_WINDOWS)
def window(
    ctx: TorchBuilder, length: int, periodic: bool = True, *weights: float, dtype: DType | int | None = None
) -> Value:
    """A hamming window may be given ``alpha`` and ``beta``."""
    count = bounded(ctx, length, MOST**2, "places of a window")
    given = (*weights, *_WINDOWS[ctx.name][len(weights) :])
    angles = 2 * np.pi * np.arange(count) / max(count if periodic else count - 1, 1)
    wide = sum(w * (-1) ** i * np.cos(i * angles) for i, w in enumerate(given)) if count > 1 else np.ones(count)
    return ctx.const(np.asarray(wide).astype(ctx.element_type(dtype).numpy))


@aten("bartlett_window")
def bartlett_window(
    ctx: TorchBuilder, length: int, periodic: bool = True, *, dtype: DType | int | None = None
) -> Value:
    """A triangle."""
    count = bounded(ctx, length, MOST**2, "places of a window")
    wide = np.bartlett(count + 1)[:count] if periodic and count > 1 else np.bartlett(count)
    return ctx.const(wide.astype(ctx.element_type(dtype).numpy))


@aten("kaiser_window")
def kaiser_window(
    ctx: TorchBuilder, length: int, periodic: bool = True, beta: float = 12.0, *, dtype: DType | int | None = None
) -> Value:
    count = bounded(ctx, length, MOST**2, "places of a window")
    wide = np.kaiser(count + 1, beta)[:count] if periodic and count > 1 else np.kaiser(count, beta)
    return ctx.const(wide.astype(ctx.element_type(dtype).numpy))


@aten("eye")
def eye(ctx: TorchBuilder, n: int, *rest: Any, dtype: DType | int | None = None) -> Value:
    m = rest[0] if rest and isinstance(rest[0], (int, Number)) else n
    kind = ctx.element_type(dtype)
    if isinstance(n, Number) or isinstance(m, Number):
        shape = filled(ctx, [n, m], 0, kind)
        return ctx.op("EyeLike", shape, ctx.const(np.int32(0)), outputDataType=data_type(kind))
    rows, columns = (bounded(ctx, v, MOST, "rows of a unit matrix") for v in (n, m))
    return ctx.const(np.eye(rows, columns, dtype=kind.numpy))


@aten("tril_indices", "triu_indices")
def triangle_indices(ctx: TorchBuilder, row: int, col: int, offset: int = 0, dtype: DType | int | None = None) -> Value:
    rows, columns = (bounded(ctx, v, MOST, "rows of a triangle") for v in (row, col))
    lower = "tril" in ctx.name
    found = np.tril_indices(rows, offset, columns) if lower else np.triu_indices(rows, offset, columns)
    return ctx.const(np.stack(found).astype(ctx.element_type(dtype, DType.I64).numpy))


@aten("tril", "triu")
def triangle(ctx: TorchBuilder, x: Value, diagonal: Int = 0) -> Value:
    """The diagonal may follow from open sizes, as those of masks beside a cache do."""
    return ctx.op("Trilu", x, ctx.scalar(diagonal, DType.I64), upper="triu" in ctx.name)


@aten("rand", "rand_like")
def rand(ctx: TorchBuilder, like: Ints | Value, *_: Any, dtype: DType | int | None = None) -> Value:
    return _random(ctx, "RandomUniform", like, dtype)


@aten("randn", "randn_like")
def randn(ctx: TorchBuilder, like: Ints | Value, *_: Any, dtype: DType | int | None = None) -> Value:
    return _random(ctx, "RandomNormal", like, dtype)


def _random(ctx: TorchBuilder, op: str, like: Ints | Value, dtype: DType | int | None) -> Value:
    kind = ctx.element_type(dtype, ctx.type_of(like) if isinstance(like, Value) else DType.F32)
    shape = ctx.shape_like(like) if isinstance(like, Value) else ctx.ints(like)
    return ctx.op(op, shape, type=data_type(kind))


@aten("bernoulli")
def bernoulli(ctx: TorchBuilder, x: Value, p: float | Value | None = None) -> Value:
    """1 as often as ``p`` says, or each number of ``x`` itself, else 0."""
    chance = x if p is None else p
    drawn = _random(ctx, "RandomUniform", x, DType.F32)
    return ctx.cast(ctx.binary("LESS", drawn, chance), ctx.type_of(x))


@aten("randint", "randint_like")
def randint(ctx: TorchBuilder, *args: Any, dtype: DType | int | None = None) -> Value:
    """``(high, size)`` or ``(low, high, size)``; with a tensor in front, in its shape and type."""
    like = args[0] if isinstance(args[0], Value) else None
    bounds = [a for a in (args if like is None else args[1:]) if not isinstance(a, (list, tuple))]
    low, high = bounds[:2] if len(bounds) > 1 else (0, bounds[0])
    size = like if like is not None else next(a for a in args if isinstance(a, (list, tuple)))
    kind = ctx.element_type(dtype, DType.I64 if like is None else ctx.type_of(like))
    drawn = _random(ctx, "RandomUniform", size, DType.F32)
    span = ctx.binary("SUB", ctx.scalar(high, DType.F32), ctx.scalar(low, DType.F32))
    steps = ctx.binary("MINIMUM", ctx.unary("FLOOR", ctx.binary("MUL", drawn, span)), ctx.binary("SUB", span, 1))
    return ctx.cast(ctx.binary("ADD", steps, ctx.scalar(low, DType.F32)), kind)


@aten("randperm")
def randperm(ctx: TorchBuilder, n: Any, *, dtype: DType | int | None = None) -> Value:
    """Numbers from 0 on in an order that is drawn: that of random numbers."""
    order = apply(ctx, "argsort", [_random(ctx, "RandomUniform", [n], DType.F32)], {})
    return ctx.cast(order, ctx.element_type(dtype, DType.I64))


@aten("uniform")
def uniform(ctx: TorchBuilder, x: Value, low: Scalar = 0.0, high: Scalar = 1.0) -> Value:
    drawn = _random(ctx, "RandomUniform", x, None)
    return ctx.binary("ADD", ctx.binary("MUL", drawn, ctx.binary("SUB", ctx.scalar(high, ctx.type_of(x)), low)), low)


@aten("normal")
def normal(
    ctx: TorchBuilder, mean: Value | Scalar, std: Value | Scalar = 1.0, size: Ints | None = None, *,
    dtype: DType | int | None = None,
) -> Value:  # fmt: skip
    """In the shape of ``size``, or that both broadcast to."""
    like: Ints | Value = size or []
    if size is None:
        given = [v for v in (mean, std) if isinstance(v, Value)]
        like = given[0] if len(given) == 1 else ctx.binary("ADD", *given)
    drawn = _random(ctx, "RandomNormal", like, dtype)
    return ctx.binary("ADD", ctx.binary("MUL", drawn, std), mean)


@aten("normal_functional")
def normal_like(ctx: TorchBuilder, x: Value, mean: Scalar = 0.0, std: Scalar = 1.0) -> Value:
    return ctx.binary("ADD", ctx.binary("MUL", _random(ctx, "RandomNormal", x, None), std), mean)


@aten("meshgrid")
def meshgrid(ctx: TorchBuilder, tensors: list[Value], indexing: str = "ij") -> list[Value]:
    ordered = [tensors[1], tensors[0], *tensors[2:]] if indexing == "xy" and len(tensors) > 1 else list(tensors)
    flat = [ctx.op("Reshape", t, ctx.const([-1])) for t in ordered]
    shape = ctx.ints([n for t in flat for n in ctx.sizes(t)])
    out = []
    for i, t in enumerate(flat):
        raised = ctx.unsqueeze(t, *[k for k in range(len(flat)) if k != i])
        out.append(ctx.expand(raised, shape))
    if indexing == "xy" and len(tensors) > 1:
        out[:2] = out[1::-1]
    return out


@aten("cartesian_prod")
def cartesian_product(ctx: TorchBuilder, tensors: list[Value]) -> Value:
    """All ways to take one number of each, in rows."""
    if len(tensors) == 1:
        return tensors[0]
    columns = [ctx.reshape(t, [-1]) for t in meshgrid(ctx, tensors)]
    return apply(ctx, "stack", [columns, 1], {})  # type: ignore[no-any-return]


@aten("combinations")
def combinations(ctx: TorchBuilder, x: Value, r: int = 2, with_replacement: bool = False) -> Value:
    """All ways to take ``r`` of the numbers, in rows."""
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = bounded(ctx, ctx.size(x, 0), MOST, "numbers to combine")
    bounded(ctx, math.comb(count + (r - 1 if with_replacement else 0), r), 1 << 20, "combinations")
    places = np.asarray(list(ways(range(count), r)), np.int64).reshape(-1, r)
    return apply(ctx, "embedding", [x, ctx.const(places)], {})  # type: ignore[no-any-return]


@aten("one_hot")
def one_hot(ctx: TorchBuilder, x: Value, num_classes: int = -1) -> Value:
    if isinstance(num_classes, int) and num_classes < 0:
        raise ctx.unsupported("one_hot without a number of classes", "give num_classes")
    depth = ctx.scalar(num_classes, DType.I64)
    return ctx.op("OneHot", x, depth, ctx.const(np.int64(1)), ctx.const(np.int64(0)), axis=-1)


@aten("_shape_as_tensor")
def shape_as_tensor(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.shape_like(x)


@aten("fft_fftfreq", "fft_rfftfreq")
def frequencies(ctx: TorchBuilder, n: int, d: float = 1.0, dtype: DType | int | None = None) -> Value:
    """Of the places of a spectrum; ``d`` is the time between samples."""
    count = bounded(ctx, n, MOST**2, "places of a spectrum")
    places = np.arange(count // 2 + 1) if ctx.name == "fft_rfftfreq" else np.arange(count)
    if ctx.name == "fft_fftfreq":
        places[(count + 1) // 2 :] -= count
    return ctx.const((places * (1.0 / (max(count, 1) * d))).astype(ctx.element_type(dtype).numpy))
