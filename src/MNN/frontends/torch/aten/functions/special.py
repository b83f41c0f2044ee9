"""Functions of mathematics beyond exponentials, which are computed in f64."""

from __future__ import annotations

import math
from collections.abc import Callable

from MNN.frontends.common.functions import bessel, gamma, incomplete, normal, zeta
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.registry import Handler, apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_OF_ONE: dict[tuple[str, ...], Callable[[TorchBuilder, Value], Value]] = {
    ("lgamma", "special_gammaln"): gamma.lgamma,
    ("digamma", "special_digamma", "special_psi"): gamma.digamma,
    ("special_log_ndtr",): gamma.log_ndtr,
    ("special_erfcx",): gamma.erfcx,
    ("special_ndtri",): normal.quantile,
    ("special_spherical_bessel_j0",): bessel.spherical,
    ("i0", "special_i0", "special_modified_bessel_i0"): lambda ctx, x: bessel.modified(ctx, x, 0),
    ("special_i0e",): lambda ctx, x: bessel.modified(ctx, x, 0, scaled=True),
    ("special_i1", "special_modified_bessel_i1"): lambda ctx, x: bessel.modified(ctx, x, 1),
    ("special_i1e",): lambda ctx, x: bessel.modified(ctx, x, 1, scaled=True),
    ("special_bessel_j0",): lambda ctx, x: bessel.first_kind(ctx, x, 0),
    ("special_bessel_j1",): lambda ctx, x: bessel.first_kind(ctx, x, 1),
    ("special_bessel_y0",): lambda ctx, x: bessel.second_kind(ctx, x, 0),
    ("special_bessel_y1",): lambda ctx, x: bessel.second_kind(ctx, x, 1),
    ("special_modified_bessel_k0",): lambda ctx, x: bessel.modified_second_kind(ctx, x, 0),
    ("special_modified_bessel_k1",): lambda ctx, x: bessel.modified_second_kind(ctx, x, 1),
    ("special_scaled_modified_bessel_k0",): lambda ctx, x: bessel.modified_second_kind(ctx, x, 0, scaled=True),
    ("special_scaled_modified_bessel_k1",): lambda ctx, x: bessel.modified_second_kind(ctx, x, 1, scaled=True),
}


def _wide(ctx: TorchBuilder, x: Value) -> tuple[Value, DType]:
    """In f64, and the type of the result."""
    return ctx.cast(x, DType.F64), ctx.type_of(ctx.as_float(x))


def _of_one(function: Callable[[TorchBuilder, Value], Value]) -> Handler:
    def handler(ctx: TorchBuilder, x: Value) -> Value:
        wide, kind = _wide(ctx, x)
        return ctx.cast(function(ctx, wide), kind)

    return handler


for _names, _function in _OF_ONE.items():
    aten(*_names)(_of_one(_function))


@aten("mvlgamma", "special_multigammaln")
def mvlgamma(ctx: TorchBuilder, x: Value, p: int) -> Value:
    """Of the multivariate gamma function: a sum of ``p`` of them."""
    wide, kind = _wide(ctx, x)
    count = ctx.known(p, "the number of dimensions")
    if not 1 <= count <= 256:
        raise ctx.unsupported(f"{count} dimensions of a gamma function", "from 1 to 256 are")
    total = ctx.const_like(count * (count - 1) / 4 * math.log(math.pi), wide)
    for j in range(count):
        total = ctx.binary("ADD", total, gamma.lgamma(ctx, ctx.binary("SUB", wide, j / 2)))
    return ctx.cast(total, kind)


@aten("igamma", "igammac", "special_gammainc", "special_gammaincc")
def incomplete_gamma(ctx: TorchBuilder, a: Value, x: Value) -> Value:
    """The regularised incomplete gamma functions."""
    upper = ctx.name in ("igammac", "special_gammaincc")
    kind = ctx.type_of(ctx.as_float(ctx.together(a, x)[0]))
    shape, at = (ctx.cast(v, DType.F64) for v in ctx.together(a, x))
    return ctx.cast(incomplete.gamma(ctx, shape, at, upper), kind)


@aten("special_zeta")
def hurwitz(ctx: TorchBuilder, x: Operand, q: Operand) -> Value:
    kind = ctx.type_of(ctx.as_float(ctx.together(x, q)[0]))
    s, base = (ctx.cast(v, DType.F64) for v in ctx.together(x, q))
    return ctx.cast(zeta.zeta(ctx, s, base), kind)


@aten("polygamma", "special_polygamma")
def polygamma(ctx: TorchBuilder, a: Operand, b: Operand) -> Value:
    """The ``n``-th derivative of digamma."""
    n, x = (a, b) if isinstance(b, Value) else (b, a)
    order = ctx.known(n, "the order of a derivative")
    assert isinstance(x, Value)
    if order == 0:
        return apply(ctx, "digamma", [x], {})  # type: ignore[no-any-return]
    if not 0 < order < 171:
        raise ctx.unsupported(f"the derivative {order} of digamma", "from 0 to 170 are")
    wide, kind = _wide(ctx, x)
    return ctx.cast(zeta.trigamma(ctx, wide) if order == 1 else zeta.polygamma(ctx, order, wide), kind)
