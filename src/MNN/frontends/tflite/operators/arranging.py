"""Operators that move elements: on the integers, where these are quantised."""

from __future__ import annotations

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.file import Quantization
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def same(p: Quantization | None, q: Quantization | None) -> bool:
    """Whether equal integers stand for equal numbers."""
    if p is None or q is None:
        return p is q
    return bool(np.array_equal(p.scale, q.scale) and np.array_equal(p.zero, q.zero))


@tflite_op("RESHAPE", "STABLEHLO_RESHAPE", stored=True)
def reshape(ctx: Context, node: TfliteNode) -> Value:
    """The shape is an operand, or an option, or what the result's tensor has."""
    given = node.optional(1)
    if given is None:
        sizes = node.ints("new_shape")
        sizes = [] if sizes == [0] else sizes  # how old converters wrote a scalar
        if not sizes:
            sizes = list(node.tensors_out[0].sizes)
        given = ctx.const(sizes) if sizes else ctx.const([], DType.I64)
    wanted = ctx.constant_ints(given)
    if wanted is not None and 0 in wanted:
        return ctx.op("ReshapeExact", node.input(0), given)
    return ctx.op("Reshape", node.input(0), given)


@tflite_op("TRANSPOSE", stored=True)
def transpose(ctx: Context, node: TfliteNode) -> Value:
    order = ctx.constant_ints(node.input(1))
    if order is None:
        return ctx.op("Transpose", node.input(0), ctx.cast(node.input(1), DType.I32))
    rank = len(order)
    if sorted(a % max(rank, 1) for a in order) != list(range(rank)):
        raise node.malformed(f"{order} is no order of axes")
    return ctx.op("Permute", node.input(0), dims=[a % rank for a in order])


