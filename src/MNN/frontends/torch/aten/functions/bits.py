"""Functions of the bits that floats are made of: exponents, and the next float."""

from __future__ import annotations

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_WORDS = {DType.F16: DType.I16, DType.BF16: DType.I16, DType.F32: DType.I32, DType.F64: DType.I64}
"""Integers of the same width."""


def _bits(ctx: TorchBuilder, x: Value) -> Value:
    """As an integer that is computed with: at least 32 bits of it."""
    word = _WORDS[ctx.type_of(x)]
    return ctx.cast(ctx.op("BitCast", x, dstT=data_type(word)), DType.I32 if word is DType.I16 else word)


def _float(ctx: TorchBuilder, bits: Value, kind: DType) -> Value:
    return ctx.op("BitCast", ctx.cast(bits, _WORDS[kind]), dstT=data_type(kind))


def _pick(ctx: TorchBuilder, where: Value, yes: Value, no: Value) -> Value:
    return apply(ctx, "where", [where, yes, no], {})  # type: ignore[no-any-return]


@aten("frexp")
def frexp(ctx: TorchBuilder, x: Value) -> list[Value]:
    """A fraction between a half and 1, and the power of two (i32) that it is to be multiplied by; 0, infinities and NaN
    stay what they are, with 0, and so do numbers that the processor takes for 0."""
    kind = ctx.type_of(x)
    if not kind.is_float:
        raise ctx.unsupported(f"a tensor of {kind.value}")
    wide = x if kind is DType.F64 else ctx.cast(x, DType.F32)
    width, bias = (52, 1022) if kind is DType.F64 else (23, 126)
    size = ctx.unary("ABS", wide)
    small = ctx.binary("LESS", size, 2.0**-bias)  # below it exponents are no part of the bits
    word = _bits(ctx, _pick(ctx, small, ctx.binary("MUL", wide, 2.0**width), wide))
    field = ctx.binary("BITWISE_AND", apply(ctx, "bitwise_right_shift", [word, width], {}), 2 * bias + 3)
    away = _pick(ctx, small, ctx.const_like(-bias - width, field), ctx.const_like(-bias, field))
    fraction = ctx.binary("BITWISE_OR", ctx.binary("BITWISE_AND", word, ~((2 * bias + 3) << width)), bias << width)
    finite = apply(ctx, "isfinite", [wide], {})
    plain = apply(ctx, "logical_and", [finite, ctx.binary("GREATER", size, 0)], {})
    exponent = ctx.cast(ctx.binary("ADD", field, away), DType.I32)
    return [
        ctx.cast(_pick(ctx, plain, _float(ctx, fraction, ctx.type_of(wide)), wide), kind),
        _pick(ctx, plain, exponent, ctx.const_like(0, exponent)),
    ]


@aten("nextafter")
def nextafter(ctx: TorchBuilder, x: Value, y: Value) -> Value:
    """The float beside ``x``, towards ``y``: floats of one sign are in the order of their bits, which are compared
    instead of them, as processors may take the smallest floats for 0."""
    left, right = ctx.together(x, y)
    kind = ctx.type_of(left)
    word, other = _bits(ctx, left), _bits(ctx, right)
    least = -(1 << 8 * kind.size - 1)

    def order(bits: Value) -> Value:
        return _pick(ctx, ctx.binary("LESS", bits, 0), ctx.binary("SUB", ctx.const_like(least, bits), bits), bits)

    here, there = order(word), order(other)
    one, minus = ctx.const_like(1, word), ctx.const_like(-1, word)
    first = _pick(ctx, ctx.binary("LESS", there, 0), ctx.const_like(least + 1, word), one)
    grows = ctx.binary("EQUAL", *(ctx.cast(ctx.binary("GREATER", *p), DType.I32) for p in ((there, here), (here, 0))))
    moved = _pick(ctx, ctx.binary("EQUAL", here, 0), first, ctx.binary("ADD", word, _pick(ctx, grows, one, minus)))
    found = _pick(ctx, ctx.binary("EQUAL", here, there), right, _float(ctx, moved, kind))
    missing = apply(ctx, "logical_or", [apply(ctx, "isnan", [v], {}) for v in (left, right)], {})
    return _pick(ctx, missing, ctx.binary("ADD", left, right), found)
