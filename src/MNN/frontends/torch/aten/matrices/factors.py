"""Factors of matrices, eigenvalues and singular values."""

from __future__ import annotations

import math
from typing import Any

from MNN.frontends.torch.aten.matrices.solving import first_zero, function, significant, turned
from MNN.frontends.torch.aten.reductions import p_norm, reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("linalg_cholesky", "cholesky", "linalg_cholesky_ex")
def cholesky(ctx: TorchBuilder, x: Value, upper: bool = False, check_errors: bool = False) -> Value | list[Value]:
    """The triangular factor; NaN of matrices that are not positive definite, which torch refuses."""
    name = ctx.name
    if upper and name != "cholesky":  # the lower triangle is looked at in any case
        lower, told = function(ctx, "cholesky", x, count=2)
        factor = turned(ctx, lower)
    else:
        factor, told = function(ctx, "cholesky", x, count=2, upper=upper)
    return [factor, told] if name == "linalg_cholesky_ex" else factor


def _parts(ctx: TorchBuilder, factors: Value) -> tuple[Value, Value]:
    """The lower factor, with ones on its diagonal, and the upper one, of both in one matrix."""
    rows, columns = (ctx.known(n, "a size") for n in ctx.sizes(factors)[-2:])
    least = min(rows, columns)
    left = apply(ctx, "slice", [factors, -1, 0, least], {})
    below = apply(ctx, "tril", [left, -1], {})
    eye = apply(ctx, "eye", [rows, least], {"dtype": ctx.type_of(factors)})
    upper = apply(ctx, "triu", [apply(ctx, "slice", [factors, -2, 0, least], {})], {})
    return ctx.binary("ADD", below, eye), upper


def _exchanges(ctx: TorchBuilder, pivots: Value, rows: int) -> Value:
    """The matrix ``p`` of ``p l u`` for the rows swapped one after the other."""
    count = ctx.known(ctx.size(pivots, -1), "a size")
    places = apply(ctx, "arange", [rows], {})
    order = ctx.expand(places, ctx.ints([*ctx.sizes(pivots)[:-1], rows]))
    for k in range(count):
        other = ctx.binary("SUB", ctx.cast(apply(ctx, "slice", [pivots, -1, k, k + 1], {}), DType.I64), 1)
        held = apply(ctx, "gather", [order, -1, other], {})
        own = apply(ctx, "slice", [order, -1, k, k + 1], {})
        order = apply(ctx, "where", [ctx.binary("EQUAL", places, other), own, order], {})
        order = apply(ctx, "where", [ctx.binary("EQUAL", places, k), held, order], {})
    on = ctx.binary("EQUAL", ctx.unsqueeze(places, 1), ctx.unsqueeze(order, ctx.rank_of(order) - 1))
    return on


def _unpacked(ctx: TorchBuilder, factors: Value, pivots: Value) -> list[Value]:
    rows = ctx.known(ctx.size(factors, -2), "a size")
    exchanges = ctx.cast(_exchanges(ctx, pivots, rows), ctx.type_of(factors))
    return [exchanges, *_parts(ctx, factors)]


@aten("linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info")
def lu_factor(ctx: TorchBuilder, x: Value, pivot: bool = True, check_errors: bool = True) -> list[Value]:
    name = ctx.name
    _pivoted(ctx, pivot)
    found = function(ctx, "lu", x, count=2)
    return found if name == "linalg_lu_factor" else [*found, first_zero(ctx, found[0])]


@aten("linalg_lu")
def lu(ctx: TorchBuilder, x: Value, *, pivot: bool = True) -> list[Value]:
    _pivoted(ctx, pivot)
    return _unpacked(ctx, *function(ctx, "lu", x, count=2))


def _pivoted(ctx: TorchBuilder, pivot: bool) -> None:
    if not pivot:
        raise ctx.unsupported("factors without exchanged rows", "use pivot=True")


