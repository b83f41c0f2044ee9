"""Resizing: every axis by gathers and weighted sums with tables, or by plain views where that is enough."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.shape import elements, normalize_axis
from MNN.ir.traced import room_of
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, wide
from MNN.ops.images.resize_open import OpenTaps, has_formula, repeats, strides
from MNN.ops.images.resize_tables import Axis, Method, Taps, aspect_sizes, scaled, taps
from MNN.ops.inference import infer

_DENSE_TAPS = 5
"""With more taps than this (antialiasing) an axis is a product with a matrix."""


def pick(b: Builder, x: Tensor, index: np.ndarray, axis: int) -> Tensor:
    """Constant indices along an axis; evenly spaced or repeated ones become views."""
    count, size = len(index), x.shape[axis]
    if count == 0:
        return b.take(x, b.const(index.astype(np.int32)), axis)
    step = int(index[1] - index[0]) if count > 1 else 1
    if step and np.array_equal(index, index[0] + step * np.arange(count)):
        starts, counts, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], counts[axis], steps[axis] = int(index[0]), count, step
        return b.slice(x, starts, counts, steps)
    if size and count % size == 0 and np.array_equal(index, np.arange(count) // (count // size)):
        return _repeat(b, x, axis, count // size, count)
    return b.take(x, b.const(index.astype(np.int32)), axis)


def _repeat(b: Builder, x: Tensor, axis: int, times: int, count: int) -> Tensor:
    """Every element ``times`` times, ``count`` in all."""
    shape = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
    wider = b.expand(b.unsqueeze(x, [axis + 1]), shape)
    return b.reshape(wider, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _apply(b: Builder, x: Tensor, axis: int, table: Taps) -> Tensor:
    """One axis resized; ``x`` is floating point unless there is one tap."""
    kept = [k for k in range(table.index.shape[1]) if np.any(table.weight[:, k])]
    line = [1] * x.rank
    line[axis] = len(table.index)
    if len(kept) <= 1 and np.all(table.weight[:, kept] == 1):
        return pick(b, x, table.index[:, kept[0] if kept else 0], axis)
    if len(kept) > _DENSE_TAPS:
        b.require(len(table.index) * x.shape[axis], "the resampling matrix")
        matrix = np.zeros((len(table.index), x.shape[axis]))
        np.add.at(matrix, (np.arange(len(table.index))[:, None], table.index), table.weight)
        order = [i for i in range(x.rank) if i != axis] + [axis]
        product = b.matmul(b.permute(x, order), b.const(matrix.T, x.dtype))
        return b.permute(product, [order.index(i) for i in range(x.rank)])
    parts = [pick(b, x, table.index[:, k], axis) for k in kept]
    if len(kept) == 2 and np.allclose(table.weight[:, kept].sum(1), 1, rtol=0, atol=1e-12):
        return _between(b, parts[0], parts[1], b.const(table.weight[:, kept[1]].reshape(line), x.dtype))
    return _blended(b, parts, [b.const(table.weight[:, k].reshape(line), x.dtype) for k in kept])


def _apply_open(b: Builder, x: Tensor, i: int, axis: Axis, method: Method) -> Tensor:
    """One axis resized whose size is open."""
    times, taken = repeats(axis, method), strides(axis, method)
    if times is not None:
        return _repeat(b, x, i, times, axis.out)
    if taken is not None:
        starts, counts, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        (starts[i], steps[i]), counts[i] = taken, axis.out
        return b.slice(x, starts, counts, steps)
    table = OpenTaps(b, axis, method)
    parts = [b.take(x, table.index(k), i) for k in range(table.count)]
    line = [1] * x.rank
    line[i] = axis.out
    if method.mode == "nearest":
        return parts[0]
    if method.mode == "linear":
        return _between(b, parts[0], parts[1], b.reshape(table.weight(1, x.dtype), line))
    return _blended(b, parts, [b.reshape(table.weight(k, x.dtype), line) for k in range(table.count)])


def _between(b: Builder, first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """What lies between two, ``share`` of the way to the second."""
    return b.map(lambda s, p, q, t: s("add", p, s("mul", s("sub", q, p), t)), first, second, share)


def _blended(b: Builder, parts: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """The weighted sum."""

    def blend(s: BodyBuilder, *v: int) -> int:
        total = s("mul", v[0], v[len(parts)])
        for k in range(1, len(parts)):
            total = s("add", total, s("mul", v[k], v[len(parts) + k]))
        return total

    return b.map(blend, *parts, *weights)


def resize(b: Builder, x: Tensor, axes: dict[int, Axis], method: Method) -> Tensor:
    """``x`` with every axis of ``axes`` resized; the result has ``x``'s dtype (integers are cut, not rounded)."""
    if any(a.out < 0 or (a.out > 0 and a.size == 0) for a in axes.values()):
        raise ShapeError(f"{b.where}: cannot resize {list(x.shape)} to {[a.out for a in axes.values()]}")
    if any(not np.isfinite(a.scale) or a.scale <= 0 for a in axes.values() if a.out):
        raise ShapeError(f"{b.where}: scales {[a.scale for a in axes.values()]} must be positive")
    for a in axes.values():  # antialiasing reads more of the input the more it shrinks
        b.require(a.out * (4 + math.ceil(4 / min(a.scale, 1.0)) if method.antialias else 4), "the sample grid")
    dtype = x.dtype
    if method.mode != "nearest":
        x = wide(b, x) if dtype.is_float else b.cast(x, DType.F32)
    tables = {i: taps(axis, method) for i, axis in axes.items() if not has_formula(axis, method)}
    # axes that shrink the most come first, so that the others have less to do
    for i in sorted(axes, key=lambda i: room_of(axes[i].out) / max(room_of(axes[i].size), 1)):
        x = _apply(b, x, i, tables[i]) if i in tables else _apply_open(b, x, i, axes[i], method)
    for i, table in tables.items():
        if table.outside.any():
            line = [1] * x.rank
            line[i] = len(table.outside)
            mask = b.const(table.outside.reshape(line))
            x = b.op("select", mask, b.like(method.extrapolation, x), x)
    return b.cast(x, dtype)