@tflite_op("STABLEHLO_TRANSPOSE", stored=True)
def stablehlo_transpose(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Permute", node.input(0), dims=node.ints("permutation"))


@tflite_op("SQUEEZE", stored=True)
def squeeze(ctx: Context, node: TfliteNode) -> Value:
    axes = node.ints("squeeze_dims")
    if axes:
        return ctx.op("Squeeze", node.input(0), squeezeDims=axes)
    sizes = ctx.static_shape(node.input(0))
    if sizes is None:
        raise node.unsupported("dropping all axes of size 1 of an input of unknown sizes", "name the axes")
    return ctx.op("Reshape", node.input(0), ctx.const([d for d in sizes if d != 1], DType.I64))


@tflite_op("EXPAND_DIMS", stored=True)
def expand_dims(ctx: Context, node: TfliteNode) -> Value:
    (axis,) = ctx.known_ints(node, 1, "axes")
    return ctx.op("Unsqueeze", node.input(0), squeezeDims=[axis])


@tflite_op("CONCATENATION")
def concatenation(ctx: Context, node: TfliteNode) -> Value:
    """Integers of one scale are joined as they are; the scale of the result may be another one."""
    axis, q = node.number("axis"), node.result_quantization()
    inputs = range(len(node.inputs))
    if q is not None and all(same(node.quantization(i), q) for i in inputs):
        whole = ctx.op("Concat", *(node.input(i) for i in inputs), axis=axis)
        return ctx.activated(node, ctx.dequantized(whole, q))
    return ctx.activated(node, ctx.op("Concat", *(ctx.real(node, i) for i in inputs), axis=axis))


@tflite_op("STABLEHLO_CONCATENATE", stored=True)
def stablehlo_concatenate(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Concat", *(node.input(i) for i in range(len(node.inputs))), axis=node.number("dimension"))


@tflite_op("PACK", stored=True)
def pack(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Pack", *(node.input(i) for i in range(len(node.inputs))), axis=node.number("axis"))


@tflite_op("UNPACK", stored=True)
def unpack(ctx: Context, node: TfliteNode) -> list[Value]:
    return ctx.emit("Unpack", [node.input(0)], len(node.outputs), axis=node.number("axis"))


@tflite_op("SPLIT", stored=True)
def split(ctx: Context, node: TfliteNode) -> list[Value]:
    """Operands: the axis, what to cut."""
    (axis,) = ctx.known_ints(node, 0, "axes")
    return _pieces(ctx, node, node.input(1), axis, None)


@tflite_op("SPLIT_V", stored=True)
def split_v(ctx: Context, node: TfliteNode) -> list[Value]:
    """Operands: what to cut, the sizes of the pieces, the axis."""
    (axis,) = ctx.known_ints(node, 2, "axes")
    return _pieces(ctx, node, node.input(0), axis, node.input(1))


def _pieces(ctx: Context, node: TfliteNode, x: Value, axis: int, sizes: Value | None) -> list[Value]:
    return ctx.emit(
        "Slice", [x] if sizes is None else [x, sizes], len(node.outputs), axis=axis, sourceType="TENSORFLOW"
    )


@tflite_op("SLICE", stored=True)
def slice_(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("SliceTf", node.input(0), node.input(1), node.input(2))


@tflite_op("STRIDED_SLICE", stored=True)
def strided_slice(ctx: Context, node: TfliteNode) -> Value:
    """TensorFlow's masks; with ``offset``, ends are counted from the begins."""
    x, begin, end, step = (node.input(i) for i in range(4))
    if node.flag("offset"):
        end = ctx.binary("ADD", begin, end)
    masks = {f"{part}Mask": node.number(f"{name}_mask") for part, name in (
        ("begin", "begin"), ("end", "end"), ("ellipsis", "ellipsis"), ("newAxis", "new_axis"),
        ("shrinkAxis", "shrink_axis"),
    )}  # fmt: skip
    return ctx.op("StridedSlice", x, begin, end, step, **masks)


@tflite_op("STABLEHLO_SLICE", stored=True)
def stablehlo_slice(ctx: Context, node: TfliteNode) -> Value:
    bounds = [ctx.const(node.ints(key), DType.I64) for key in ("start_indices", "limit_indices", "strides")]
    return ctx.op("StridedSlice", node.input(0), *bounds)


@tflite_op("PAD", "PADV2", stored=True)
def pad(ctx: Context, node: TfliteNode) -> Value:
    """A border of zeros, or of the third operand's number; of what stands for zero in quantised tensors."""
    x, pads, q = node.input(0), ctx.op("Reshape", node.input(1), ctx.const([-1])), node.quantization(0)
    known = ctx.constant_ints(node.input(1))
    pads = pads if known is None else ctx.const(known)
    value = node.optional(2)
    if value is None and q is not None and q.zero.any():
        value = ctx.const(int(q.zero.reshape(-1)[0]), x.dtype)
    return ctx.op("Padding", x, pads, *(() if value is None else (value,)), mode="CONSTANT")


@tflite_op("MIRROR_PAD", stored=True)
def mirror_pad(ctx: Context, node: TfliteNode) -> Value:
    known = ctx.constant_ints(node.input(1))
    pads = ctx.op("Reshape", node.input(1), ctx.const([-1])) if known is None else ctx.const(known)
    return ctx.op("Padding", node.input(0), pads, mode=str(node.option("mode", "REFLECT")))


@tflite_op("TILE", stored=True)
def tile(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Tile", node.input(0), node.input(1))


@tflite_op("BROADCAST_TO", stored=True)
def broadcast_to(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("BroadcastTo", node.input(0), node.input(1))


@tflite_op("REVERSE_V2", stored=True)
def reverse(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op("Reverse", node.input(0), node.input(1))


@tflite_op("REVERSE_SEQUENCE", stored=True)
def reverse_sequence(ctx: Context, node: TfliteNode) -> Value:
    return ctx.op(
        "ReverseSequence", node.input(0), node.input(1), batchDim=node.number("batch_dim"),
        seqDim=node.number("seq_dim"),
    )  # fmt: skip


@tflite_op("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", stored=True)
def blocks(ctx: Context, node: TfliteNode) -> Value:
    op = "DepthToSpace" if node.op == "DEPTH_TO_SPACE" else "SpaceToDepth"
    x = ctx.permuted(node.input(0), [0, 3, 1, 2])
    return ctx.channels_last(ctx.op(op, x, blockSize=node.number("block_size"), mode="DCR"))


@tflite_op("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", stored=True)
def batches(ctx: Context, node: TfliteNode) -> Value:
    """Blocks of one or two spatial axes; what is filled in stands for zero."""
    x, q = node.input(0), node.quantization(0)
    block, border = ctx.known_ints(node, 1, "blocks"), ctx.known_ints(node, 2, "borders")
    rank = node.rank(0)
    if rank not in (3, 4) or len(block) != rank - 2 or len(border) != 2 * len(block):
        raise node.malformed(f"blocks {block} with borders {border} for {rank} dimensions")
    x = x if rank == 4 else ctx.op("Unsqueeze", x, squeezeDims=[1])  # as convolutions have lines
    block, border = (block, border) if rank == 4 else ([1, *block], [0, 0, *border])
    op = "SpaceToBatchND" if node.op.startswith("SPACE") else "BatchToSpaceND"
    if op == "SpaceToBatchND" and q is not None and q.zero.any():
        fill = ctx.const(int(q.zero.reshape(-1)[0]), x.dtype)
        x, border = ctx.op("Padding", x, ctx.const([0, 0, *border, 0, 0]), fill, mode="CONSTANT"), [0, 0, 0, 0]
    made = ctx.op(op, ctx.permuted(x, [0, 3, 1, 2]), ctx.const(block), ctx.const(border))
    made = ctx.channels_last(made)
    return made if rank == 4 else ctx.op("Squeeze", made, squeezeDims=[1])
