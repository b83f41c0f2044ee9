"""From floats to integers: saturating conversions that stay in vectors."""

from __future__ import annotations

import math

import numpy as np

from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import F32, I32, Builder, Value
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType


def saturating(b: Builder, x: Value, to: DType) -> Value:
    """A float truncated and saturated to the integers of ``to``; NaN gives 0.

    LLVM's own conversion of that meaning takes vectors apart on x86: there the value is bounded first.
    """
    t = compute_type(to, x.type.lanes)
    if x.type.lanes == 1 or b.can(can.SATURATE):
        name = "fptosi" if to.is_signed else "fptoui"
        return b.call(t, f"llvm.{name}.sat.{t.suffix}.{x.type.suffix}", x)
    info = np.iinfo(to.numpy.name)
    low, high = int(info.min), int(info.max)
    most = float(high) if int(float(high)) == high else math.nan
    if x.type.element is F32 and to.size > 2:
        most = float(np.nextafter(np.float32(high + 1), np.float32(0)))
    elif most != most:
        most = math.nextafter(float(high + 1), 0.0)
    if low:
        y = b.select(b.fcmp("ord", x, x), x, 0.0)
        y = b.select(b.fcmp("ogt", y, float(low)), y, float(low))
    else:
        y = b.select(b.fcmp("ogt", x, 0.0), x, 0.0)  # NaN too is not greater
    y = b.select(b.fcmp("olt", y, most), y, most)
    wide = t if to.size >= 4 else I32.vec(x.type.lanes)
    whole = b.convert("fptosi" if to.is_signed or to.size < 4 else "fptoui", y, wide)
    if most < high:
        whole = b.select(b.fcmp("ogt", x, most), high, whole)
    return b.convert("trunc", whole, t)


def to_nearest(b: Builder, x: Value) -> Value:
    """An f32 within an i32's range as i32, rounded half to even; any number for NaN."""
    t = I32.vec(x.type.lanes)
    return b.call(t, f"llvm.lrint.{t.suffix}.{x.type.suffix}", x)


def nearest(b: Builder, x: Value, to: DType) -> Value:
    """An f32 as the nearest integer of ``to``, of at most 16 bits: halves to the even one, saturated; NaN gives 0.

    What is too large is bounded before, what is too small is the least i32 or what that becomes: bounds of whole
    numbers are what processors that pack them have anyway."""
    info = np.iinfo(to.numpy.name)
    low, high = int(info.min), int(info.max)
    if low:
        x = b.select(b.fcmp("ord", x, x), x, 0.0)
    whole = to_nearest(b, b.select(b.fcmp("ogt", x, float(high)), float(high), x))
    whole = b.intrinsic("smax", b.intrinsic("smin", whole, b.const(whole.type, high)), b.const(whole.type, low))
    return b.convert("trunc", whole, compute_type(to, x.type.lanes))


__all__ = ["nearest", "saturating", "to_nearest"]
