"""Cutting and padding, reversing, rolling."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis

END = np.iinfo(np.int32).max
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@tf_op("StridedSlice")
def strided_slice(ctx: Context, node: TfNode) -> Value:
    """Written as a slice over axes, then axes taken out and put in, of which more is known beforehand."""
    x, rank = node.input(0), ctx.rank(node.input(0))
    masks = [node.int_attr(name, 0) for name in _MASKS]
    begins, ends, strides = (ctx.constant_ints(v) for v in node.tensors(1, 4))
    if begins is None or ends is None or strides is None or (rank is None and masks[2]):
        names = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")
        return ctx.op("StridedSlice", *node.tensors(0, 4), **dict(zip(names, masks, strict=True)))
    if not len(begins) == len(ends) == len(strides):
        raise node.unsupported(f"{len(begins)} begins with {len(ends)} ends and {len(strides)} strides")
    begin_mask, end_mask, ellipsis, new_axis, shrink = masks
    used = sum(1 for i in range(len(begins)) if not (new_axis | ellipsis) >> i & 1)
    cuts: list[tuple[int, int, int, int]] = []
    dropped: list[int] = []
    inserted: list[int] = []
    axis = made = 0
    for i, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        if ellipsis >> i & 1:
            axis += (rank or 0) - used
            made += (rank or 0) - used
            continue
        if new_axis >> i & 1:
            inserted.append(made)
            made += 1
            continue
        if shrink >> i & 1:
            cuts.append((axis, begin, begin + 1 if begin != -1 else END, 1))
            dropped.append(axis)
            made -= 1
        else:
            first = begin if not begin_mask >> i & 1 else (0 if stride > 0 else END)
            last = end if not end_mask >> i & 1 else (END if stride > 0 else -END)
            if (first, last, stride) != (0, END, 1):
                cuts.append((axis, first, last, stride))
        axis += 1
        made += 1
    out = cut(ctx, x, cuts)
    if dropped:
        out = ctx.op("Squeeze", out, squeezeDims=dropped)
    if inserted:
        out = ctx.op("Unsqueeze", out, squeezeDims=inserted)
    return out


def cut(ctx: Context, x: Value, cuts: list[tuple[int, int, int, int]]) -> Value:
    """A slice by (axis, begin, end, stride)."""
    if not cuts:
        return x
    axes, begins, ends, strides = (ctx.const(np.asarray(v, np.int64)) for v in zip(*cuts, strict=True))
    return ctx.op("StridedSlice", x, begins, ends, axes, strides, fromType=1)


@tf_op("Slice")
def slice_by_size(ctx: Context, node: TfNode) -> Value:
    x = node.input(0)
    begins, sizes = ctx.constant_ints(node.input(1)), ctx.constant_ints(node.input(2))
    if begins is None or sizes is None or len(begins) != len(sizes):
        return ctx.op("SliceTf", *node.tensors(0, 3))
    cuts = [
        (axis, begin, END if size == -1 else begin + size, 1)
        for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True))
    ]
    return cut(ctx, x, [c for c in cuts if c[1:3] != (0, END)])


@tf_op("Pad", "PadV2")
def pad(ctx: Context, node: TfNode) -> Value:
    value = [node.input(2)] if node.op == "PadV2" else []
    return ctx.op("Padding", node.input(0), _borders(ctx, node), *value, mode="CONSTANT")


@tf_op("MirrorPad")
def mirror_pad(ctx: Context, node: TfNode) -> Value:
    mode = node.choice_attr("mode", "REFLECT", "REFLECT", "SYMMETRIC")
    return ctx.op("Padding", node.input(0), _borders(ctx, node), mode=mode)


def _borders(ctx: Context, node: TfNode) -> Value:
    """Rows of begin and end per axis in one line."""
    return ctx.op("Reshape", node.input(1), ctx.const([-1]))


@tf_op("ReverseV2")
def reverse(ctx: Context, node: TfNode) -> Value:
    axes = ctx.constant_ints(node.input(1))
    return node.input(0) if axes == [] else ctx.op("Reverse", node.input(0), node.input(1))


@tf_op("Reverse")
def reverse_flags(ctx: Context, node: TfNode) -> Value:
    """The old form has a flag for each axis."""
    flags = ctx.constant(node.input(1))
    if flags is None:
        raise node.unsupported("axes that are not constant", "use constants")
    axes = [i for i, on in enumerate(flags.reshape(-1)) if on]
    return ctx.op("Reverse", node.input(0), ctx.const(axes)) if axes else node.input(0)


@tf_op("ReverseSequence")
def reverse_sequence(ctx: Context, node: TfNode) -> Value:
    batch, line = node.int_attr("batch_dim", 0), node.int_attr("seq_dim")
    return ctx.op("ReverseSequence", node.input(0), node.input(1), batchDim=batch, seqDim=line)


@tf_op("Roll")
def roll(ctx: Context, node: TfNode) -> Value:
    """Along each axis the end comes to the front."""
    x, shifts, axes = node.input(0), ctx.constant_ints(node.input(1)), ctx.constant_ints(node.input(2))
    shape = x.shape
    if axes is None or shape is None or (shifts is not None and len(shifts) != len(axes)):
        raise node.unsupported("axes that are not constant", "use constants")
    out = x
    for i, given in enumerate(axes):
        axis = normalize_axis(given, len(shape), node.where)
        size = shape[axis]
        if shifts is None or not isinstance(size, int):
            out = _rolled(ctx, out, axis, _shift(ctx, node.input(1), i) if shifts is None else shifts[i])
            continue
        by = shifts[i] % max(size, 1)
        if by:
            out = ctx.op("Concat", cut(ctx, out, [(axis, -by, END, 1)]), cut(ctx, out, [(axis, 0, -by, 1)]), axis=axis)
    return out


def _shift(ctx: Context, shifts: Value, index: int) -> Value:
    """One of several shifts."""
    by = ctx.op("GatherV2", ctx.op("Reshape", shifts, ctx.const([-1])), ctx.const(index, DType.I32))
    return by if shifts.dtype is DType.I32 else ctx.op("Cast", by, dstT="DT_INT32")


def _rolled(ctx: Context, x: Value, axis: int, shift: int | Value) -> Value:
    """The same for a size, or a shift, that is known only at run time."""
    size = ctx.op("Squeeze", ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 1), squeezeDims=[0])
    places = ctx.op("Range", ctx.const(0, DType.I32), size, ctx.const(1, DType.I32))
    by = shift if isinstance(shift, Value) else ctx.const(shift, DType.I32)
    shifted = ctx.op("BinaryOp", places, by, opType="SUB")
    at = ctx.op("BinaryOp", shifted, size, opType="FLOORMOD")
    return ctx.op("GatherV2", x, at, ctx.const(axis, DType.I32))
