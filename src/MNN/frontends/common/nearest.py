"""Which pixels TensorFlow and TensorFlow Lite take when they resize to the nearest: places are products in f32, whose
rounding decides where the border between two pixels is met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import Axis, Method, taps

_MAX_SIDE = 1 << 14


def places(size: int, out: int, align: bool, half: bool) -> np.ndarray:
    """``[out]``: the pixel of a line of ``size`` that each new one is."""
    old, new = (size - 1, out - 1) if align and out > 1 else (size, out)
    x = np.arange(out, dtype=np.float32) + np.float32(0.5 if half else 0)
    at = x * (np.float32(old) / np.float32(new))
    at = np.floor(at.astype(np.float64) + 0.5) if align else np.floor(at)
    found: np.ndarray = np.clip(at, 0, size - 1).astype(np.int32)
    return found


def unlike_ours(
    x: Value, sizes: Sequence[int] | None, method: Method, align: bool, half: bool
) -> list[np.ndarray] | None:
    """The pixels along height and width of ``x[N, H, W, C]``, where the engine's own ``method`` takes others;
    None where it takes these, and where sizes are not known."""
    given = [d for d in (x.shape or ())[1:3] if isinstance(d, int)]
    if sizes is None or len(sizes) != 2 or len(given) != 2:
        return None
    if min(*sizes, *given) < 1 or max(*sizes, *given) > _MAX_SIDE:
        return None
    found = [places(n, m, align, half) for n, m in zip(given, sizes, strict=True)]
    own = [taps(Axis(n, m), method).index[:, 0] for n, m in zip(given, sizes, strict=True)]
    return None if all(np.array_equal(a, b) for a, b in zip(found, own, strict=True)) else found


def taken(ctx: GraphBuilder, x: Value, lines: Sequence[np.ndarray]) -> Value:
    """The pixels of ``x[N, H, W, C]`` in these rows and columns."""
    for axis, line in enumerate(lines, 1):
        out = ctx.op("GatherV2", x, ctx.const(line), ctx.const(axis, DType.I32))
        out.dtype = x.dtype
        x = out
    return x
