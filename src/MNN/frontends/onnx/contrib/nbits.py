"""ONNX Runtime's products with, and rows of, weights of 2, 4 or 8 bits (domain com.microsoft)."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.contrib.math import MICROSOFT, plus
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.quant import FEWEST_ROW_BITS, WIDTHS, QuantizedArray

_INT8 = 4
"""The accuracy level that lets A be rounded to 8 bits, block by block."""


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(ctx: Context, node: OnnxNode) -> Value:
    """``A @ W.T + bias?`` with W ``[N, K]`` in blocks of a row: numbers of 2, 4 or 8 bits, one scale and zero point.

    The weights stay as they are in the file. With ``accuracy_level`` 4 A may be rounded to 8 bits. Where a row's last
    block is cut off, A is filled up with zeros.
    """
    node.ignore("weight_prepacked")
    row_bits = FEWEST_ROW_BITS if node.int_attr("accuracy_level", 0) == _INT8 else 0
    bits, block = node.int_attr("bits", 4), node.int_attr("block_size")
    k, n = node.int_attr("K"), node.int_attr("N")
    packed, scales, zeros, order = (ctx.constant(node.optional(i)) for i in range(1, 5))
    if packed is None or scales is None or (zeros is None and node.optional(3) is not None):
        raise node.unsupported("weights that are not constant")
    if order is not None or node.optional(4) is not None:
        raise node.unsupported("reordered groups (g_idx)", "export without act-order")
    if bits not in WIDTHS or block < 16 or block & (block - 1) or k < 1 or n < 1:
        raise node.unsupported(f"{bits} bits in blocks of {block} for {n} x {k} weights", "use 2, 4 or 8 bits")
    blocks, half = -(-k // block), 1 << (bits - 1)
    codes = packed.reshape(n, blocks * (block * bits // 8))
    scale = np.ascontiguousarray(scales.astype(np.float32).reshape(n, blocks))
    offset = None  # w = (code - half) * scale + (half - zero) * scale
    if zeros is not None:
        zero = _unpacked(zeros, bits, n, blocks) if zeros.dtype == np.uint8 else zeros.reshape(n, blocks)
        shift = half - zero.astype(np.float32)
        offset = shift * scale if shift.any() else None
    weight = QuantizedArray(codes, scale, offset, bits, (n, blocks * block), bits, row_bits)
    return plus(ctx, _product(ctx, node.input(0), weight, k), node.optional(5))


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(ctx: Context, node: OnnxNode) -> Value:
    """Slices of ``data`` along ``gather_axis``, which stands for floats by scales and zero points in blocks of
    ``quantize_axis``: embeddings of language models. Bytes that hold several numbers have them in their last axis."""
    data, scales, zeros = (ctx.constant(node.optional(i)) for i in (0, 2, 3))
    if data is None or scales is None or (zeros is None and node.optional(3) is not None):
        raise node.unsupported("data that is not constant")
    if data.dtype.kind not in "iu" and data.dtype.name not in ("int4", "uint4"):
        raise node.unsupported(f"data of {data.dtype.name}", "use integers of 4 or 8 bits")
    bits, block = node.int_attr("bits", 4), node.int_attr("block_size", 128)
    indices = node.input(1)
    rank = ctx.rank(indices)
    if rank is None:
        raise node.unsupported("indices of unknown rank")
    if data.dtype == np.uint8:
        if bits not in WIDTHS:
            raise node.unsupported(f"{bits} bits", "use 2, 4 or 8 bits")
        zeros = None if zeros is None else _apart(zeros, bits, scales.shape)
        data = _apart(data, bits, (*data.shape[:-1], data.shape[-1] * (8 // bits)))
        zeros = np.full(scales.shape, 1 << (bits - 1), np.uint8) if zeros is None else zeros
    along = node.int_attr("gather_axis", 0) % data.ndim
    axis = node.int_attr("quantize_axis", 1) % data.ndim
    if axis == along or block < 1 or scales.shape[axis] != -(-data.shape[axis] // block):
        raise node.unsupported(f"scales {list(scales.shape)} for {list(data.shape)} in blocks of {block}")
    whole = np.int8 if data.dtype.name in ("int4", "int8") else np.uint8
    zeros = np.zeros(scales.shape, whole) if zeros is None else zeros
    parts = []
    for held in (data.astype(whole), scales, zeros.astype(whole)):
        table = ctx.const(np.ascontiguousarray(held))
        part = ctx.op("GatherV2", table, indices, ctx.const(along, DType.I32))
        part.dtype = table.dtype
        parts.append(part)
    out = ctx.op("DequantizeLinear", *parts, axis=axis + (rank - 1 if axis > along else 0), block_size=block)
    out.dtype = parts[1].dtype
    return out


def _apart(data: np.ndarray, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes as the numbers of ``bits`` bits that they hold along the last axis, of which ``shape`` has so many."""
    return _unpacked(data, bits, math.prod(shape[:-1]), shape[-1]).reshape(shape)


def _unpacked(data: np.ndarray, bits: int, rows: int, count: int) -> np.ndarray:
    """Each row's bytes as ``count`` numbers of ``bits`` bits, low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (data.reshape(rows, -1, 1) >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(numbers.reshape(rows, -1)[:, :count])


def _product(ctx: Context, x: Value, weight: QuantizedArray, k: int) -> Value:
    rank, more = ctx.rank(x), weight.shape[1] - k
    if more and rank is None:
        held = ctx.const(np.ascontiguousarray(weight.dequantize()[:, :k]))
    else:
        held = ctx.quantized(weight)
    given = x
    if more and rank is not None:
        given = ctx.op("Padding", x, ctx.const(np.array([0] * (2 * rank - 1) + [more], np.int64)))
        given.dtype = x.dtype
    if x.dtype in (DType.F16, DType.BF16):  # the weights stand for f32
        given = ctx.op("Cast", given, dstT="DT_FLOAT")
        given.dtype = DType.F32
        wide = ctx.op("MatMul", given, held, transposeB=True)
        wide.dtype = DType.F32
        out = ctx.op("CastLike", wide, x)
    else:
        out = ctx.op("MatMul", given, held, transposeB=True)
    out.dtype = x.dtype
    return out
