"""Depthwise windows of bf16 two rows at a time: an instruction multiplies and adds pairs of neighbours in a column.

``vdpbf16ps`` adds two products to every f32 sum. A vector of 32-bit lanes, each with two neighbouring channels, and the
one below it give the pairs of the even channels and those of the odd ones by a shift and a blend each, no more work
than widening both; the multiply-adds are half as many. Weights are rounded to bf16 and lie in pairs as well.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import F32, I16, I32, Kernel, Value
from MNN.backends.cpu.products.dot import DOT2, dot, group_of, step_ratio
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LOW = 0xFFFF
_HIGH = -0x10000


def row_pairs(target: Target) -> bool:
    """Whether products of pairs are as fast as multiply-adds of single numbers, in vectors of 16 lanes."""
    return target.lanes(DType.F32) == 16 and group_of(target, DType.BF16) == DOT2 and step_ratio(target, DOT2) == 1.0


def pack_rows(weights: npt.NDArray[np.generic], lanes: int) -> npt.NDArray[np.int32]:
    """Weights ``[kh, kw, c]`` as words ``[ceil(kh / 2), kw, c // (2 * lanes), 2, lanes]`` of two bf16, the upper row's
    in the lower half; even channels come before odd ones. Channels past the last whole group are left out."""
    kh, kw, c = weights.shape
    padded = np.zeros((kh + kh % 2, kw, c), np.float32)
    padded[:kh] = weights
    bits = padded.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)
    words = bits[0::2] | bits[1::2] << 16
    groups = c // (2 * lanes)
    whole = words[:, :, : groups * 2 * lanes].reshape(len(words), kw, groups, lanes, 2)
    return np.ascontiguousarray(whole.swapaxes(3, 4)).view(np.int32)


def combine_rows(
    k: Kernel, columns: dict[int, Value], taps: dict[int, list[tuple[int, int]]], kw: int, channel: Value, size: int
) -> list[Value]:
    """Sums of products for ``size`` pixels from ``channel`` on: those of even channels and those of odd ones, in turn.

    ``columns`` are the addresses of the input's columns; ``taps`` gives for each the pixels that it belongs to and the
    column of their windows that it is.
    """
    b, lanes, wide = k.b, 16, I32.vec(16)
    stride = b.and_(k.slot("c"), -2 * lanes)

    def add(sums: list[Value], at_x: Value, at_w: Value, both: bool) -> list[Value]:
        weights = [
            [
                b.load(wide, b.gep(k.pointer("pairs"), I32, at_w + stride * kx + half * lanes), align=4)
                for half in (0, 1)
            ]
            for kx in range(kw)
        ]
        for column, pointer in columns.items():
            upper = b.load(wide, b.gep(pointer, I16, at_x), align=2)
            even, odd = b.and_(upper, _LOW), b.lshr(upper, 16)
            if both:
                lower = b.load(wide, b.gep(pointer, I16, at_x + k.slot("row_x")), align=2)
                even, odd = b.or_(even, b.shl(lower, 16)), b.or_(odd, b.and_(lower, _HIGH))
            for pixel, kx in taps[column]:
                for half, pairs in enumerate((even, odd)):
                    sums[2 * pixel + half] = dot(b, sums[2 * pixel + half], pairs, weights[kx][half])
        return sums

    zeros = [b.const(F32.vec(lanes), 0)] * (2 * size)
    whole = b.and_(k.slot("kh"), -2)
    with b.loop(0, whole, 2, carry=[*zeros, channel, channel]) as rows:
        *sums, at_x, at_w = rows.carried
        rows.next(*add(sums, at_x, at_w, True), at_x + k.slot("row_x") * 2, at_w + stride * kw)
    with b.loop(whole, k.slot("kh"), carry=rows.results) as last:
        *sums, at_x, at_w = last.carried
        last.next(*add(sums, at_x, at_w, False), at_x, at_w)
    return last.results[: 2 * size]
