"""Inverses, determinants and linear systems."""

from __future__ import annotations

import math
from typing import Any

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def function(ctx: TorchBuilder, kind: str, *operands: Value, count: int = 1, **attrs: bool) -> list[Value]:
    """Results of a function of :mod:`MNN.ops.linear.matrices`."""
    return ctx.emit("MatrixFunction", list(operands), count, kind=kind, **attrs)


def turned(ctx: TorchBuilder, x: Value) -> Value:
    """The last two axes exchanged."""
    return apply(ctx, "transpose", [x, -1, -2], {})  # type: ignore[no-any-return]


def first_zero(ctx: TorchBuilder, factors: Value) -> Value:
    """``info`` of LAPACK's getrf: the first pivot that is 0, counted from 1; 0 where there is none."""
    if (factors.shape or ())[-1:] == (0,):
        return apply(ctx, "zeros", [ctx.sizes(factors)[:-2]], {"dtype": DType.I32})  # type: ignore[no-any-return]
    zero = ctx.binary("EQUAL", apply(ctx, "diagonal", [factors, 0, -2, -1], {}), 0)
    place = ctx.binary("ADD", apply(ctx, "argmax", [ctx.cast(zero, DType.I32), -1], {}), 1)
    found = apply(ctx, "where", [apply(ctx, "any", [zero, -1], {}), place, 0], {})
    return ctx.cast(found, DType.I32)


@aten("linalg_inv", "inverse", "linalg_inv_ex")
def inverse(ctx: TorchBuilder, x: Value, *, check_errors: bool = False) -> Value | list[Value]:
    """Singular matrices, which torch refuses, give NaN; ``linalg_inv_ex`` tells of them."""
    extended = ctx.name == "linalg_inv_ex"
    (found,) = function(ctx, "inverse", x)
    return [found, first_zero(ctx, function(ctx, "lu", x, count=2)[0])] if extended else found


@aten("linalg_slogdet", "slogdet", "_linalg_slogdet")
def slogdet(ctx: TorchBuilder, x: Value) -> list[Value]:
    """Signs, and logarithms of absolute values. The factors that ``_linalg_slogdet`` also has are not computed: in
    PyTorch they are of the matrix or of its transpose, as it lies in memory."""
    return function(ctx, "slogdet", x, count=2)


@aten("logdet")
def logdet(ctx: TorchBuilder, x: Value) -> Value:
    """NaN of negative determinants."""
    sign, size = slogdet(ctx, x)
    return apply(ctx, "where", [ctx.binary("EQUAL", sign, -1), math.nan, size], {})  # type: ignore[no-any-return]


def _as_columns(ctx: TorchBuilder, a: Value, b: Value) -> tuple[Value, bool]:
    """Right sides that are vectors as matrices of one column: one vector, or one for each matrix."""
    batch = ctx.rank_of(a) - 1 == ctx.rank_of(b) and (a.shape or ())[:-1] == b.shape
    vectors = ctx.rank_of(b) == 1 or batch
    return (ctx.unsqueeze(b, ctx.rank_of(b)) if vectors else b), vectors


@aten("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")
def solve(ctx: TorchBuilder, a: Value, b: Value, *, left: bool = True, check_errors: bool = False) -> Any:
    """``x`` of ``a x = b``, or of ``x a = b``."""
    name = ctx.name
    if not left:
        found = turned(ctx, function(ctx, "solve", turned(ctx, a), turned(ctx, b))[0])
    else:
        columns, vectors = _as_columns(ctx, a, b)
        (found,) = function(ctx, "solve", a, columns)
        found = ctx.squeeze(found, ctx.rank_of(columns) - 1) if vectors else found
    if name == "linalg_solve":
        return found
    factors, pivots = function(ctx, "lu", a, count=2)
    told = first_zero(ctx, factors)
    return [found, told] if name == "linalg_solve_ex" else [found, factors, pivots, told]


