"""Filters of convolutions that are computed at run time, put in the order in which kernels prepare them."""

from __future__ import annotations

from MNN.backends.base.program import Place
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_elementwise import emit_nest
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of


def columns_innermost(e: Emitter, w: Tensor, dtype: DType | None = None) -> Place:
    """Where to read filters ``[O, C, kernel...]`` so that their numbers for one tap and channel lie one behind the
    other: where they are or, as a rule, in a copy; of another ``dtype``, if one is given.

    Taps that are walked backwards, as for gradients, are copied forwards: that is done by whole lines."""
    place, dtype = e.place(w), w.dtype if dtype is None else dtype
    if place.strides[0] != 1:
        begin = place.offset + sum((n - 1) * s for n, s in zip(w.shape, place.strides, strict=True) if s < 0)
        to = e.allocate(w.dtype, w.shape, (*range(2, w.rank), 1, 0))
        e.copy(Place(place.buffer, begin, tuple(map(abs, place.strides))), to, w.shape, w.dtype)
        last = sum((n - 1) * t for n, s, t in zip(w.shape, place.strides, to.strides, strict=True) if s < 0)
        steps = tuple(-t if s < 0 else t for s, t in zip(place.strides, to.strides, strict=True))
        place = Place(to.buffer, to.offset + last, steps)
    if dtype is w.dtype:
        return place
    wide = e.allocate(dtype, w.shape, (*range(2, w.rank), 1, 0))
    emit_nest(e, body_of([w.dtype], lambda b, v: b.cast(v, dtype)), w.shape, [(w, place)], wide, dtype)
    return wide


__all__ = ["columns_innermost"]
