"""Taps that a tile of rows needs not take, as all that they read is the border of zeros around the input.

Rows of a convolution follow the output, line by line, so that the rows of a tile mostly lie in one line or two, whose
windows stand out over the input by the same lines. Taps are in the kernel's order: what a tile takes is a span of
them, from the first that any of its rows needs to the last. (Windows that are dilated far beside a small input lie
in the border for the most part: 7x5 taps, six apart, over 12 lines with 18 more on each side take two lines of seven.)
"""

from __future__ import annotations

import functools

import numpy as np

from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize

_WORTH = 0.95
"""What part of the taps is left at most where spans are looked up."""


def taken(window: Window | None, product: Product, mr: int, weights: Weights) -> float:
    """The part of a product's taps that tiles of ``mr`` rows take."""
    spans = spans_of(window, product, mr, weights)
    if spans is None:
        return 1.0
    return float((spans[:, 1] - spans[:, 0]).mean()) / product.taps.size


def spans_of(window: Window | None, product: Product, mr: int, weights: Weights) -> np.ndarray | None:
    """The first tap of each tile of ``mr`` rows, and past its last one, i32 ``[ceil(m / mr), 2]``; None where almost
    all are taken, where sizes are open, and for weights that are no constants of f32 or not finite: zeros times these
    count."""
    data = weights.tensor.const
    if window is None or not any(map(any, window.border)) or data is None or weights.group > 1 or weights.parts > 1:
        return None
    sizes = window.images, *window.outputs, *window.inputs, *sum(window.border, ())
    if any(isinstance(n, OpenSize) for n in sizes) or not product.a.dtype is weights.dtype is DType.F32:
        return None
    axes = len(window.kernel)
    if product.taps.size != elements(window.kernel):  # a line of the window is one tap
        axes -= 1
    if axes < 1 or product.taps.size != elements(window.kernel[:axes]):
        return None
    found = _spans(window, axes, mr)
    return None if found is None or not np.isfinite(data).all() else found


@functools.lru_cache(maxsize=256)
def _spans(window: Window, axes: int, mr: int) -> np.ndarray | None:
    """The spans of taps over the first ``axes``."""
    ranges = [_inside(window, axis) for axis in range(axes)]
    kept = [float((past - first).mean()) / n for (first, past), n in zip(ranges, window.kernel, strict=False)]
    if min(kept) > _WORTH:
        return None
    taps = elements(window.kernel[:axes])
    shape = window.outputs
    begins, ends, some = np.zeros(shape, np.int64), np.ones(shape, np.int64), np.ones(shape, bool)
    for axis, (first, past) in enumerate(ranges):
        along = [-1 if a == axis else 1 for a in range(len(shape))]
        step = elements(window.kernel[axis + 1 : axes])
        begins += step * first.reshape(along)
        ends += step * (past - 1).reshape(along)
        some &= (past > first).reshape(along)
    rows = [np.tile(np.where(some, n, none).reshape(-1), window.images) for n, none in ((begins, taps), (ends, 0))]
    tiles = [np.pad(n, (0, -len(n) % mr), mode="edge").reshape(-1, mr) for n in rows]
    spans = np.stack([tiles[0].min(1), tiles[1].max(1)], 1)
    spans[spans[:, 0] >= spans[:, 1]] = 0
    spans = spans.astype(np.int32)
    spans.flags.writeable = False
    return spans if (spans[:, 1] - spans[:, 0]).mean() <= _WORTH * taps else None


def _inside(window: Window, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """For each output along an axis the first tap that reads of the input, not of its border, and past the last one."""
    low, high = window.border[axis]
    most, apart = window.kernel[axis], window.dilations[axis]
    starts = np.arange(window.outputs[axis]) * window.strides[axis]
    first = np.clip(-((starts - low) // apart), 0, most)
    past = np.clip((window.inputs[axis] - high - 1 - starts) // apart + 1, 0, most)
    return first, np.maximum(first, past)


__all__ = ["spans_of", "taken"]