@aten("linalg_solve_triangular")
def solve_triangular(
    ctx: TorchBuilder, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    if left:
        return function(ctx, "triangular", a, b, upper=upper, full=unitriangular)[0]
    found = function(ctx, "triangular", turned(ctx, a), turned(ctx, b), upper=not upper, full=unitriangular)
    return turned(ctx, found[0])


@aten("triangular_solve")
def triangular_solve(
    ctx: TorchBuilder, b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Value]:
    """The older form; it gives back the matrices, too."""
    matrix = turned(ctx, a) if transpose else a
    return [solve_triangular(ctx, matrix, b, upper=upper != transpose, unitriangular=unitriangular), a]


@aten("cholesky_solve")
def cholesky_solve(ctx: TorchBuilder, b: Value, factor: Value, upper: bool = False) -> Value:
    lower = turned(ctx, factor) if upper else factor
    half = solve_triangular(ctx, lower, b, upper=False)
    return solve_triangular(ctx, turned(ctx, lower), half, upper=True)


@aten("cholesky_inverse")
def cholesky_inverse(ctx: TorchBuilder, factor: Value, upper: bool = False) -> Value:
    eye = apply(ctx, "eye", [ctx.size(factor, -1)], {"dtype": ctx.type_of(factor)})
    return cholesky_solve(ctx, eye, factor, upper)


@aten("linalg_pinv", "pinverse")
def pinverse(ctx: TorchBuilder, x: Value, *args: Any, **named: Any) -> Value:
    """Of symmetric matrices too by singular values: those up to ``max(atol, rtol * largest)`` count as 0."""
    x = symmetric(ctx, x, args, named)
    left, singular, right = function(ctx, "svd", x, count=3)
    kept, _ = significant(ctx, x, singular, args, named)
    inverse_of = apply(ctx, "where", [kept, ctx.unary("RECIPROCAL", singular), 0.0], {})
    scaled = ctx.binary("MUL", turned(ctx, right), ctx.unsqueeze(inverse_of, ctx.rank_of(x) - 2))
    return apply(ctx, "matmul", [scaled, turned(ctx, left)], {})  # type: ignore[no-any-return]


def symmetric(ctx: TorchBuilder, x: Value, args: tuple[Any, ...], named: dict[str, Any]) -> Value:
    """Where ``hermitian`` is given, what the lower triangle says."""
    if not named.get("hermitian") and not any(a is True for a in args):
        return x
    below = turned(ctx, apply(ctx, "tril", [x, -1], {}))
    return ctx.binary("ADD", apply(ctx, "tril", [x], {}), below)


def significant(
    ctx: TorchBuilder, x: Value, singular: Value, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Value, Value]:
    """Which singular values are not taken for 0 under the tolerances that are given, and these."""
    atol, rtol = named.get("atol"), named.get("rtol", named.get("rcond", named.get("tol")))
    plain = [a for a in args if not isinstance(a, bool)]
    rtol = plain[0] if plain and rtol is None else rtol
    if ctx.name == "linalg_matrix_rank" and ("tol" in named or plain):
        atol, rtol = rtol, None if atol is None else atol
        rtol = 0.0
    kind = ctx.type_of(x)
    if rtol is None:
        sides = [ctx.scalar(n, kind) for n in ctx.sizes(x)[-2:]]
        step = 2.0**-52 if kind is DType.F64 else 2.0**-23
        strict = atol is not None and _positive(atol)
        rtol = 0.0 if strict else ctx.binary("MUL", ctx.binary("MAXIMUM", *sides), step)
    largest = apply(ctx, "amax", [singular, [-1], True], {})
    bound = ctx.binary("MUL", largest, _line(ctx, rtol, kind))
    if atol is not None:
        bound = ctx.binary("MAXIMUM", bound, _line(ctx, atol, kind))
    return ctx.binary("GREATER", singular, bound), bound


def _positive(x: Any) -> bool:
    return not isinstance(x, (Value, Number)) and x > 0


def _line(ctx: TorchBuilder, x: Any, kind: DType) -> Any:
    """A tolerance, one for each matrix perhaps, beside singular values."""
    if not isinstance(x, Value):
        return x
    return ctx.unsqueeze(ctx.cast(x, kind), ctx.rank_of(x)) if ctx.rank_of(x) else ctx.cast(x, kind)


@aten("linalg_matrix_rank")
def matrix_rank(ctx: TorchBuilder, x: Value, *args: Any, **named: Any) -> Value:
    name = ctx.name
    x = symmetric(ctx, x, args, named)
    singular = function(ctx, "svd", x, count=3)[1]
    ctx.name = name
    kept, _ = significant(ctx, x, singular, args, named)
    return apply(ctx, "sum", [ctx.cast(kept, DType.I64), [-1]], {})  # type: ignore[no-any-return]


@aten("linalg_matrix_power", "matrix_power")
def matrix_power(ctx: TorchBuilder, x: Value, n: int) -> Value:
    """By squaring."""
    count = ctx.known(n, "a power")
    if abs(count) > 1 << 20:
        raise ctx.unsupported(f"the power {count} of matrices", "powers below a million are")
    base = function(ctx, "inverse", x)[0] if count < 0 else x
    found: Value | None = None
    for bit in f"{abs(count):b}":
        if found is not None:
            found = apply(ctx, "matmul", [found, found], {})
        if bit == "1":
            found = base if found is None else apply(ctx, "matmul", [found, base], {})
    if found is None:
        eye = apply(ctx, "eye", [ctx.size(x, -1)], {"dtype": ctx.type_of(x)})
        return ctx.expand(eye, ctx.shape_like(x))
    return ctx.op("Identity", found) if found is x else found


@aten("linalg_matrix_exp", "matrix_exp")
def matrix_exp(ctx: TorchBuilder, x: Value) -> Value:
    return function(ctx, "exponential", x)[0]


@aten("linalg_tensorinv")
def tensorinv(ctx: TorchBuilder, x: Value, ind: int = 2) -> Value:
    """The inverse where the first ``ind`` axes are rows."""
    sizes = ctx.sizes(x)
    rows = ctx.known(_product(ctx, sizes[:ind]), "a size")
    (found,) = function(ctx, "inverse", ctx.reshape(x, [rows, rows]))
    return ctx.reshape(found, [*sizes[ind:], *sizes[:ind]])


@aten("linalg_tensorsolve")
def tensorsolve(ctx: TorchBuilder, a: Value, b: Value, dims: list[int] | None = None) -> Value:
    """``x`` of ``tensordot(a, x) = b``."""
    if dims:
        moved = ctx.axes(a, dims)
        a = ctx.rows(a, [*(i for i in range(ctx.rank_of(a)) if i not in moved), *moved])
    count = _product(ctx, ctx.sizes(b))
    sizes = ctx.sizes(a)[ctx.rank_of(b) :]
    (found,) = function(ctx, "solve", ctx.reshape(a, [count, count]), ctx.reshape(b, [count, 1]))
    return ctx.reshape(found, sizes)


def _product(ctx: TorchBuilder, sizes: list[Any]) -> int:
    return math.prod(ctx.known(n, "a size") for n in sizes)


@aten("_linalg_check_errors")
def check_errors(ctx: TorchBuilder, info: Value, api_name: str, *, is_matrix: bool) -> list[Value]:
    """Nothing: what has no answer is NaN."""
    return []
