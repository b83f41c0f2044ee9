"""Products and tables whose numbers are integers, as ``model.quantize`` leaves them.

Inputs may be rounded to 8 bits, row by row; sums of products of integers are then exact, as they are in Keras.
"""

from __future__ import annotations

import math

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, drop_axis, insert_axis, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.quantized import Integers, activation_range
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_EXACT = 1 << 24
"""Whole numbers up to here are exact in floats."""


def _rounded(ctx: KerasContext, x: Value, axes: list[int], most: float, epsilon: float) -> tuple[Value, Value]:
    """Whole numbers from ``-most`` to ``most``, and by how much they were multiplied; ``axes`` share one number."""
    largest = ctx.op("Reduction", unary(ctx, "ABS", x), operation="MAXIMUM", dim=axes, keepDims=True)
    largest.dtype = x.dtype
    scale = ctx.op("BinaryOp", ctx.const_like(most, x), binary(ctx, "ADD", largest, epsilon), opType="REALDIV")
    scale.dtype = x.dtype
    whole = unary(ctx, "ROUND", binary(ctx, "MUL", x, scale))
    whole = binary(ctx, "MAXIMUM", binary(ctx, "MINIMUM", whole, most), -most)
    return whole, scale


def product(ctx: KerasContext, node: KerasNode, x: Value, held: Integers) -> Value:
    """``x`` times a quantised kernel of two axes."""
    limits = None if held.groups is not None else activation_range(node)
    if limits is None:
        weight = held.compressed()
        y = ctx.op(
            "MatMul",
            x,
            ctx.const(held.floats()) if weight is None else ctx.quantized(weight),
            transposeB=weight is not None,
        )
        y.dtype = x.dtype
        return y
    whole, scale = _rounded(ctx, x, [-1], *limits)
    total = ctx.op("MatMulInteger", ctx.op("Cast", whole, dstT=data_type(DType.I8)), ctx.const(held.values), None, None)
    total.dtype = DType.I32
    wide = ctx.cast(total, x.dtype or DType.F32)
    wide.dtype = x.dtype
    return _unscaled(ctx, wide, scale, ctx.const(held.scale.reshape(-1)))


def _unscaled(ctx: KerasContext, total: Value, scale: Value, weights: Value) -> Value:
    y = ctx.op("BinaryOp", total, scale, opType="REALDIV")
    y.dtype = total.dtype
    return binary(ctx, "MUL", y, weights)


def einsum(ctx: KerasContext, node: KerasNode, x: Value, held: Integers, equation: str, shape: list[int]) -> Value:
    """An Einstein sum of ``x`` and a quantised kernel of ``shape``."""
    limits = None if held.groups is not None else activation_range(node)
    if held.packed:
        if limits is not None:
            raise node.unsupported("4-bit numbers with inputs that are quantised", "leave activation_quantizer out")
        floats = held.floats()
        if floats.size != math.prod(shape):
            raise FormatError(f"{node.where}: {floats.size} numbers for a kernel of {shape}")
        y = ctx.op("Einsum", x, ctx.const(floats.reshape(shape)), equation=equation)
        y.dtype = x.dtype
        return y
    if held.values.shape != tuple(shape):
        raise FormatError(f"{node.where}: its kernel is {list(held.values.shape)}, expected {shape}")
    if limits is None:
        y = ctx.op("Einsum", x, ctx.cast(ctx.const(held.values), x.dtype or DType.F32), equation=equation)
        y.dtype = x.dtype
        return binary(ctx, "MUL", y, ctx.const(held.scale))
    given, _, out = equation.partition("->")
    letters, _, inner = given.partition(",")
    summed = [i for i, c in enumerate(letters) if c not in out]
    if math.prod(n for c, n in zip(inner, shape, strict=True) if c not in out) * limits[0] ** 2 > _EXACT:
        raise node.unsupported("sums of more products of integers than floats hold", "quantise it with weights alone")
    whole, scale = _rounded(ctx, x, summed, *limits)
    y = ctx.op("Einsum", whole, ctx.cast(ctx.const(held.values), x.dtype or DType.F32), equation=equation)
    y.dtype = x.dtype
    for axis in reversed(summed):
        scale = drop_axis(ctx, scale, axis)
    kept = [c for c in letters if c in out]
    order = [kept.index(c) for c in out if c in kept]
    if order != sorted(order):
        scale = ctx.op("Permute", scale, dims=order)
        scale.dtype = x.dtype
    for axis, c in enumerate(out):
        if c not in kept:
            scale = insert_axis(ctx, scale, axis)
    return _unscaled(ctx, y, scale, ctx.const(held.scale))


def kernel_shape(node: KerasNode, x: Value, equation: str) -> list[int]:
    """The sizes of the kernel of an ``EinsumDense``, from what comes in and what is configured to go out."""
    given, _, out = equation.partition("->")
    letters, _, inner = given.partition(",")
    told = node.get("output_shape")
    ends = list(told) if isinstance(told, list | tuple) else [told]
    sizes: dict[str, object] = dict(zip(reversed(out), reversed(ends), strict=False))
    if x.shape is None or len(x.shape) != len(letters):
        raise FormatError(f"{node.where}: the equation '{equation}' does not fit an input of shape {x.shape}")
    sizes |= {c: n for c, n in zip(letters, x.shape, strict=True) if isinstance(n, int)}
    found = [sizes.get(c) for c in inner]
    if not all(isinstance(n, int) for n in found):
        raise node.unsupported(f"a kernel of open size in '{equation}'", "fix the sizes that the kernel shares with it")
    return [int(n) for n in found]  # type: ignore[call-overload]


def rows(ctx: KerasContext, node: KerasNode, numbers: Value, held: Integers) -> Value:
    """Rows of a quantised table."""
    axis = ctx.const(0, DType.I32)

    def taken(table: Value) -> Value:
        found = ctx.op("GatherV2", table, numbers, axis)
        found.dtype = table.dtype
        return found

    wide = ctx.cast(taken(ctx.const(held.values)), DType.F32)
    wide.dtype = DType.F32
    scale = taken(ctx.const(held.scale))
    if held.groups is None or held.zero is None:
        return binary(ctx, "MUL", wide, insert_axis(ctx, scale, ctx.sizes(numbers, node.where)))
    places = ctx.const(held.groups)

    def spread(v: Value) -> Value:
        out = ctx.op("GatherV2", v, places, ctx.const(-1, DType.I32))
        out.dtype = DType.F32
        return out

    return binary(ctx, "MUL", binary(ctx, "SUB", wide, spread(taken(ctx.const(held.zero)))), spread(scale))
