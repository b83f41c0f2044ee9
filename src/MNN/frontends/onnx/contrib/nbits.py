"""ONNX Runtime's product with weights of 2, 4 or 8 bits (domain com.microsoft)."""

from __future__ import annotations

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
