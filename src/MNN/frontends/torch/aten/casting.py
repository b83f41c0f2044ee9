"""Other types, and the same again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.registry import Handler, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_TYPES = {
    "float": DType.F32, "double": DType.F64, "half": DType.F16, "bfloat16": DType.BF16, "long": DType.I64,
    "int": DType.I32, "short": DType.I16, "char": DType.I8, "byte": DType.U8, "bool": DType.BOOL,
}  # fmt: skip


def _caster(dtype: DType) -> Handler:
    def handler(ctx: TorchBuilder, x: Value) -> Value:
        return same(ctx, ctx.cast(x, dtype))

    return handler


for _name, _dtype in _TYPES.items():
    aten(_name)(_caster(_dtype))


@aten(
    "alias", "clone", "contiguous", "detach", "cpu", "cuda", "lift_fresh", "lift_fresh_copy", "lift", "data",
    "resolve_conj", "resolve_neg", "positive", "detach_copy", "alias_copy", "real", "view_as_real_copy",
    "requires_grad", "conj", "conj_physical", "_conj", "_conj_physical",
)  # fmt: skip
def identity(ctx: TorchBuilder, x: Value, *_: Any) -> Value:
    known = ctx.constant(x)
    if known is not None and known.shape == ():  # a number that sizes may be computed from
        return ctx.const(known)
    return ctx.op("Identity", x)


def same(ctx: TorchBuilder, x: Value) -> Value:
    return x


@aten("to", "_to_copy", "_autocast_to_reduced_precision", "_autocast_to_full_precision")
def to(ctx: TorchBuilder, x: Value, *args: Any, dtype: DType | int | None = None) -> Value:
    """Of ``to``'s many forms only a type changes something: a number among the arguments, or another tensor's."""
    found = dtype
    for argument in args:
        if isinstance(argument, Value):
            found = argument.dtype
        elif isinstance(argument, DType) or (isinstance(argument, int) and not isinstance(argument, bool)):
            found = argument
            break
        elif isinstance(argument, bool):
            break
    return x if found is None else ctx.cast(x, ctx.element_type(found))


@aten("type_as", "__type_as")
def type_as(ctx: TorchBuilder, x: Value, other: Value) -> Value:
    return ctx.op("CastLike", x, other) if other.dtype is None else ctx.cast(x, other.dtype)


@aten("copy")
def copy(ctx: TorchBuilder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """``source`` in the type and shape of ``x``."""
    cast = ctx.cast(source, ctx.type_of(x))
    if cast.shape is not None and cast.shape == x.shape:
        return cast
    return ctx.expand(cast, ctx.shape_like(x))


@aten("scalar_tensor", "tensor", "_tensor", "as_tensor", "NumToTensor")
def scalar_tensor(ctx: TorchBuilder, x: Any, dtype: DType | int | None = None) -> Value:
    import numpy as np

    if isinstance(x, Value):
        return to(ctx, x, dtype=dtype)
    if isinstance(x, (list, tuple)):
        rows = [scalar_tensor(ctx, v, dtype) for v in x]
        if not rows:
            return ctx.const(np.zeros(0, ctx.element_type(dtype).numpy))
        return ctx.op("Pack", *rows, axis=0)
    kind = ctx.common(x)
    return ctx.scalar(x, ctx.element_type(dtype, DType.F32 if kind is DType.F64 else kind))


@aten("Int", "IntImplicit")
def whole(ctx: TorchBuilder, x: Value) -> Scalar:
    """The only element as an integer, rounded towards zero."""
    return _as_kind(ctx, item(ctx, x), DType.I64, int)


@aten("Float", "FloatImplicit")
def floating(ctx: TorchBuilder, x: Value) -> Scalar:
    """The only element as a number of f64."""
    return _as_kind(ctx, item(ctx, x), DType.F64, float)


@aten("Bool")
def truth(ctx: TorchBuilder, x: Value) -> Scalar:
    """Whether the only element is not zero."""
    return _as_kind(ctx, item(ctx, x), DType.BOOL, bool)


def _as_kind(ctx: TorchBuilder, number: Scalar, dtype: DType, known: Callable[[Any], Scalar]) -> Scalar:
    if not isinstance(number, Number):
        return known(number)
    value = ctx.cast(number.value, dtype)
    value.shape = ()
    return Number(value)


@aten("item", "_local_scalar_dense", "ScalarImplicit")
def item(ctx: TorchBuilder, x: Value) -> Scalar:
    """The only element as a number."""
    known = ctx.constant(x)
    if known is not None and known.size == 1:
        return known.reshape(-1)[0].item()  # type: ignore[no-any-return]
    flat = x if x.shape == () else ctx.op("Reshape", x, ctx.const([-1]))
    single = flat if x.shape == () else ctx.op("Squeeze", flat, squeezeDims=[0])
    dtype = ctx.type_of(x)
    wide = DType.F64 if dtype.is_float else dtype if dtype is DType.BOOL else DType.I64
    value = ctx.cast(single, wide)
    value.shape = ()
    return Number(value)
