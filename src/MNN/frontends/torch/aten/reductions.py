"""Reductions, extremes' positions, running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from MNN.frontends.torch.aten.reshaping import diagonal
from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Ints, Number, Scalar
from MNN.frontends.torch.registry import apply, aten, in_f32
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

Dims = int | list[int] | None


def reduced(ctx: TorchBuilder, kind: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    """``kind`` is a name of ReductionType; None or no dims mean all."""
    if x.shape == ():
        return ctx.op("Identity", x)
    listed = [dims] if isinstance(dims, int) else list(dims or ())
    axes = [ctx.axis(x, d) for d in listed] if x.shape is not None else listed
    if not axes and x.shape is not None and keepdim:
        axes = list(range(len(x.shape)))
    return ctx.op("Reduction", x, operation=kind, dim=axes or None, keepDims=bool(keepdim))


def _form(args: tuple[Any, ...], dim: Any, keepdim: bool) -> tuple[Dims, bool]:
    """``(dim, keepdim)`` from positions or names."""
    if args:
        dim = args[0]
    if len(args) > 1:
        keepdim = bool(args[1])
    return (None if dim is None else dim), keepdim


@aten("sum", "nansum")
def total(
    ctx: TorchBuilder, x: Value, *args: Any, dim: Dims = None, keepdim: bool = False, dtype: DType | int | None = None
) -> Value:
    dims, keep = _form(args, dim, keepdim)
    kind = ctx.type_of(x)
    x = ctx.cast(x, ctx.element_type(dtype, kind if kind.is_float else DType.I64))
    if ctx.name == "nansum" and ctx.type_of(x).is_float:
        x = ctx.op("Select", ctx.op("IsNaN", x), ctx.const_like(0, x), x)
    return reduced(ctx, "SUM", x, dims, keep)


@aten("mean", "nanmean")
@in_f32
def mean(
    ctx: TorchBuilder, x: Value, *args: Any, dim: Dims = None, keepdim: bool = False, dtype: DType | int | None = None
) -> Value:
    dims, keep = _form(args, dim, keepdim)
    kind = ctx.element_type(dtype, ctx.type_of(x))
    x = ctx.cast(x, kind)
    if ctx.name == "nanmean":
        missing = ctx.op("IsNaN", x)
        count = reduced(ctx, "SUM", ctx.cast(ctx.op("Not", missing), kind), dims, keep)
        filled = ctx.op("Select", missing, ctx.const_like(0, x), x)
        return ctx.op("BinaryOp", reduced(ctx, "SUM", filled, dims, keep), count, opType="REALDIV")
    return reduced(ctx, "MEAN", x, dims, keep)


@aten("prod")
def prod(
    ctx: TorchBuilder, x: Value, *args: Any, dim: Dims = None, keepdim: bool = False, dtype: DType | int | None = None
) -> Value:
    dims, keep = _form(args, dim, keepdim)
    kind = ctx.type_of(x)
    x = ctx.cast(x, ctx.element_type(dtype, kind if kind.is_float else DType.I64))
    return reduced(ctx, "PROD", x, dims, keep)


@aten("amax", "amin")
def extreme(ctx: TorchBuilder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(ctx, x, ctx.name == "amax", dim, keepdim)


def _extreme(ctx: TorchBuilder, x: Value, largest: bool, dims: Dims, keepdim: bool) -> Value:
    kind = ctx.type_of(x)
    wide = ctx.cast(x, DType.I32) if kind is DType.BOOL else x
    return ctx.cast(reduced(ctx, "MAXIMUM" if largest else "MINIMUM", wide, dims, keepdim), kind)


@aten("aminmax")
def aminmax(ctx: TorchBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> list[Value]:
    return [_extreme(ctx, x, largest, dim, keepdim) for largest in (False, True)]


@aten("max", "min", "max_binary", "min_binary", "max_reduce", "min_reduce")
def extreme_of(
    ctx: TorchBuilder, x: Value, *args: Any, dim: int | None = None, keepdim: bool = False
) -> Value | list[Value]:
    """Of all, of two tensors, or along an axis with positions."""
    largest = ctx.name.startswith("max")
    if args and isinstance(args[0], Value):
        both = ctx.common(x, args[0]) is DType.BOOL
        if both:
            return ctx.binary("LOGICALOR" if largest else "MUL", x, args[0])
        return ctx.binary("MAXIMUM" if largest else "MINIMUM", x, args[0])
    axis, keep = _form(args, dim, keepdim)
    if axis is None:
        return _extreme(ctx, x, largest, None, False)
    assert isinstance(axis, int)
    return [_extreme(ctx, x, largest, axis, keep), position(ctx, x, largest, axis, keep)]


@aten("argmax", "argmin")
def argextreme(ctx: TorchBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        out = position(ctx, ctx.op("Reshape", x, ctx.const([-1])), ctx.name == "argmax", 0, False)
        return ctx.op("Reshape", out, ctx.const([1] * ctx.rank_of(x))) if keepdim else out
    return position(ctx, x, ctx.name == "argmax", dim, keepdim)


def position(ctx: TorchBuilder, x: Value, largest: bool, dim: int, keepdim: bool) -> Value:
    """Where the first extreme is, or the first that is not a number."""
    if x.shape == ():
        return ctx.const(np.int64(0))
    axis = ctx.axis(x, dim)
    wide = ctx.cast(x, DType.I32) if x.dtype is DType.BOOL else x
    out = ctx.op("ArgMax" if largest else "ArgMin", wide, axis=axis, topK=1, outputDataType="DT_INT64")
    return ctx.unsqueeze(out, axis) if keepdim else out


@aten("any", "all")
def truth(ctx: TorchBuilder, x: Value, *args: Any, dim: Dims = None, keepdim: bool = False) -> Value:
    dims, keep = _form(args, dim, keepdim)
    if dims == []:
        dims = list(range(ctx.rank_of(x)))
    numbers = ctx.cast(ctx.not_zero(x), DType.I32)
    found = reduced(ctx, "MAXIMUM" if ctx.name == "any" else "MINIMUM", numbers, dims, keep)
    found = ctx.binary("GREATER", found, 0)  # the largest of no numbers is negative
    return ctx.cast(found, DType.U8 if x.dtype is DType.U8 else DType.BOOL)


@aten("count_nonzero")
def count_nonzero(ctx: TorchBuilder, x: Value, dim: Dims = None) -> Value:
    return reduced(ctx, "SUM", ctx.cast(ctx.not_zero(x), DType.I64), dim, False)


@aten("var", "std")
@in_f32
def spread(ctx: TorchBuilder, x: Value, *args: Any, **named: Any) -> Value:
    return _moments(ctx, x, args, named, ctx.name == "std")[0]


@aten("var_mean", "std_mean")
@in_f32
def spread_and_mean(ctx: TorchBuilder, x: Value, *args: Any, **named: Any) -> list[Value]:
    return _moments(ctx, x, args, named, ctx.name == "std_mean")


def _moments(ctx: TorchBuilder, x: Value, args: tuple[Any, ...], named: dict[str, Any], root: bool) -> list[Value]:
    """``var(x, unbiased)``, ``var(x, dim, unbiased, keepdim)`` or ``var(x, dim, *, correction, keepdim)``."""
    given = list(args)
    if given and isinstance(given[0], bool):
        given = [None, *given]
    dims: Dims = given[0] if given else named.get("dim")
    unbiased = given[1] if len(given) > 1 and given[1] is not None else named.get("unbiased", True)
    keepdim = bool(given[2] if len(given) > 2 else named.get("keepdim", False))
    correction: Scalar = named.get("correction")  # type: ignore[assignment]
    if correction is None:
        correction = 1 if unbiased else 0
    kept = reduced(ctx, "MEAN", x, dims, True)
    square = ctx.unary("SQUARE", ctx.op("BinaryOp", x, kept, opType="SUB"))
    axes = ctx.axes(x, dims) if x.shape != () else []
    sizes = [ctx.size(x, a) for a in axes]
    if not any(isinstance(n, Number) for n in sizes):
        count = math.prod(sizes)  # type: ignore[arg-type]
        if correction == 0:
            out = reduced(ctx, "MEAN", square, dims, keepdim)
        else:
            rest = max(float(count) - float(correction), 0.0)  # type: ignore[arg-type]
            summed = reduced(ctx, "SUM", square, dims, keepdim)
            out = ctx.op("BinaryOp", summed, ctx.const_like(rest, x), opType="REALDIV")
    else:
        total_count = ctx.const(np.int64(1))
        for n in sizes:
            total_count = ctx.op("BinaryOp", total_count, ctx.scalar(n, DType.I64), opType="MUL")
        wide = ctx.cast(total_count, ctx.type_of(x))
        rest_value = ctx.op("BinaryOp", wide, ctx.scalar(correction, ctx.type_of(x)), opType="SUB")
        rest_value = ctx.op("BinaryOp", rest_value, ctx.const_like(0.0, x), opType="MAXIMUM")
        summed = reduced(ctx, "SUM", square, dims, keepdim)
        out = ctx.op("BinaryOp", summed, rest_value, opType="REALDIV")
    middle = reduced(ctx, "MEAN", x, dims, keepdim)
    return [ctx.unary("SQRT", out) if root else out, middle]


@aten("norm", "linalg_vector_norm", "frobenius_norm", "linalg_norm")
def norm(ctx: TorchBuilder, x: Value, *args: Any, **named: Any) -> Value:
    """``norm(x, p, dim, keepdim)``; ``frobenius_norm(x, dim, keepdim)``."""
    given = list(args)
    if ctx.name == "frobenius_norm":
        given = [2, *given]
    p = given[0] if given else named.get("p", named.get("ord"))
    dims: Dims = given[1] if len(given) > 1 and not isinstance(given[1], DType) else named.get("dim")
    keepdim = bool(given[2] if len(given) > 2 else named.get("keepdim", False))
    dtype = named.get("dtype")
    x = ctx.as_float(x) if dtype is None else ctx.cast(x, ctx.element_type(dtype))
    if ctx.name == "linalg_norm" and p is not None:
        axes = [0, 1] if dims is None and ctx.rank_of(x) == 2 else [dims] if isinstance(dims, int) else dims
        if axes and len(axes) == 2:
            return apply(ctx, "linalg_matrix_norm", [x, p, axes, keepdim], {})  # type: ignore[no-any-return]
    return p_norm(ctx, x, 2 if p is None or p == "fro" else p, dims, keepdim)


@in_f32
def p_norm(ctx: TorchBuilder, x: Value, p: float, dims: Dims, keepdim: bool) -> Value:
    """``(sum |x|^p)^(1/p)``, with its limits."""
    size = ctx.unary("ABS", x)
    if p == math.inf:
        return reduced(ctx, "MAXIMUM", size, dims, keepdim)
    if p == -math.inf:
        return reduced(ctx, "MINIMUM", size, dims, keepdim)
    if p == 0:
        return reduced(ctx, "SUM", ctx.cast(ctx.not_zero(x), ctx.type_of(x)), dims, keepdim)
    if p == 1:
        return reduced(ctx, "SUM", size, dims, keepdim)
    if p == 2:
        return ctx.unary("SQRT", reduced(ctx, "SUM", ctx.unary("SQUARE", x), dims, keepdim))
    if p < 1:  # the slopes of powers below 1 are infinite at 0: nothing comes from there
        zero = ctx.binary("EQUAL", x, 0)
        powers = ctx.binary("POW", ctx.op("Select", zero, ctx.const_like(1, size), size), float(p))
        at_zero = ctx.const_like(0 if p > 0 else math.inf, size)
        summed = reduced(ctx, "SUM", ctx.op("Select", zero, at_zero, powers), dims, keepdim)
    else:
        summed = reduced(ctx, "SUM", ctx.binary("POW", size, float(p)), dims, keepdim)
    return ctx.binary("POW", summed, 1.0 / float(p))


@aten("logsumexp", "special_logsumexp")
@in_f32
def logsumexp(ctx: TorchBuilder, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    x = ctx.as_float(x)
    most = float(np.finfo(np.float16 if x.dtype is DType.F16 else np.float32).max)

    def peak(keep: bool) -> Value:
        found = reduced(ctx, "MAXIMUM", x, dim, keep)
        found = ctx.op("BinaryOp", found, ctx.const_like(-most, x), opType="MAXIMUM")
        return ctx.op("BinaryOp", found, ctx.const_like(most, x), opType="MINIMUM")

    shifted = ctx.op("BinaryOp", x, peak(True), opType="SUB")
    summed = reduced(ctx, "SUM", ctx.unary("EXP", shifted), dim, keepdim)
    return ctx.op("BinaryOp", ctx.unary("LOG", summed), peak(keepdim), opType="ADD")


@aten("cumsum", "cumprod")
def cumulative(ctx: TorchBuilder, x: Value, dim: int, dtype: DType | int | None = None) -> Value:
    kind = ctx.type_of(x)
    x = ctx.cast(x, ctx.element_type(dtype, kind if kind.is_float else DType.I64))
    if x.shape == ():
        return ctx.op("Identity", x)
    return ctx.op("CumSum" if ctx.name == "cumsum" else "CumProd", x, ctx.const(np.int32(ctx.axis(x, dim))))


@aten("diff")
def diff(
    ctx: TorchBuilder, x: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None
) -> Value:
    """Differences of neighbours along an axis, ``n`` times over; of booleans, whether they differ."""
    axis = ctx.axis(x, dim)
    ends = [t for t in (prepend, x, append) if t is not None]
    out = ctx.op("Concat", *ends, axis=axis) if len(ends) > 1 else x
    if n == 0:
        return ctx.op("Identity", x)
    kind = "NOTEQUAL" if x.dtype is DType.BOOL else "SUB"
    for _ in range(n):
        out = ctx.op("BinaryOp", cut(ctx, out, axis, 1, END), cut(ctx, out, axis, 0, -1), opType=kind)
    return out


@aten("trapezoid", "trapz")
def trapezoid(ctx: TorchBuilder, y: Value, x: Value | None = None, *, dx: Scalar = 1, dim: int = -1) -> Value:
    """The area below a line through points, which are ``dx`` apart or at ``x``."""
    axis = ctx.axis(y, dim)
    middle = ctx.binary("MUL", ctx.binary("ADD", cut(ctx, y, axis, 1, END), cut(ctx, y, axis, 0, -1)), 0.5)
    apart: Value | Scalar = dx
    if x is not None:
        apart = diff(ctx, x, 1, dim if ctx.rank_of(x) > 1 else -1)
        if ctx.rank_of(x) == 1:
            apart = ctx.unsqueeze(apart, *range(1, ctx.rank_of(y) - axis))
    return reduced(ctx, "SUM", ctx.binary("MUL", middle, apart), axis, False)


@aten("cumulative_trapezoid")
def cumulative_trapezoid(
    ctx: TorchBuilder, y: Value, x: Value | None = None, *, dx: Scalar = 1, dim: int = -1
) -> Value:
    """Areas below straight lines from the first point to each of the others; ``x`` of one axis belongs to ``dim``."""
    axis = ctx.axis(y, dim)
    both = ctx.binary("ADD", *(apply(ctx, "slice", [y, axis, *ends], {}) for ends in ((1, None), (0, -1))))
    width: Value | Scalar = dx
    if x is not None:
        lined = ctx.unsqueeze(x, *range(1, ctx.rank_of(y) - axis)) if ctx.rank_of(x) == 1 else x
        at = axis - ctx.rank_of(y)
        width = ctx.binary("SUB", *(apply(ctx, "slice", [lined, at, *ends], {}) for ends in ((1, None), (0, -1))))
    areas = ctx.binary("MUL", ctx.as_float(ctx.binary("MUL", both, width)), 0.5)
    return apply(ctx, "cumsum", [areas, axis], {})  # type: ignore[no-any-return]


@aten("renorm")
def renorm(ctx: TorchBuilder, x: Value, p: Scalar, dim: int, maxnorm: Scalar) -> Value:
    """Slices along an axis, made shorter where their norm is above ``maxnorm``."""
    axis = ctx.axis(x, dim)
    others = [i for i in range(ctx.rank_of(x)) if i != axis]
    size = p_norm(ctx, x, p, others, True)  # type: ignore[arg-type]
    share = ctx.binary("REALDIV", ctx.scalar(maxnorm, ctx.type_of(x)), ctx.binary("ADD", size, 1e-7))
    scale = apply(ctx, "where", [ctx.binary("GREATER", size, maxnorm), share, 1.0], {})
    return ctx.binary("MUL", x, scale)


@aten("sum_to_size")
def sum_to_size(ctx: TorchBuilder, x: Value, size: Ints) -> Value:
    """Summed over what broadcasting ``size`` would repeat."""
    lead = ctx.rank_of(x) - len(size)
    shape = x.shape or ()
    repeated = [*range(lead), *(lead + i for i, n in enumerate(size) if n == 1 and shape[lead + i] != 1)]
    if not repeated and size:
        return x
    x = x if ctx.type_of(x).is_float else ctx.cast(x, DType.I64)
    return ctx.reshape(reduced(ctx, "SUM", x, repeated, True) if repeated else x, size)


@aten("trace")
def trace(ctx: TorchBuilder, x: Value) -> Value:
    kind = ctx.type_of(x)
    return reduced(ctx, "SUM", diagonal(ctx, ctx.cast(x, kind if kind.is_float else DType.I64)), None, False)
