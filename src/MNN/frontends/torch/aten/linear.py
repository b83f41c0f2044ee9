"""Products of matrices."""

from __future__ import annotations

import numpy as np

from MNN.frontends.torch.aten.creation import bounded
from MNN.frontends.torch.aten.reductions import p_norm, reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def product(ctx: TorchBuilder, x: Value, y: Value, **turned: bool) -> Value:
    """Of integers narrower than 32 bits sums are made in 32, whose lower bits are theirs."""
    left, right = ctx.together(x, y)
    kind = ctx.type_of(left)
    if kind.is_float or kind.size >= 4:
        return ctx.op("MatMul", left, right, **turned)
    return ctx.cast(ctx.op("MatMul", *(ctx.cast(v, DType.I32) for v in (left, right)), **turned), kind)


@aten("matmul", "mm", "bmm", "mv", "__matmul__", "linalg_matmul", "_matmul")
def matmul(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    return product(ctx, x, y)


@aten("dot", "inner", "vdot")
def inner(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    if ctx.rank_of(x) == 0 or ctx.rank_of(y) == 0:
        return ctx.binary("MUL", x, y)
    if ctx.rank_of(x) == 1 or ctx.rank_of(y) == 1:
        return product(ctx, x, y)
    rank = ctx.rank_of(y)
    if rank == 2:
        return product(ctx, x, y, transposeB=True)
    flat = ctx.reshape(y, [-1, ctx.size(y, -1)])
    out = product(ctx, ctx.reshape(x, [-1, ctx.size(x, -1)]), flat, transposeB=True)
    return ctx.reshape(out, [*ctx.sizes(x)[:-1], *ctx.sizes(y)[:-1]])


@aten("linear")
def linear(ctx: TorchBuilder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    if ctx.rank(weight) == 1:
        out = product(ctx, x, weight)
    elif bias is not None and ctx.rank(bias) == 1:
        return ctx.op("MatMul", x, weight, bias, transposeB=True)
    else:
        out = product(ctx, x, weight, transposeB=True)
    return out if bias is None else ctx.binary("ADD", out, bias)


@aten("addmm", "addmv", "addbmm_", "baddbmm")
def addmm(ctx: TorchBuilder, bias: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    plain = beta == 1 and alpha == 1 and not isinstance(beta, Number) and not isinstance(alpha, Number)
    if plain and ctx.rank(bias) == 1 and ctx.rank(y) == 2 and ctx.type_of(x) is ctx.type_of(bias):
        return ctx.op("MatMul", x, y, bias)
    out = product(ctx, x, y)
    if alpha != 1:
        out = ctx.op("BinaryOp", out, ctx.scalar(alpha, ctx.type_of(out)), opType="MUL")
    if beta == 0:
        return ctx.op("Identity", out) if plain else out
    if beta != 1:
        bias = ctx.op("BinaryOp", bias, ctx.scalar(beta, ctx.type_of(bias)), opType="MUL")
    return ctx.binary("ADD", bias, out)


@aten("addbmm")
def addbmm(ctx: TorchBuilder, bias: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    summed = reduced(ctx, "SUM", product(ctx, x, y), 0, False)
    scaled = ctx.op("BinaryOp", summed, ctx.scalar(alpha, ctx.type_of(summed)), opType="MUL")
    return ctx.binary("ADD", ctx.op("BinaryOp", bias, ctx.scalar(beta, ctx.type_of(bias)), opType="MUL"), scaled)


@aten("addr")
def addr(ctx: TorchBuilder, bias: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    made = outer(ctx, x, y)
    made = ctx.op("BinaryOp", made, ctx.scalar(alpha, ctx.type_of(made)), opType="MUL")
    if beta == 0:
        return made
    return ctx.binary("ADD", ctx.op("BinaryOp", bias, ctx.scalar(beta, ctx.type_of(bias)), opType="MUL"), made)


@aten("outer", "ger")
def outer(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    return ctx.binary("MUL", ctx.unsqueeze(x, 1), ctx.unsqueeze(y, 0))


@aten("bilinear", "_trilinear_bilinear")
def bilinear(ctx: TorchBuilder, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Value:
    out = ctx.op("Einsum", x, weight, y, equation="...i,oij,...j->...o")
    return out if bias is None else ctx.op("BinaryOp", out, bias, opType="ADD")


@aten("_trilinear")
def trilinear(
    ctx: TorchBuilder, a: Value, b: Value, c: Value, expand1: list[int], expand2: list[int], expand3: list[int],
    sumdim: list[int], unroll_dim: int = 1,
) -> Value:  # fmt: skip
    """The product of three tensors, each with axes put in, summed over axes."""
    x, y, z = (ctx.unsqueeze(t, *axes) for t, axes in ((a, expand1), (b, expand2), (c, expand3)))
    product_of_all = ctx.op("BinaryOp", ctx.op("BinaryOp", x, y, opType="MUL"), z, opType="MUL")
    return reduced(ctx, "SUM", product_of_all, sumdim, False) if sumdim else product_of_all


@aten("einsum")
def einsum(ctx: TorchBuilder, equation: str, operands: list[Value], path: list[int] | None = None) -> Value:
    """Integers come out in 64 bits where an axis that one operand alone has is summed over: torch does so first."""
    equation = equation.replace(" ", "")
    given, arrow, out = equation.partition("->")
    out = out if arrow else "".join(c for c in given if given.count(c) == 1 or c == ".")
    summed = [c for c in set(given) - {",", *out} if sum(c in term for term in given.split(",")) == 1]
    if summed and not ctx.type_of(operands[0]).is_float:
        operands = [ctx.cast(x, DType.I64) for x in operands]
    return ctx.op("Einsum", *ctx.together(*operands), equation=equation)


@aten("chain_matmul", "linalg_multi_dot")
def chain(ctx: TorchBuilder, tensors: list[Value]) -> Value:
    out = tensors[0]
    for t in tensors[1:]:
        out = product(ctx, out, t)
    return out


@aten("tensordot")
def tensordot(ctx: TorchBuilder, x: Value, y: Value, dims_x: list[int], dims_y: list[int]) -> Value:
    left, right = ctx.axes(x, dims_x) if dims_x else [], ctx.axes(y, dims_y) if dims_y else []
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    a = names[: ctx.rank_of(x)]
    b = list(names[len(a) : len(a) + ctx.rank_of(y)])
    for i, j in zip(left, right, strict=True):
        b[j] = a[i]
    out = [c for i, c in enumerate(a) if i not in left] + [c for j, c in enumerate(b) if j not in right]
    return ctx.op("Einsum", *ctx.together(x, y), equation=f"{a},{''.join(b)}->{''.join(out)}")


@aten("cdist", "_cdist_forward", "_euclidean_dist")
def cdist(ctx: TorchBuilder, x: Value, y: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    apart = ctx.binary("SUB", ctx.unsqueeze(x, ctx.rank_of(x) - 1), ctx.unsqueeze(y, ctx.rank_of(y) - 2))
    return p_norm(ctx, apart, p, -1, False)


@aten("_pdist_forward", "pdist")
def pdist(ctx: TorchBuilder, x: Value, p: float = 2.0) -> Value:
    """Distances of all pairs of rows, the first row's first."""
    rows, columns = np.triu_indices(bounded(ctx, ctx.size(x, 0), 1 << 12, "rows"), 1)
    place = ctx.const(0, DType.I32)
    first, second = (ctx.op("GatherV2", x, ctx.const(i.astype(np.int64)), place) for i in (rows, columns))
    return p_norm(ctx, ctx.op("BinaryOp", first, second, opType="SUB"), p, -1, False)


@aten("dist")
def dist(ctx: TorchBuilder, x: Value, y: Value, p: float = 2.0) -> Value:
    return p_norm(ctx, ctx.binary("SUB", x, y), p, None, False)


@aten("linalg_vecdot")
def vecdot(ctx: TorchBuilder, x: Value, y: Value, *, dim: int = -1) -> Value:
    return reduced(ctx, "SUM", ctx.binary("MUL", x, y), dim, False)


@aten("_int_mm")
def product_of_bytes(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    """Summed in 32 bits."""
    out = ctx.op("MatMulInteger", x, y)
    out.dtype = DType.I32
    return out


@aten("cross", "linalg_cross")
def cross(ctx: TorchBuilder, x: Value, y: Value, dim: int | None = -1) -> Value:
    axis = ctx.axis(x, -1 if dim is None else dim)
    left, right = ctx.together(x, y)
    shape = ctx.shape_like(ctx.op("BinaryOp", left, right, opType="MUL"))
    place = ctx.const(axis, DType.I32)

    def turned(v: Value, by: int) -> Value:
        order = ctx.const([by % 3, (by + 1) % 3, (by + 2) % 3])
        return ctx.op("GatherV2", ctx.expand(v, shape), order, place)

    first = ctx.op("BinaryOp", turned(left, 1), turned(right, 2), opType="MUL")
    second = ctx.op("BinaryOp", turned(left, 2), turned(right, 1), opType="MUL")
    return ctx.op("BinaryOp", first, second, opType="SUB")


@aten("det", "linalg_det", "_linalg_det")
def det(ctx: TorchBuilder, x: Value) -> Value:
    return ctx.op("Det", x)


@aten("kron")
def kron(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    rank = max(ctx.rank_of(x), ctx.rank_of(y))
    left = ctx.reshape(x, [*[1] * (rank - ctx.rank_of(x)), *ctx.sizes(x)])
    right = ctx.reshape(y, [*[1] * (rank - ctx.rank_of(y)), *ctx.sizes(y)])
    made = ctx.binary("MUL", ctx.unsqueeze(left, *range(1, 2 * rank, 2)), ctx.unsqueeze(right, *range(0, 2 * rank, 2)))
    sizes = [
        ctx.known(a, "a size") * ctx.known(b, "a size") for a, b in zip(ctx.sizes(left), ctx.sizes(right), strict=True)
    ]
    return ctx.reshape(made, list(sizes))


@aten("_grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(
    ctx: TorchBuilder, x: Value, weight: Value, offs: Value | None = None, bias: Value | None = None,
    out_dtype: DType | int | None = None,
) -> Value:  # fmt: skip
    """Rows ``x[S, K]`` in groups that end at ``offs[G]``, each times its own ``weight[G, K, N]``: mixtures of experts.
    Rows behind the last group give zeros."""
    kind = ctx.element_type(out_dtype, ctx.type_of(x))
    if offs is None:
        out = product(ctx, x, weight)
    elif ctx.rank(x) != 2 or ctx.rank(weight) != 3:
        raise ctx.unsupported(
            f"groups of {ctx.rank(x)} dimensions times {ctx.rank(weight)}", "multiply rows by matrices"
        )
    else:
        count = ctx.known(ctx.size(weight, 0), "groups")
        rows = apply(ctx, "arange", [ctx.size(x, 0)], {})
        group = apply(ctx, "searchsorted", [offs, rows], {"right": True})
        inside = ctx.unsqueeze(ctx.binary("LESS", group, count), 1)
        matrices = ctx.reshape(ctx.rows(weight, [0, 2, 1]), [-1, ctx.size(weight, 1)])
        out = ctx.op("RoutedMatMul", x, matrices, ctx.binary("MINIMUM", group, count - 1), count=count)
        out = apply(ctx, "where", [inside, out, 0.0], {})
    return ctx.cast(out if bias is None else ctx.binary("ADD", out, bias), kind)
