"""Resizing pictures by weights that follow from the sizes alone: a product of matrices along each axis.

The weights are formulas over the sizes. Where these are known, so are the weights when the model is read; else they are
computed when the model is given a size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from MNN.frontends.common.expressions import cast, insert_axis
from MNN.frontends.common.nhwc import channels_first, channels_last, permuted
from MNN.frontends.common.terms import Term, line, scalar, size_of
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MAX_SIDE = 8192
"""Of pictures whose size is known: weights have as many numbers as one side has pixels before times after."""


def _cubic(x: Term, near: tuple[float, ...], far: tuple[float, ...]) -> Term:
    """Polynomials, the highest power first: one up to a distance of 1, one up to 2."""
    return (x >= 2).where(0, (x >= 1).where(_polynomial(x, far), _polynomial(x, near)))


def _polynomial(x: Term, factors: tuple[float, ...]) -> Term:
    out = x * factors[0] + factors[1]
    for factor in factors[2:]:
        out = out * x + factor
    return out


def _lanczos(radius: int) -> Callable[[Term], Term]:
    def kernel(x: Term) -> Term:
        angle = x * math.pi
        wave = (angle.sin() * (angle / radius).sin() * radius) / (angle * angle).at_least(1e-12)
        return (x > radius).where(0, (x <= 1e-3).where(1, wave))

    return kernel


KERNELS: dict[str, tuple[float, Callable[[Term], Term]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: (x >= 1.5).where(0, (x * x * -2.0).exp())),
    "box": (1, lambda x: (x < 0.5).where(1, x.equals(0.5).where(x, 0))),
    "triangle": (1, lambda x: (1 - x).at_least(0)),
    "keyscubic": (2, lambda x: _cubic(x, (1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, lambda x: _cubic(x, (7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}
"""Reach in pixels, and weight by distance: Duchon 1979 (Lanczos), Keys 1981, Mitchell and Netravali 1988."""


class Axis:
    """One axis of a picture, before and after: ``size`` and ``out``, the pixels before (``[1, size]``) and after
    (``[out, 1]``), all f32."""

    def __init__(self, ctx: Context, x: Value, sizes: Value, which: int) -> None:
        self.ctx = ctx
        before = size_of(ctx, x, 1 + which)
        after = scalar(ctx, ctx.op("GatherV2", cast(ctx, sizes, DType.I32), ctx.const(which, DType.I32)))
        self.size, self.out = self._float(before), self._float(after)
        self.pixels = self._float(insert_axis(ctx, line(ctx, before), 0))
        self.places = self._float(insert_axis(ctx, line(ctx, after), 1))

    def _float(self, x: Value) -> Term:
        return Term(self.ctx, cast(self.ctx, x, DType.F32))

    def scale(self, align: bool) -> Term:
        """How far new pixels are apart."""
        plain = self.size / self.out
        if not align:
            return plain
        return (self.out > 1).where((self.size - 1) / (self.out - 1).at_least(1), plain)


def sampled(axis: Axis, scale: Term, shift: Term, kind: str, antialias: bool) -> Term:
    """``[out, size]``: how much each pixel of a line counts in each new one, which lies at ``(i + 1/2 - shift) /
    scale``; with ``antialias`` the kernel is as wide as a new pixel where these are larger. Nothing counts in new
    pixels outside of the line."""
    radius, kernel = KERNELS[kind]
    inverse = 1 / scale
    stretch = inverse.at_least(1) if antialias else inverse * 0 + 1
    place = (axis.places + 0.5) * inverse - inverse * shift
    reach = stretch * radius
    inside = (axis.pixels >= (place - reach - 0.5).ceil()) & (axis.pixels <= (place + reach - 0.5).floor())
    weights = inside.where(kernel(abs((axis.pixels + 0.5 - place) * (1 / stretch))), 0)
    total = weights.sum(1)
    counts = (abs(total) >= 1e-35) & (place >= 0) & (place <= axis.size)
    return counts.where(weights / total.equals(0).where(1, total), 0)


def averaged(axis: Axis, align: bool) -> Term:
    """``[out, size]``: new pixels are means over what they cover; what lies outside repeats the last pixel."""
    scale = axis.scale(align)
    begin = axis.places * scale
    end = axis.pixels.equals(axis.size - 1).where(begin + scale, (axis.pixels + 1).at_most(begin + scale))
    return (end - axis.pixels.at_least(begin)).at_least(0) / scale


def cubic(axis: Axis, align: bool, half: bool) -> Term:
    """``[out, size]``: how much each pixel of a line counts in each new one.

    As TensorFlow has it: places are rounded to 1024 steps a pixel; with half pixel centres weights are Keys's (a =
    -0.5), and pixels outside do not count; else a = -0.75, and the border's pixels are repeated. Keys 1981, Cubic
    Convolution Interpolation for Digital Image Processing.
    """
    a = -0.5 if half else -0.75
    place = (axis.places + 0.5) * axis.scale(align) - 0.5 if half else axis.places * axis.scale(align)
    first = place.floor()
    step = ((place - first) * 1024).rounded() / 1024

    def weight(pixel: Term) -> Term:
        return _cubic(abs(pixel - first - step), (a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a))

    weights = weight(axis.pixels)
    if half:
        return weights / weights.sum(1)
    before, behind = weight(axis.size * 0 - 1), weight(axis.size) + weight(axis.size + 1)
    weights = weights + axis.pixels.equals(0).where(before, 0)
    return weights + axis.pixels.equals(axis.size - 1).where(behind, 0)


def _axes(ctx: Context, node: TfNode) -> tuple[Value, list[Axis]]:
    """The picture in floats, and its two axes."""
    x, sizes = node.input(0), ctx.constant_ints(node.input(1))
    if ctx.rank(x) != 4:
        raise node.unsupported("a picture of unknown rank", "export the model with shapes")
    known = [d for d in (*(x.shape or ())[1:3], *(sizes or ())) if isinstance(d, int)]
    if max(known, default=1) > MAX_SIDE:
        raise node.unsupported(f"a picture of more than {MAX_SIDE} pixels a side", "resize it before the model")
    if min(known, default=1) < 1:
        raise node.unsupported("a picture without pixels")
    if x.dtype is not None and not x.dtype.is_float:
        x = cast(ctx, x, DType.F32)
    return x, [Axis(ctx, x, node.input(1), i) for i in (0, 1)]


def _weighted(ctx: Context, x: Value, rows: Term, columns: Term) -> Value:
    y = ctx.op("MatMul", channels_first(ctx, x), permuted(ctx, columns.value, [1, 0]))
    return channels_last(ctx, ctx.op("MatMul", rows.value, y))


@tf_op("ResizeArea")
def resize_area(ctx: Context, node: TfNode) -> Value:
    (x, axes), align = _axes(ctx, node), node.bool_attr("align_corners", False)
    return _weighted(ctx, x, *(averaged(axis, align) for axis in axes))


@tf_op("ResizeBicubic")
def resize_bicubic(ctx: Context, node: TfNode) -> Value:
    align, half = node.bool_attr("align_corners", False), node.bool_attr("half_pixel_centers", False)
    if align and half:
        raise node.unsupported("align_corners together with half_pixel_centers", "use one of them")
    x, axes = _axes(ctx, node)
    return _weighted(ctx, x, *(cubic(axis, align, half) for axis in axes))


@tf_op("ScaleAndTranslate")
def scale_and_translate(ctx: Context, node: TfNode) -> Value:
    x, axes = _axes(ctx, node)
    kind = node.choice_attr("kernel_type", "lanczos3", *KERNELS)
    antialias = node.bool_attr("antialias", True)
    scale = ctx.constant(node.input(2))
    if scale is not None and not (np.asarray(scale) > 0).all():
        raise node.unsupported("a scale that is not positive", "use positive numbers")
    weights = []
    for i, axis in enumerate(axes):
        which = ctx.const(i, DType.I32)
        given = [cast(ctx, ctx.op("GatherV2", v, which), DType.F32) for v in node.tensors(2, 4)]
        factor, shift = (Term(ctx, scalar(ctx, v)) for v in given)
        weights.append(sampled(axis, factor, shift, kind, antialias))
    return _weighted(ctx, x, *weights)
