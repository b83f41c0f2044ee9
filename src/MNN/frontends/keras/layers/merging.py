"""Layers of several inputs."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, select, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis

_KINDS = {
    "Add": "ADD",
    "Average": "ADD",
    "Multiply": "MUL",
    "Maximum": "MAXIMUM",
    "Minimum": "MINIMUM",
    "Subtract": "SUB",
}


@keras_layer(*_KINDS)
def merge(ctx: KerasContext, node: KerasNode) -> Value:
    """Inputs of lower rank get axes of 1 behind the first one."""
    inputs = node.inputs
    if not inputs:
        raise FormatError(f"{node.where}: it has no inputs")
    rank = max(ctx.sizes(v, node.where) for v in inputs)
    raised = [_raised(ctx, v, rank) for v in inputs]
    # inputs that got axes have lost their masks by then
    own = [m if len(v.shape or ()) == rank else None for v, m in zip(inputs, node.masks, strict=True)]
    if ctx.of_old or not any(m is not None for m in own) or node.op not in ("Multiply", "Maximum", "Minimum"):
        out = raised[0]
        for other in raised[1:]:
            out = binary(ctx, _KINDS[node.op], out, other)
    elif node.op == "Multiply":
        out = _masked_product(ctx, raised, own)
    else:
        out = _masked_extreme(ctx, _KINDS[node.op], raised, own)
    if node.op == "Average":
        out = binary(ctx, "REALDIV", out, len(inputs))
    masks = [m for m in node.masks if m is not None]
    if masks and len(masks) == len(inputs):
        ctx.masks[out] = _joined(ctx, masks, "LOGICALOR")
    return out


@keras_layer("CustomScaleLayer")
def scaled_sum(ctx: KerasContext, node: KerasNode) -> Value:
    """An input and a part of another: Inception-ResNet's blocks are added so."""
    return binary(ctx, "ADD", node.input(0), binary(ctx, "MUL", node.input(1), node.float_attr("scale", 1.0)))


def _masked_product(ctx: KerasContext, inputs: Sequence[Value], masks: Sequence[Value | None]) -> Value:
    """A step that does not count is a factor of 1; one that counts nowhere gives 0, as Keras 3 has it."""
    factors = [
        x if mask is None else _chosen(ctx, mask, x, ctx.const_like(1, x))
        for x, mask in zip(inputs, masks, strict=True)
    ]
    out = factors[0]
    for factor in factors[1:]:
        out = binary(ctx, "MUL", out, factor)
    known = [m for m in masks if m is not None]
    if len(known) == len(masks):
        out = _chosen(ctx, _joined(ctx, known, "LOGICALOR"), out, ctx.const_like(0, out))
    return out


def _masked_extreme(ctx: KerasContext, kind: str, inputs: Sequence[Value], masks: Sequence[Value | None]) -> Value:
    """A step that does not count in one of two is what it is in the other, as Keras 3 has it."""
    out, out_mask = inputs[0], masks[0]
    for x, mask in zip(inputs[1:], masks[1:], strict=True):
        if mask is not None:
            x = _chosen(ctx, mask, x, out)
        if out_mask is not None:
            out = _chosen(ctx, out_mask, out, x)
        both = mask is not None and out_mask is not None
        out_mask = _joined(ctx, [m for m in (out_mask, mask) if m is not None], "LOGICALOR") if both else None
        out = binary(ctx, kind, out, x)
    return out


def _chosen(ctx: KerasContext, mask: Value, x: Value, other: Value) -> Value:
    """``x`` at steps that count, ``other`` at those that do not."""
    out = select(ctx, ctx.op("Unsqueeze", mask, squeezeDims=[-1]), x, other)
    out.dtype = x.dtype
    return out


def _raised(ctx: KerasContext, x: Value, rank: int) -> Value:
    missing = rank - len(x.shape or ())
    if not missing:
        return x
    out = ctx.op("Unsqueeze", x, squeezeDims=list(range(1, 1 + missing)))
    out.dtype = x.dtype
    return out


def _joined(ctx: KerasContext, masks: Sequence[Value], kind: str) -> Value:
    both = masks[0]
    for mask in masks[1:]:
        both = ctx.op("BinaryOp", both, mask, opType=kind)
        both.dtype = DType.BOOL
    return both


@keras_layer("Concatenate")
def concatenate(ctx: KerasContext, node: KerasNode) -> Value:
    inputs, axis = node.inputs, node.int_attr("axis", -1)
    if len(inputs) == 1:
        return inputs[0]
    out = ctx.op("Concat", *inputs, axis=normalize_axis(axis, ctx.sizes(inputs[0], node.where), node.where))
    out.dtype = inputs[0].dtype
    _concatenated_masks(ctx, node, out, normalize_axis(axis, ctx.sizes(out, node.where), node.where))
    return out


def _concatenated_masks(ctx: KerasContext, node: KerasNode, out: Value, axis: int) -> None:
    if all(m is None for m in node.masks):
        return
    parts: list[Value] = []
    for x, mask in zip(node.inputs, node.masks, strict=True):
        if mask is None:
            shape = ctx.op("Shape", x, hasStart=True, start=0, hasEnd=True, end=2)
            mask = ctx.cast(ctx.op("Fill", shape, ctx.const(1, DType.I32)), DType.BOOL)
        parts.append(mask)
    if axis == 1:
        ctx.masks[out] = ctx.op("Concat", *parts, axis=1)
        return
    ctx.masks[out] = _joined(ctx, parts, "MUL" if ctx.of_old else "LOGICALOR")


@keras_layer("Dot")
def dot(ctx: KerasContext, node: KerasNode) -> Value:
    """Sums of products along an axis of each input, for each sample."""
    x, y = node.input(0), node.input(1)
    ranks = [ctx.sizes(v, node.where) for v in (x, y)]
    axes = [normalize_axis(a, r, node.where) for a, r in zip(node.ints_attr("axes", 2), ranks, strict=True)]
    if node.bool_attr("normalize"):
        x, y = (_unit(ctx, v, axis) for v, axis in zip((x, y), axes, strict=True))
    letters = "abcdefghijklmnop"
    first = list(letters[: ranks[0]])
    second = [letters[0], *letters[ranks[0] : ranks[0] + ranks[1] - 1]]
    second[axes[1]] = first[axes[0]]
    out = [c for c in (*first, *second[1:]) if c != first[axes[0]]]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(out)}"
    found = ctx.op("Einsum", x, y, equation=equation)
    found.dtype = x.dtype
    if ranks == [2, 2]:
        found = ctx.op("Unsqueeze", found, squeezeDims=[1])
        found.dtype = x.dtype
    return found


def _unit(ctx: KerasContext, x: Value, axis: int) -> Value:
    total = ctx.op("Reduction", unary(ctx, "SQUARE", x), operation="SUM", dim=[axis], keepDims=True)
    total.dtype = x.dtype
    return binary(ctx, "MUL", x, unary(ctx, "RSQRT", binary(ctx, "MAXIMUM", total, 1e-12)))
