"""Cutting, joining and padding."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands, fitting_pieces
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.core.builder import MAX_RANK


@onnx_op("Slice")
def slice_1(ctx: Context, node: OnnxNode) -> Value:
    """Opset below 10: bounds are attributes."""
    starts, ends, axes = node.ints_attr("starts"), node.ints_attr("ends"), node.ints_attr("axes", None)
    inputs = [node.input(0), *(ctx.const(np.asarray(v, np.int64)) for v in (starts, ends, axes) if v is not None)]
    return ctx.op("StridedSlice", *inputs, fromType=1)


@onnx_op("Slice", since=10, operands=Operands(lists=(1, 2, 3, 4)))
def slice_10(ctx: Context, node: OnnxNode) -> Value:
    x, starts, ends, axes, steps = node.input(0), node.input(1), node.input(2), node.optional(3), node.optional(4)
    inputs: list[Value | None] = [x, starts, ends]
    if axes is not None or steps is not None:
        inputs.append(axes if axes is not None else _all_axes(ctx, node, starts))
    if steps is not None:
        inputs.append(steps)
    return ctx.op("StridedSlice", *inputs, fromType=1)


def _all_axes(ctx: Context, node: OnnxNode, starts: Value) -> Value:
    sizes = ctx.static_shape(starts)
    if sizes is None or len(sizes) != 1 or sizes[0] > MAX_RANK:
        raise node.unsupported("steps without axes for an unknown number of starts", "give the axes")
    return ctx.const(np.arange(sizes[0]))


@onnx_op("Concat")
def concat(ctx: Context, node: OnnxNode) -> Value:
    axis = node.int_attr("axis", 1)
    return ctx.op("Concat", *[node.input(i) for i in range(len(node.inputs))], axis=axis)


@onnx_op("Split", operands=Operands(lists=(1,), check=fitting_pieces))
def split(ctx: Context, node: OnnxNode) -> list[Value]:
    """Sizes are an attribute, from opset 13 on an operand; without them the pieces are equal."""
    given = node.optional(1)
    sizes = node.ints_attr("split", None) if given is None else ctx.constant_ints(given)
    count = node.int_attr("num_outputs", len(node.outputs))
    if given is None and sizes is None and count != len(node.outputs):
        raise node.unsupported(f"{len(node.outputs)} outputs of num_outputs={count}", "make them agree")
    inputs = [node.input(0)] if sizes is not None or given is None else [node.input(0), given]
    if sizes is not None and len(sizes) == 1:
        inputs, sizes = [node.input(0), ctx.const(np.asarray(sizes, np.int64))], None
    axis = node.int_attr("axis", 0)
    return ctx.emit("Slice", inputs, len(node.outputs), axis=axis, slicePoints=sizes, sourceType="TORCH")


_MODES = {"constant": "CONSTANT", "reflect": "REFLECT", "edge": "EDGE", "wrap": "WRAP"}


@onnx_op("Pad")
def pad_2(ctx: Context, node: OnnxNode) -> Value:
    """Opset below 11: pads and value are attributes."""
    mode = node.choice_attr("mode", "constant", *_MODES)
    pads = node.ints_attr("pads" if node.has("pads") else "paddings")
    assert pads is not None
    value = node.float_attr("value", 0.0)
    return _pad(ctx, node, mode, ctx.const(_interleaved(pads)), ctx.const_like(value, node.input(0)))


@onnx_op("Pad", since=11, operands=Operands(lists=(1,)))
def pad_11(ctx: Context, node: OnnxNode) -> Value:
    mode = node.choice_attr("mode", "constant", *_MODES)
    pads, value, axes = node.input(1), node.optional(2), node.optional(3)
    known, chosen = ctx.constant_ints(pads), ctx.constant_ints(axes)
    rank = ctx.rank(node.input(0))
    if axes is None and known is not None:
        return _pad(ctx, node, mode, ctx.const(_interleaved(known)), value)
    if axes is None:
        rows = ctx.op("Reshape", pads, ctx.const([2, -1]))
        flat = ctx.op("Reshape", ctx.op("Permute", rows, dims=[1, 0]), ctx.const([-1]))
        return _pad(ctx, node, mode, flat, value)
    if known is None or chosen is None or rank is None or len(known) != 2 * len(chosen):
        return ctx.op("PadAxes", node.input(0), pads, value, axes, mode=_MODES[mode])
    full = [0] * (2 * rank)
    for i, axis in enumerate(chosen):
        if not -rank <= axis < rank:
            raise node.unsupported(f"axis {axis} of a tensor of rank {rank}", "name an axis that exists")
        full[axis % rank], full[axis % rank + rank] = known[i], known[i + len(chosen)]
    return _pad(ctx, node, mode, ctx.const(_interleaved(full)), value)


def _interleaved(pads: list[int]) -> np.ndarray:
    """ONNX lists begins, then ends; MNN begin and end axis by axis."""
    half = len(pads) // 2
    return np.asarray([pads[i + k * half] for i in range(half) for k in (0, 1)], np.int64)


def _pad(ctx: Context, node: OnnxNode, mode: str, pads: Value, value: Value | None) -> Value:
    if mode == "wrap":
        return ctx.op("PadWrap", node.input(0), pads)
    inputs = [node.input(0), pads] + ([value] if value is not None and mode == "constant" else [])
    return ctx.op("Padding", *inputs, mode=_MODES[mode])