_CTM = {
    "AlignCorners": "align_corners", "HalfPixels": "half_pixel", "PytorchHalfPixels": "pytorch_half_pixel",
    "Asymmetric": "asymmetric", "TensorflowHalfPixels": "tf_half_pixel_for_nn",
}  # fmt: skip
_TYPES = {1: ("nearest", "floor"), 2: ("linear", "floor"), 3: ("cubic", "floor"), 4: ("nearest", "round_prefer_floor")}


@register("Interp", "Interp3D")
class Interp(Operator):
    """Resizes the spatial axes of ``x[N, C, ...]``. The second input holds the output's whole shape (integers), scales
    of all axes (floats) or the spatial sizes; without it the attributes give sizes or scales.

    ``resizeType``: 1 nearest (floor), 2 linear, 3 cubic, 4 nearest (round half down).
    """

    sizes_from = 1
    attributes = {
        "widthScale": 0.0, "heightScale": 0.0, "outputWidth": 0, "outputHeight": 0, "resizeType": 0,
        "alignCorners": False, "halfPixelCenters": False, "widthOffset": 0.0, "heightOffset": 0.0,
        "cubicCoeffA": -0.75, "ctm": "NotSet", "depthScale": 0.0, "outputDepth": 0, "depthOffset": 0.0,
    }  # fmt: skip

    def moved_operands(self, node: Node) -> Sequence[int]:
        mode, _ = _TYPES.get(self.int_attr(node, "resizeType"), ("", ""))
        return (0,) if mode == "nearest" else ()

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given = operand(b, inputs, 0), optional(inputs, 1)
        kind, ctm = self.int_attr(node, "resizeType"), self.str_attr(node, "ctm")
        if kind not in _TYPES or (ctm != "NotSet" and ctm not in _CTM):
            raise ShapeError(f"{b.where}: resizeType {kind} with coordinate transformation {ctm} is not supported")
        if x.rank not in (3, 4, 5):
            raise ShapeError(f"{b.where}: input {list(x.shape)}, expected [N, C, spatial...]")
        if ctm != "NotSet":
            transform = _CTM[ctm]
        elif self.bool_attr(node, "halfPixelCenters") and kind != 1:  # files older than ctm
            transform = "half_pixel"
        else:
            transform = "align_corners" if self.bool_attr(node, "alignCorners") else "asymmetric"
        mode, rounding = _TYPES[kind]
        method = Method(mode, transform, rounding, self.float_attr(node, "cubicCoeffA"))
        axes = {i: a for i, a in enumerate(self._axes(b, node, x, given)) if a.out != a.size or a.scale != 1}
        return [resize(b, x, axes, method)]

    def _axes(self, b: Builder, node: Node, x: Tensor, given: Tensor | None) -> list[Axis]:
        spatial, fixed = x.shape[2:], [Axis(d, d, 1.0) for d in x.shape[:2]]
        names = ("depth", "height", "width")[3 - len(spatial) :]
        if given is None:
            outs = [self.int_attr(node, f"output{n.capitalize()}") for n in names]
            scales = [self.float_attr(node, f"{n}Scale") for n in names]
            if all(outs):
                return fixed + [Axis(d, n) for d, n in zip(spatial, outs, strict=True)]
            return fixed + [Axis(d, scaled(d, s), s) for d, s in zip(spatial, scales, strict=True)]
        if given.dtype.is_float and elements(given.shape) == x.rank:
            numbers = [float(s) for s in b.value(given, "the output size").reshape(-1)]
            return [Axis(d, scaled(d, s), s) for d, s in zip(x.shape, numbers, strict=True)]
        sizes = b.ints(given, "the output size")
        if len(sizes) == x.rank:
            return [Axis(d, n) for d, n in zip(x.shape, sizes, strict=True)]
        if len(sizes) != len(spatial):
            raise ShapeError(f"{b.where}: {len(sizes)} output sizes for an input of shape {list(x.shape)}")
        return fixed + [Axis(d, n) for d, n in zip(spatial, sizes, strict=True)]


