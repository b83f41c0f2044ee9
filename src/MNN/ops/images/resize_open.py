"""Resizing an axis whose size is open: what :mod:`MNN.ops.images.resize_tables` computes while planning is computed in
the run, from the sizes at hand, in the same order and as precisely."""

from __future__ import annotations

import numpy as np

from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.traced import size_of
from MNN.ops.core.builder import Builder
from MNN.ops.core.open_numbers import is_open
from MNN.ops.images.resize_tables import Axis, Method, taps

_REACH = {"nearest": range(1), "linear": range(2), "cubic": range(-1, 3)}
"""Taps, counted from the coordinate's floor."""
_BY_SCALE = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
"""Transforms whose coordinates follow from the scale and, where that is a whole number, not from the size."""
_PROBED = 8
"""Elements that tell how a pattern goes on."""


def has_formula(axis: Axis, method: Method) -> bool:
    """Whether an axis is of an open size and its taps can be computed in the run."""
    plain = not method.exclude_outside and not method.antialias and method.transform != "tf_crop_and_resize"
    return plain and is_open([axis.size, axis.out])


def repeats(axis: Axis, method: Method) -> int | None:
    """How often each element of the input comes in a nearest result, one after another, at all sizes; None where it
    is not so."""
    times = symbolic.exact_quotient(size_of(axis.out), size_of(axis.size))
    if not isinstance(times, int) or not _follows_scale(axis, method, float(times)):
        return None
    found = taps(Axis(_PROBED, _PROBED * times, float(times)), method).index[:, 0]
    return times if np.array_equal(found, np.arange(_PROBED * times) // times) else None


def strides(axis: Axis, method: Method) -> tuple[int, int] | None:
    """The first element and the step of a nearest result that takes every so-manieth one, at all sizes."""
    step = round(1 / axis.given) if axis.given is not None and 0 < axis.given < 1 else 0
    if not step or not _follows_scale(axis, method, 1 / step):
        return None
    found = taps(Axis(_PROBED * step, _PROBED, 1 / step), method).index[:, 0]
    first = int(found[0])
    return (first, step) if first < step and np.array_equal(found, first + step * np.arange(_PROBED)) else None


def _follows_scale(axis: Axis, method: Method, scale: float) -> bool:
    return method.mode == "nearest" and method.transform in _BY_SCALE and axis.given in (None, scale)


class OpenTaps:
    """The taps of one axis, as tensors of the run."""

    def __init__(self, b: Builder, axis: Axis, method: Method) -> None:
        self._b, self._method, self._scale = b, method, axis.given
        shape = (axis.out,)
        b.require(int(axis.out), "the sample grid")
        steps = Tensor(DType.I64, shape, const=np.arange(int(axis.out)))
        ends = [b.open_numbers.tensor([n], (), DType.I64) for n in (axis.size, axis.out)]
        self._operands = [steps, *(b.cast(b.open_numbers.input_for(t), DType.F64) for t in ends)]
        self.count = len(_REACH[method.mode])

    def index(self, tap: int) -> Tensor:
        """Where a tap reads, i32 ``[out]``, within the input."""
        offset, mode = _REACH[self._method.mode][tap], self._method.mode

        def body(s: BodyBuilder, step: int, size: int, out: int) -> int:
            at = self._coordinate(s, step, size, out)
            at = self._nearest(s, at) if mode == "nearest" else s("floor", at)
            at = s("min", s("add", at, _number(s, offset)), s("sub", size, _number(s, 1)))
            return s.cast(s("max", at, _number(s, 0)), DType.I32)

        return self._b.map(body, *self._operands)

    def weight(self, tap: int, dtype: DType) -> Tensor:
        """How much a tap counts, ``[out]``."""
        offset, cubic = _REACH[self._method.mode][tap], self._method.mode == "cubic"

        def body(s: BodyBuilder, step: int, size: int, out: int) -> int:
            at = self._coordinate(s, step, size, out)
            distance = s("abs", s("sub", _number(s, offset), s("sub", at, s("floor", at))))
            found = self._cubic(s, distance) if cubic else s("max", _number(s, 0), s("sub", _number(s, 1), distance))
            return s.cast(found, dtype)

        return self._b.map(body, *self._operands)

    def _coordinate(self, s: BodyBuilder, step: int, size: int, out: int) -> int:
        """See :func:`MNN.ops.images.resize_tables.coordinates`."""
        x, transform = s.cast(step, DType.F64), self._method.transform
        half, one = _number(s, 0.5), _number(s, 1)
        scale = s("div", out, size) if self._scale is None else _number(s, self._scale)
        length = s("mul", scale, size)
        if transform == "align_corners":
            return s("div", s("mul", x, s("sub", size, one)), s("sub", length, one))
        if transform == "asymmetric":
            return s("div", x, scale)
        centre = s("div", s("add", x, half), scale)
        if transform == "tf_half_pixel_for_nn":
            return centre
        if transform == "half_pixel_symmetric":
            lacking = s("sub", one, s("div", out, length))
            centre = s("add", s("mul", s("div", size, _number(s, 2)), lacking), centre)
        return s("sub", centre, half)

    def _nearest(self, s: BodyBuilder, at: int) -> int:
        half = _number(s, 0.5)
        if self._method.rounding == "round_prefer_floor":
            return s("ceil", s("sub", at, half))
        if self._method.rounding == "round_prefer_ceil":
            return s("floor", s("add", at, half))
        return s(self._method.rounding, at)

    def _cubic(self, s: BodyBuilder, d: int) -> int:
        a = self._method.cubic_a
        one = _number(s, 1)
        near = s("sub", s("mul", _number(s, a + 2), d), _number(s, a + 3))
        near = s("add", s("mul", s("mul", near, d), d), one)
        far = s("add", s("mul", s("sub", s("mul", _number(s, a), d), _number(s, 5 * a)), d), _number(s, 8 * a))
        far = s("sub", s("mul", far, d), _number(s, 4 * a))
        outside = s("select", s("lt", d, _number(s, 2)), far, _number(s, 0))
        return s("select", s("le", d, one), near, outside)


def _number(s: BodyBuilder, value: float) -> int:
    return s.const(float(value), DType.F64)


__all__ = ["OpenTaps", "has_formula", "repeats", "strides"]
