"""How variables vary together: covariances and correlations."""

from __future__ import annotations

from MNN.frontends.torch.aten.reductions import reduced
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("cov")
def cov(
    ctx: TorchBuilder, x: Value, *, correction: int = 1, fweights: Value | None = None, aweights: Value | None = None
) -> Value:  # fmt: skip
    """``x [variables, observations]``: the covariance of each two variables; observations may count several times
    (``fweights``) or for more (``aweights``)."""
    single = ctx.rank_of(x) < 2
    rows = ctx.reshape(ctx.as_float(x), [1, -1]) if single else ctx.as_float(x)
    kind = ctx.type_of(rows)
    weights = fweights if aweights is None else aweights if fweights is None else ctx.binary("MUL", fweights, aweights)
    if weights is None:
        total = ctx.cast(ctx.scalar(ctx.size(rows, 1), DType.I64), kind)
        mean = reduced(ctx, "MEAN", rows, 1, True)
        left = apart = ctx.binary("SUB", rows, mean)
    else:
        shares = ctx.cast(weights, kind)
        total = reduced(ctx, "SUM", shares, None, False)
        mean = reduced(ctx, "SUM", ctx.binary("MUL", rows, shares), 1, True)
        apart = ctx.binary("SUB", rows, ctx.binary("REALDIV", mean, total))
        left = ctx.binary("MUL", apart, shares)
    free = ctx.binary("SUB", total, correction)
    if aweights is not None and correction:
        squares = ctx.binary("MUL", ctx.cast(aweights, kind), shares)
        squares = ctx.binary("REALDIV", reduced(ctx, "SUM", squares, None, False), total)
        free = ctx.binary("SUB", total, ctx.binary("MUL", squares, correction))
    free = ctx.binary("MAXIMUM", free, 0)
    out = ctx.binary("REALDIV", apply(ctx, "matmul", [left, apply(ctx, "t", [apart], {})], {}), free)
    return ctx.squeeze(out, 0, 1) if ctx.size(rows, 0) == 1 else out


@aten("corrcoef")
def corrcoef(ctx: TorchBuilder, x: Value) -> Value:
    """Covariances over what both variables vary, between -1 and 1."""
    found = cov(ctx, x)
    if ctx.rank_of(found) == 0:
        return ctx.binary("REALDIV", found, found)
    size = ctx.unary("SQRT", apply(ctx, "diagonal", [found], {}))
    found = ctx.binary("REALDIV", ctx.binary("REALDIV", found, ctx.unsqueeze(size, 1)), ctx.unsqueeze(size, 0))
    return apply(ctx, "clamp", [found, -1, 1], {})  # type: ignore[no-any-return]
