"""Conversions of colours by :class:`MNN.backends.cpu.image.color.ColorSpec`."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from MNN.backends.cpu.image.color import NEW, ColorSpec, Conversion
from MNN.cv._array import to_dtype
from MNN.cv.kernels.run import KEPT, TYPES, Array, Call, address, bands, call_of, thread_count, worthwhile
from MNN.cv.spaces.numbers import Program, body
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.reference.scalar import evaluate


class Plan(NamedTuple):
    """A conversion as the kernel has it. ``weights``: rows of the weights of channels and an offset. ``program``: what
    makes the numbers of the result of those in ``order``, computed with as ``kind``; ``results``, which of them are its
    channels."""

    order: tuple[int, ...]
    how: Conversion
    weights: tuple[tuple[float, ...], ...] = ()
    program: Program | None = None
    kind: DType = DType.F32
    results: tuple[int, ...] = ()


Plans = dict[np.dtype[Any], Plan]
"""By the type of the picture."""
_U8, _F32 = np.dtype(np.uint8), np.dtype(np.float32)


def taken(order: tuple[int, ...]) -> Plans:
    """Channels in a new order; ``NEW`` is an opaque alpha."""
    return dict.fromkeys((_U8, _F32), Plan(order, Conversion.TAKEN))


def gray(order: tuple[int, ...]) -> Plans:
    """Luminance of what ``order`` calls blue, green and red: in fixed point of 15 bits, halves up, or in f32."""
    fixed = tuple(n / (1 << 15) for n in (3735, 19235, 9798))
    return {
        _U8: Plan(order, Conversion.FLOORED, ((*fixed, 0.5),)),
        _F32: Plan(order, Conversion.WEIGHTED, ((0.114, 0.587, 0.299, 0.0),)),
    }


def weighted(order: tuple[int, ...], matrix: Array, before: float, after: tuple[float, float, float]) -> Plans:
    """``matrix @ (pixel - offset) + offset``: ``before`` is taken off channels 1 and 2, ``after`` added (of 1.0)."""
    found = {}
    for kind, top in ((_U8, 255.0), (_F32, 1.0)):
        middle = {0.5: 128.0} if kind == _U8 else {}
        taken_off = matrix[:, 1:].sum(1) * middle.get(before, before * top)
        offsets = np.array([middle.get(a, a * top) for a in after]) - taken_off
        rows = tuple((*row, offset) for row, offset in zip(matrix.tolist(), offsets.tolist(), strict=True))
        found[kind] = Plan(order, Conversion.WEIGHTED, rows)
    return found


def computed(
    order: tuple[int, ...], program: Program, results: tuple[int, ...] = (0, 1, 2), *, floats: bool = True,
    kind: DType = DType.F32,
) -> Plans:  # fmt: skip
    """What a program makes of the channels in ``order``; ``floats``: also of pictures of f32."""
    plan = Plan(order, Conversion.COMPUTED, (), program, kind, results)
    return dict.fromkeys((_U8, _F32) if floats else (_U8,), plan)


def interpreted(image: Array, plans: Plans) -> Array:
    """What :func:`converted` gives by a program, by its reference implementation."""
    plan = plans[image.dtype]
    channels = [image[:, :, c].astype(plan.kind.numpy) for c in plan.order]
    return to_dtype(np.stack(evaluate(_body(plan, image.dtype), channels), 2), image.dtype)


@functools.lru_cache(maxsize=KEPT)
def _body(plan: Plan, dtype: np.dtype[Any]) -> Body:
    assert plan.program is not None
    return body(plan.program, plan.kind, len(plan.order), dtype == _U8, plan.results)


def converted(image: Array, plans: Plans) -> Array | None:
    """A picture (h, w, channels) in other colours; None where numpy is to do it."""
    plan = plans.get(image.dtype)
    if plan is None or not worthwhile(image.size):
        return None
    image = np.ascontiguousarray(image)
    outputs = len({Conversion.TAKEN: plan.order, Conversion.COMPUTED: plan.results}.get(plan.how, plan.weights))
    out = np.empty((*image.shape[:2], outputs), image.dtype)
    _convert(image.shape, image.dtype, plan, outputs, thread_count())(image, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _convert(shape: tuple[int, int, int], dtype: np.dtype[Any], plan: Plan, outputs: int, _threads: int) -> Call:
    program = _body(plan, dtype) if plan.program is not None else None
    spec = ColorSpec.of(TYPES[dtype], shape[2], outputs, plan.order, plan.how, program)
    pixels = shape[0] * shape[1]
    band = bands(pixels, pixels * max(shape[2], outputs))
    weights = np.array(plan.weights, np.float32)
    args = {"pixels": pixels, "band": band, "weights": address(weights)}
    return call_of(spec, args, ("src", "out"), -(-pixels // band), weights)


__all__ = ["NEW", "Plan", "Plans", "computed", "converted", "gray", "interpreted", "taken", "weighted"]
