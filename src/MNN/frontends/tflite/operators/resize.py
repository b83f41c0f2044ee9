"""Resizing of images, and MediaPipe's sampling of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from MNN.frontends.common.nearest import taken, unlike_ours
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.fixed_point import plus, right
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import Method

_FEW = 64
"""Channels that loops go over together with columns."""
_FRACTION = 10
"""Most bits of shares in f32 with which pixels are blended as integers."""


@tflite_op("RESIZE_BILINEAR")
def resize_bilinear(ctx: Context, node: TfliteNode) -> Value:
    """Of integers as LiteRT's reference kernels have it, to the bit: ``uint8`` in floats, the others in integers, where
    pixels lie at whole 1024ths of the distance of two (``ResizeBilinear`` and ``ResizeBilinearInteger`` in
    ``reference/resize_bilinear.h``)."""
    half, aligned = node.flag("half_pixel_centers"), node.flag("align_corners")
    found = _of_integers(ctx, node, half, aligned)
    if found is not None:
        return found
    transform = "HalfPixels" if half else "AlignCorners" if aligned else "Asymmetric"

    def resized(x: Value) -> Value:
        return ctx.op(
            "Interp", x, ctx.cast(node.input(1), DType.I32), resizeType=2, ctm=transform, alignCorners=aligned,
            halfPixelCenters=half,
        )  # fmt: skip

    return ctx.channels_last(ctx.mean_of_steps(node, node.input(0), ctx.channels_first(node, 0), resized))


def _of_integers(ctx: Context, node: TfliteNode, half: bool, aligned: bool) -> Value | None:
    """Integers of one scale as they are stored; None for others, and for sizes that only running tells."""
    x, given, result = node.input(0), node.quantization(0), node.result_quantization()
    made, sizes = ctx.constant_ints(node.input(1)) or [], [d for d in (x.shape or ())[1:3] if isinstance(d, int)]
    if given is None or result is None or not given.same(result) or x.dtype not in (DType.U8, DType.I8, DType.I16):
        return None
    if len(made) != 2 or len(sizes) != 2 or min(*made, *sizes) < 1:
        return None
    both = list(zip((1, 2), sizes, made, strict=True))
    exact: list[_Places]
    if x.dtype is DType.U8:
        places = [_float_places(*axis, half, aligned) for axis in both]
        whole = [p.in_fractions() for p in places]
        exact = [p for p in whole if p is not None]
        if len(exact) < 2:
            return _blended_floats(ctx, x, places)
    else:
        exact = [_integer_places(*axis, half, aligned).reduced() for axis in both]
    return _blended(ctx, x, *exact)


def _blended(ctx: Context, x: Value, rows: _Places, columns: _Places) -> Value:
    """Pixels blended in integers of the fewest bits that hold them, and rounded: bytes without sign half up, which they
    are in floats, others half away from zero."""
    bits = rows.bits + columns.bits
    most = 8 * (x.dtype or DType.I8).size + (x.dtype is DType.U8) - 1 + bits
    kind = DType.I16 if most < 15 else DType.I32
    lines = _sum(ctx, [ctx.binary("MUL", ctx.cast(line, kind), part) for line, part in rows.parts(ctx, x, kind)])
    split = x.dtype is DType.I16 and most > 30
    if not split:
        total = _sum(ctx, [ctx.binary("MUL", line, part) for line, part in columns.parts(ctx, lines, kind)])
        if not bits:
            return ctx.cast(total, x.dtype or DType.I8)
        if x.dtype is not DType.U8:
            sign = ctx.binary("RIGHTSHIFT", total, ctx.const(np.asarray(15 if kind is DType.I16 else 31), kind))
            total = ctx.binary("ADD", total, sign)
        total = ctx.binary("ADD", total, ctx.const(np.asarray(1 << (bits - 1)), kind))
        return ctx.cast(ctx.binary("RIGHTSHIFT", total, ctx.const(np.asarray(bits), kind)), x.dtype or DType.I8)
    # up to 37 bits: the upper ones and the lower ten, multiplied apart
    upper, lower = [], []
    for line, part in columns.parts(ctx, lines, kind):
        upper.append(ctx.binary("MUL", right(ctx, line, 10), part))
        lower.append(ctx.binary("MUL", ctx.binary("BITWISE_AND", line, ctx.const(np.int32(1023))), part))
    high, low = _sum(ctx, upper), _sum(ctx, lower)
    carried = ctx.binary("ADD", high, right(ctx, low, 10))
    low = plus(ctx, ctx.binary("ADD", low, right(ctx, carried, 31)), 1 << (bits - 1))
    return ctx.cast(right(ctx, ctx.binary("ADD", high, right(ctx, low, 10)), bits - 10), DType.I16)


@dataclass(frozen=True)
class _Places:
    """The two lines along an axis that each new one is a mean of, and the share of the second."""

    axis: int
    low: np.ndarray
    high: np.ndarray
    share: np.ndarray
    bits: int = 0
    """Shares are in steps of ``2^-bits``."""

    def parts(self, ctx: Context, x: Value, kind: DType) -> list[tuple[Value, Value]]:
        """The lines of NHWC, and their shares."""
        column = [-1, *[1] * (3 - self.axis)]
        shares = [v.astype(kind.numpy).reshape(column) for v in ((1 << self.bits) - self.share, self.share)]
        channels = None if x.shape is None else x.shape[-1]
        if self.axis == 2 and isinstance(channels, int) and channels < _FEW and channels % 16:
            shares = [np.repeat(share, channels, axis=1) for share in shares]  # loops over few elements are slow
        lines = [ctx.op("GatherV2", x, ctx.const(at), ctx.const(self.axis)) for at in (self.low, self.high)]
        return [(line, ctx.const(share)) for line, share in zip(lines, shares, strict=True)]

    def reduced(self) -> _Places:
        """With the largest steps that all shares are whole numbers of."""
        odd = int(np.bitwise_or.reduce(self.share, initial=1 << self.bits))
        common = (odd & -odd).bit_length() - 1
        return replace(self, share=self.share >> common, bits=self.bits - common)

    def in_fractions(self) -> _Places | None:
        """Shares in f32 as whole numbers, None where they are not such of few bits: with these, products of floats are
        exact too."""
        share = np.where(self.low == self.high, np.float32(0), self.share) * np.float32(1 << _FRACTION)
        whole = np.round(share).astype(np.int32)
        return replace(self, share=whole, bits=_FRACTION).reduced() if (whole == share).all() else None


def _span(size: int, count: int, aligned: bool) -> tuple[int, int]:
    return (size - 1, count - 1) if aligned and count > 1 else (size, count)


def _integer_places(axis: int, size: int, count: int, half: bool, aligned: bool) -> _Places:
    """In 1024ths: at the last line where a step that was rounded up leads beyond."""
    first, last = _span(size, count, aligned)
    step = (1024 * first + last // 2) // last
    at = np.minimum(np.arange(count, dtype=np.int64) * step + (step // 2 - 512 if half else 0), 1024 * (size - 1))
    low, high = np.maximum(at, 0) // 1024, np.minimum(-(-at // 1024), size - 1)
    return _Places(axis, low, high, (at - 1024 * low).astype(np.int32), 10)


def _float_places(axis: int, size: int, count: int, half: bool, aligned: bool) -> _Places:
    first, last = _span(size, count, aligned)
    scale, at = np.float32(first) / np.float32(last), np.arange(count, dtype=np.float32)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    low = np.clip(np.floor(at), 0, size - 1).astype(np.int64)
    high = np.clip(np.ceil(at), 0, size - 1).astype(np.int64)
    return _Places(axis, low, high, at - low.astype(np.float32))


def _blended_floats(ctx: Context, x: Value, places: Sequence[_Places]) -> Value:
    """Four products of a pixel and two shares, added up one after another, and rounded half up."""
    rows = [ctx.binary("MUL", ctx.cast(row, DType.F32), part) for row, part in places[0].parts(ctx, x, DType.F32)]
    pixels = [places[1].parts(ctx, row, DType.F32) for row in rows]
    terms = [ctx.binary("MUL", *pixels[i][k]) for k in (0, 1) for i in (0, 1)]
    half = ctx.binary("ADD", _sum(ctx, terms), ctx.const(np.float32(0.5)))
    return ctx.cast(half, DType.U8)


def _sum(ctx: Context, terms: Sequence[Value]) -> Value:
    total = terms[0]
    for term in terms[1:]:
        total = ctx.binary("ADD", total, term)
    return total


@tflite_op("RESIZE_NEAREST_NEIGHBOR", stored=True)
def resize_nearest(ctx: Context, node: TfliteNode) -> Value:
    """Rounds half away from zero with aligned corners, else down; pixels' centres count where half_pixel_centers."""
    half, aligned = node.flag("half_pixel_centers"), node.flag("align_corners")
    transform = "tf_half_pixel_for_nn" if half else "align_corners" if aligned else "asymmetric"
    method = Method("nearest", transform, "round_prefer_ceil" if aligned else "floor")
    lines = unlike_ours(node.input(0), ctx.constant_ints(node.input(1)), method, aligned, half)
    if lines is not None:
        return taken(ctx, node.input(0), lines)
    x = ctx.permuted(node.input(0), [0, 3, 1, 2])
    sizes = ctx.cast(node.input(1), DType.I64)
    made = ctx.op(
        "OnnxResize", x, None, None, sizes, mode=method.mode, coordinate_transformation_mode=method.transform,
        nearest_mode=method.rounding, axes=[2, 3],
    )  # fmt: skip
    return ctx.channels_last(made)
