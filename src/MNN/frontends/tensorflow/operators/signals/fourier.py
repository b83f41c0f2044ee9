"""Fourier transforms, and what makes complex tensors of real ones and the other way round."""

from __future__ import annotations

from MNN.errors import FormatError
from MNN.frontends.common.complex_parts import Parts, magnitude, paired, parted, transformed
from MNN.frontends.common.expressions import cast
from MNN.frontends.tensorflow.complex_tensors import complex_op, made
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_AXES = {"": 1, "2D": 2, "3D": 3, "ND": 0}


def _named(kind: str) -> list[str]:
    return [f"{kind}{axes}" for axes in _AXES]


def _places(ctx: Context, node: TfNode, x: Value, kind: str) -> tuple[int, list[int], list[int | Value | None]]:
    """The rank of an operand, the axes of a transform and their lengths (None: as they are; values: what the graph
    computes)."""
    rank, count = ctx.rank(x), _AXES[node.op.removeprefix(kind)]
    if rank is None:
        raise node.unsupported("an input of unknown rank", "export the model with shapes")
    axes = list(range(rank - count, rank)) if count else ctx.constant_ints(node.input(2))
    if axes is None:
        raise node.unsupported("axes that are not constant", "use constants")
    axes = [a % rank if -rank <= a < rank else -1 for a in axes]
    if not axes or min(axes) < 0 or len(set(axes)) < len(axes):
        raise FormatError(f"{node.where}: a transform over {count or list(axes)} axes of {rank}")
    if len(node.inputs) < 2:
        return rank, axes, [None] * len(axes)
    lengths = ctx.constant_ints(node.input(1))
    if lengths is None:
        given = cast(ctx, node.input(1), DType.I64)
        return rank, axes, [ctx.op("GatherV2", given, ctx.const(i), ctx.const(0)) for i in range(len(axes))]
    if len(lengths) != len(axes) or min(lengths) < 1:
        raise FormatError(f"{node.where}: lengths {lengths} for {len(axes)} axes")
    return rank, axes, list(lengths)


@tf_op("Complex")
def complex_of(ctx: Context, node: TfNode) -> Value:
    shape = ctx.static_shape(node.input(0))
    parts = Parts(node.input(0), node.input(1))
    if shape is not None and shape == ctx.static_shape(node.input(1)):
        return made(ctx, parts)
    zero = ctx.op("BinaryOp", node.input(0), node.input(1), opType="ADD")  # which brings both to one shape
    wide = ctx.op("Shape", zero)
    return made(ctx, Parts(*(ctx.op("BroadcastTo", v, wide) for v in parts)))


@tf_op(*_named("RFFT"))
def real_transform(ctx: Context, node: TfNode) -> Value:
    x = node.input(0)
    rank, axes, lengths = _places(ctx, node, x, "RFFT")
    pairs = ctx.op("Unsqueeze", x, squeezeDims=[rank])
    return made(ctx, parted(ctx, transformed(ctx, pairs, axes, lengths, half=True)))


@complex_op(*_named("IRFFT"))
def real_inverse(ctx: Context, node: TfNode, z: Parts) -> Value:
    rank, axes, lengths = _places(ctx, node, z.real, "IRFFT")
    out = transformed(ctx, paired(ctx, z, rank), axes, lengths, inverse=True, half=True)
    return ctx.op("Squeeze", out, squeezeDims=[rank])


@complex_op(*_named("FFT"), *_named("IFFT"))
def transform(ctx: Context, node: TfNode, z: Parts) -> Value:
    inverse = node.op.startswith("I")
    rank, axes, lengths = _places(ctx, node, z.real, "IFFT" if inverse else "FFT")
    return made(ctx, parted(ctx, transformed(ctx, paired(ctx, z, rank), axes, lengths, inverse)))


@complex_op("Real")
def real(ctx: Context, node: TfNode, z: Parts) -> Value:
    return z.real


@complex_op("Imag")
def imag(ctx: Context, node: TfNode, z: Parts) -> Value:
    return z.imag


@complex_op("ComplexAbs")
def absolute(ctx: Context, node: TfNode, z: Parts) -> Value:
    return magnitude(ctx, z)


@complex_op("Angle")
def angle(ctx: Context, node: TfNode, z: Parts) -> Value:
    return ctx.op("BinaryOp", z.imag, z.real, opType="ATAN2")