@aten("lu_unpack")
def lu_unpack(
    ctx: TorchBuilder, factors: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> list[Value]:
    """What is not asked for is computed, too: nothing uses it."""
    return _unpacked(ctx, factors, pivots)


@aten("linalg_lu_solve", "lu_solve")
def lu_solve(ctx: TorchBuilder, a: Value, b: Value, c: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """``linalg_lu_solve(factors, pivots, right)``; the older one has the right side in front."""
    right, factors, pivots = (a, b, c) if ctx.name == "lu_solve" else (c, a, b)
    exchanges, lower, upper = _unpacked(ctx, factors, pivots)
    matrix = apply(ctx, "matmul", [exchanges, apply(ctx, "matmul", [lower, upper], {})], {})
    matrix = turned(ctx, matrix) if adjoint else matrix
    return apply(ctx, "linalg_solve", [matrix, right], {"left": left})  # type: ignore[no-any-return]


@aten("linalg_qr", "qr")
def qr(ctx: TorchBuilder, x: Value, mode: str | bool = "reduced") -> list[Value]:
    """``mode="r"`` gives no first factor."""
    kind = ("reduced" if mode else "complete") if isinstance(mode, bool) else mode
    q, r = function(ctx, "qr", x, count=2, full=kind == "complete")
    return [apply(ctx, "zeros", [[0]], {"dtype": ctx.type_of(x)}), r] if kind == "r" else [q, r]


@aten("linalg_eigh", "_linalg_eigh")
def eigh(ctx: TorchBuilder, x: Value, UPLO: str = "L", compute_v: bool = True) -> list[Value]:
    return function(ctx, "eigh", x, count=2, upper=UPLO.upper() == "U")


@aten("linalg_eigvalsh")
def eigvalsh(ctx: TorchBuilder, x: Value, UPLO: str = "L") -> Value:
    return eigh(ctx, x, UPLO)[0]


@aten("linalg_svd", "_linalg_svd")
def svd(
    ctx: TorchBuilder, x: Value, full_matrices: bool | None = None, compute_uv: bool = True, driver: str | None = None
) -> list[Value]:
    """Square factors unless told otherwise; ``_linalg_svd`` has it the other way."""
    full_matrices = not ctx.name.startswith("_") if full_matrices is None else full_matrices
    return function(ctx, "svd", x, count=3, full=full_matrices)


@aten("svd")
def old_svd(ctx: TorchBuilder, x: Value, some: bool = True, compute_uv: bool = True) -> list[Value]:
    """The last factor is turned."""
    left, singular, right = function(ctx, "svd", x, count=3, full=not some)
    return [left, singular, turned(ctx, right)]


@aten("linalg_svdvals")
def svdvals(ctx: TorchBuilder, x: Value, *, driver: str | None = None) -> Value:
    return function(ctx, "svd", x, count=3)[1]


@aten("linalg_lstsq")
def lstsq(
    ctx: TorchBuilder, a: Value, b: Value, rcond: float | None = None, *, driver: str | None = None
) -> list[Value]:
    """Of full rank. Squared rests are told where there are more rows than columns; ranks and singular values are empty,
    as for the driver gels, unless another one is asked for."""
    vectors = ctx.rank_of(b) == 1 or (ctx.rank_of(b) == ctx.rank_of(a) - 1 and (a.shape or ())[:-1] == b.shape)
    right = ctx.unsqueeze(b, ctx.rank_of(b)) if vectors else b
    kind = ctx.type_of(a)
    left, singular, other = function(ctx, "svd", a, count=3)
    kept, _ = significant(ctx, a, singular, (), {"rtol": rcond})
    weights = apply(ctx, "where", [kept, ctx.unary("RECIPROCAL", singular), 0.0], {})
    found = apply(ctx, "matmul", [turned(ctx, left), right], {})
    found = ctx.binary("MUL", found, ctx.unsqueeze(weights, ctx.rank_of(a) - 1))
    found = apply(ctx, "matmul", [turned(ctx, other), found], {})
    rows, columns = (ctx.known(n, "a size") for n in ctx.sizes(a)[-2:])
    nothing = apply(ctx, "zeros", [[0]], {"dtype": kind})
    rest = nothing
    if rows > columns and driver not in ("gelsy",):
        apart = ctx.binary("SUB", apply(ctx, "matmul", [a, found], {}), right)
        rest = reduced(ctx, "SUM", ctx.unary("SQUARE", apart), -2, False)
    ranks = apply(ctx, "sum", [ctx.cast(kept, DType.I64), [-1]], {})
    told = ranks if driver in (None, "gelsy", "gelsd", "gelss") else apply(ctx, "zeros", [[0]], {"dtype": DType.I64})
    if vectors:
        found = ctx.squeeze(found, ctx.rank_of(right) - 1)
    return [found, rest, told, singular if driver in ("gelsd", "gelss") else nothing]


@aten("linalg_matrix_norm", "nuclear_norm")
def matrix_norm(
    ctx: TorchBuilder, x: Value, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False,
    dtype: DType | int | None = None,
) -> Value:  # fmt: skip
    """Of the matrices in two axes."""
    ord = "nuc" if ctx.name == "nuclear_norm" else ord
    x = x if dtype is None else ctx.cast(x, ctx.element_type(dtype))
    rows, columns = ctx.axes(x, list(dim))
    if ord == "fro":
        return p_norm(ctx, x, 2.0, [rows, columns], keepdim)
    if ord in ("nuc", 2, -2):
        last = ctx.rows(x, [*(i for i in range(ctx.rank_of(x)) if i not in (rows, columns)), rows, columns])
        singular = svdvals(ctx, last)
        kind = {"nuc": "SUM", 2: "MAXIMUM", -2: "MINIMUM"}[ord]
        out = _extreme(ctx, kind, singular, -1, False)
        return ctx.unsqueeze(out, *sorted((rows, columns))) if keepdim else out
    if abs(ord) not in (1, math.inf):
        raise ctx.unsupported(f"the norm {ord} of matrices", "'fro', 'nuc', 1, 2 and infinity are")
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    lines = reduced(ctx, "SUM", ctx.unary("ABS", x), summed, True)
    out = _extreme(ctx, "MAXIMUM" if ord > 0 else "MINIMUM", lines, other, True)
    return out if keepdim else ctx.squeeze(out, *sorted((rows, columns)))


def _extreme(ctx: TorchBuilder, kind: str, sizes: Value, axis: int, keepdim: bool) -> Value:
    """Of numbers of which none is negative; the largest of none is 0."""
    out = reduced(ctx, kind, sizes, axis, keepdim)
    return ctx.binary("MAXIMUM", out, 0) if kind == "MAXIMUM" and ctx.size(sizes, axis) == 0 else out


@aten("linalg_cond")
def cond(ctx: TorchBuilder, x: Value, p: Any = None) -> Value:
    """How much larger the largest singular value is than the least, or norms of a matrix and of its inverse."""
    if p in (None, 2, -2):
        singular = svdvals(ctx, x)
        ends = [reduced(ctx, kind, singular, -1, False) for kind in ("MAXIMUM", "MINIMUM")]
        return ctx.binary("REALDIV", *(ends[::-1] if p == -2 else ends))
    both = [x, function(ctx, "inverse", x)[0]]
    return ctx.binary("MUL", *(apply(ctx, "linalg_matrix_norm", [m, p], {}) for m in both))


@aten("linalg_vander")
def vander(ctx: TorchBuilder, x: Value, *, N: int | None = None) -> Value:
    """Powers of numbers in rows, from 0."""
    x = x if ctx.type_of(x).is_float else ctx.cast(x, DType.I64)
    x = ctx.unsqueeze(x, 0) if ctx.rank_of(x) == 0 else x
    count = ctx.size(x, -1) if N is None else N
    powers = apply(ctx, "arange", [count], {"dtype": ctx.type_of(x)})
    return ctx.binary("POW", ctx.unsqueeze(x, ctx.rank_of(x)), powers)


@aten("vander")
def falling_vander(ctx: TorchBuilder, x: Value, N: int | None = None, increasing: bool = False) -> Value:
    """Powers of numbers in rows, to 0 unless they are to increase."""
    powers = vander(ctx, x, N=N)
    return powers if increasing else apply(ctx, "flip", [powers, -1], {})