@register("OnnxResize")
class OnnxResize(Operator):
    """ONNX's Resize with everything it allows; inputs ``x, roi?, scales?, sizes?``."""

    sizes_from = 1
    in_mnn = False
    attributes = {
        "mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor",
        "cubic_coeff_a": -0.75, "exclude_outside": False, "extrapolation_value": 0.0, "antialias": False,
        "axes": None, "keep_aspect_ratio_policy": "stretch",
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, roi, scales, sizes = operand(b, inputs, 0), *(optional(inputs, i) for i in (1, 2, 3))
        method = Method(
            self.str_attr(node, "mode"), self.str_attr(node, "coordinate_transformation_mode"),
            self.str_attr(node, "nearest_mode"), self.float_attr(node, "cubic_coeff_a"),
            self.bool_attr(node, "exclude_outside"), self.bool_attr(node, "antialias"),
            self.float_attr(node, "extrapolation_value"),
        )  # fmt: skip
        listed = self.ints_attr(node, "axes") or tuple(range(x.rank))
        which = [normalize_axis(a, x.rank, b.where) for a in listed]
        shape = [x.shape[a] for a in which]
        if sizes is not None and sizes.shape != (0,):
            wanted = b.ints(sizes, "the output size")
            self._check(b, wanted, which)
            outs, factors = aspect_sizes(wanted, shape, self.str_attr(node, "keep_aspect_ratio_policy"))
        else:
            given = [float(v) for v in b.value(scales, "scales").reshape(-1)]
            self._check(b, given, which)
            outs, factors = [scaled(d, f) for d, f in zip(shape, given, strict=True)], given
        regions = [(0.0, 1.0)] * len(which)
        if method.transform == "tf_crop_and_resize":
            numbers = [float(v) for v in b.value(roi, "roi").reshape(-1)]
            self._check(b, numbers, which * 2)
            regions = list(zip(numbers[: len(which)], numbers[len(which) :], strict=True))
        axes = {
            a: Axis(d, n, f, r)
            for a, d, n, f, r in zip(which, shape, outs, factors, regions, strict=True)
            if not (n == d and f in (None, 1) and r == (0.0, 1.0))
        }
        return [resize(b, x, axes, method)]

    def _check(self, b: Builder, numbers: Sequence[float], which: Sequence[int]) -> None:
        if len(numbers) != len(which):
            raise ShapeError(f"{b.where}: {len(numbers)} numbers for {len(which)} axes in roi, scales or sizes")


@infer.rule(Interp)
def _infer_interp(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, given = infer.sizes(x), node.inputs[1] if len(node.inputs) > 1 else None
    if known is None:
        return [(x.dtype, None)]
    names = ("Depth", "Height", "Width")[3 - (len(known) - 2) :]
    if given is None and all(infer.number(node, f"output{n}") for n in names):
        return [(x.dtype, (*known[:2], *(infer.number(node, f"output{n}") for n in names)))]
    return [(x.dtype, _resized(h, known, given))]


@infer.rule(OnnxResize)
def _infer_onnx_resize(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    plain = not node.attrs.get("axes") and node.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if known is None or not plain:
        scaled = {a % len(known) for a in infer.ints(node, "axes")} if known else set()
        kept = [None if not scaled or i in scaled else d for i, d in enumerate(known or ())]
        return [(x.dtype, None if known is None else tuple(kept))]
    given = [node.inputs[i] if len(node.inputs) > i else None for i in (3, 2)]
    return [(x.dtype, _resized(h, known, next((v for v in given if v is not None), None)))]


def _resized(h: infer.ShapeInference, known: infer.Sizes, given: Value | None) -> infer.Sizes:
    """The shape that sizes (of all or the spatial axes) or constant scales lead to."""
    if given is not None and given.data is not None and given.array().dtype.kind == "f":
        factors = given.array().reshape(-1)
        if len(factors) == len(known):
            return tuple(_scaled(d, float(f)) for d, f in zip(known, factors, strict=True))
    wanted = h.ints(given)
    if wanted is not None and len(wanted) == len(known):
        return tuple(wanted)
    if wanted is not None and len(wanted) == len(known) - 2:
        return (*known[:2], *wanted)
    return (*known[:2], *(None,) * (len(known) - 2))


def _scaled(size: symbolic.Size, factor: float) -> symbolic.Size:
    if isinstance(size, int):
        return scaled(size, factor)
    if factor >= 1 and factor == int(factor):
        return symbolic.multiply(size, int(factor))
    parts = round(1 / factor) if factor > 0 else 0
    return symbolic.floor_divide(size, parts) if parts and parts & (parts - 1) == 0 and parts * factor == 1 else None
