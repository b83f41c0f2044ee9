"""Resizing along an axis as a product with a matrix of weights: of bytes, and antialiased with scales of its own."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MOST = 1 << 24
"""Weights of one axis."""
_BITS = 15
"""Of the integers that weights of bytes are rounded to, without their sign."""


def weights(n: int, m: int, scale: float, cubic: bool, antialias: bool, corners: bool) -> np.ndarray:
    """How much each of ``n`` pixels counts in each of ``m`` ones ``[m, n]``, ``scale`` pixels apart.

    With ``antialias`` the kernel is as wide as the new pixels are, and what lies outside does not count (R. Keys 1981
    for the cubic one, with -1/2; -3/4 without ``antialias``, where pixels outside are those of the border).
    """
    i = np.arange(m)[:, None]
    found = np.zeros((m, n))
    if antialias:
        wide = max(scale, 1.0)
        support = (2.0 if cubic else 1.0) * wide
        center = scale * (i + 0.5)
        first = np.maximum((center - support + 0.5).astype(np.int64), 0)
        behind = np.minimum((center + support + 0.5).astype(np.int64), n)
        at = np.arange(n)[None]
        found = _kernel((at - center + 0.5) / wide, cubic, -0.5) * ((at >= first) & (at < behind))
        return np.asarray(found / found.sum(1, keepdims=True))
    place = scale * i if corners else scale * (i + 0.5) - 0.5
    place = place if cubic else np.maximum(place, 0.0)
    whole = np.minimum(np.floor(place), n - 1)
    rest = np.clip(place - whole, 0.0, 1.0)
    for tap in range(-1, 3) if cubic else range(2):
        np.add.at(found, (i, np.clip(whole + tap, 0, n - 1).astype(np.int64)), _kernel(tap - rest, cubic, -0.75))
    return found


def _kernel(x: np.ndarray, cubic: bool, a: float) -> np.ndarray:
    x = np.abs(x)
    if not cubic:
        return np.asarray(np.maximum(1 - x, 0.0))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def scale_of(n: int, m: int, factor: float | None, corners: bool) -> float:
    """How far new pixels are apart, in old ones."""
    if corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1 / factor if factor else n / m


def resampled(ctx: TorchBuilder, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """``x[N, C, H, W]`` along axis 2 or 3. Bytes are summed as integers, by weights rounded to as many bits as leave 15
    for the largest, and rounded to bytes again; sums are whole numbers, which f64 holds exactly."""
    if x.dtype is not DType.U8:
        kind = ctx.type_of(x)
        wide = x if kind.size >= 4 else ctx.cast(x, DType.F32)
        made = _product(ctx, wide, axis, ctx.const(matrix.astype(np.float64 if kind is DType.F64 else np.float32)))
        return ctx.cast(made, kind)
    largest, bits = np.abs(matrix).max(), 0
    while bits < 22 and math.floor(0.5 + largest * 2.0 ** (bits + 1)) < 1 << _BITS:
        bits += 1
    whole = np.trunc(matrix * 2.0**bits + np.copysign(0.5, matrix))
    made = _product(ctx, ctx.cast(x, DType.F64), axis, ctx.const(whole))
    made = ctx.unary("FLOOR", ctx.binary("ADD", ctx.binary("MUL", made, 2.0**-bits), 0.5))
    return ctx.cast(apply(ctx, "clamp", [made, 0, 255], {}), DType.U8)


def _product(ctx: TorchBuilder, x: Value, axis: int, matrix: Value) -> Value:
    return ctx.op("MatMul", matrix, x) if axis == 2 else ctx.op("MatMul", x, matrix, transposeB=True)
