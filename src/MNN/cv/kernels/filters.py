"""Linear filters, box sums and morphology by :class:`MNN.backends.cpu.image.filtering.filter.FilterSpec`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.backends.cpu.image.filtering.filter import FilterSpec, Reduction
from MNN.backends.cpu.image.filtering.spans import doublings
from MNN.backends.cpu.image.numbers import RANGES
from MNN.cv._border import inside
from MNN.cv.kernels.run import (
    KEPT,
    TYPES,
    Array,
    Call,
    address,
    bands,
    bits,
    call_of,
    target,
    thread_count,
    worthwhile,
)
from MNN.ir.dtype import DType

_EXACT = 1 << 24
"""Whole numbers up to this one are f32."""
_RUNNING = 18
"""Height and width, together, of windows from which on they are reduced by spans."""
_FRACTION = 8
"""Bits behind the point of weights that are computed with in whole numbers."""


def separable(
    image: Array, x: Array, y: Array, kind: np.dtype[Any], delta: float, border: int, scale: float = 1.0,
    up: bool = False, squared: bool = False,
) -> Array | None:  # fmt: skip
    """Rows of pixels (or of their squares) filtered by ``x``, columns by ``y``, times ``scale`` plus ``delta``, with
    ``up`` halves rounded up; None where numpy is to do it."""
    if image.dtype not in TYPES or kind not in TYPES or not worthwhile(image.size):
        return None
    weights = tuple(x.tolist()), tuple(y.tolist())
    rest = kind, delta, border, scale, up, squared, thread_count()
    return _run(image, kind, _separable(image.shape, image.dtype, *weights, *rest))


@functools.lru_cache(maxsize=KEPT)
def _separable(
    shape: tuple[int, ...], dtype: np.dtype[Any], x: tuple[float, ...], y: tuple[float, ...], kind: np.dtype[Any],
    delta: float, border: int, scale: float, up: bool, squared: bool, _threads: int,
) -> Call:  # fmt: skip
    source, result = TYPES[dtype], TYPES[kind]
    middle = total = DType.F32
    shift = 0
    whole = None if squared else _whole(source, x, y)
    if whole is not None:
        x, y, shift, middle, total = whole
    shifted = whole is not None and scale == 1.0 and result is not DType.F32 and delta == 0 and (up or not shift)
    reduction = Reduction.SUM if set(x) == set(y) == {1.0} else Reduction.WEIGHTED
    finish = {"half": (1 << shift) >> 1, "shift": shift, "scale": bits(scale / (1 << shift)), "delta": bits(delta)}
    divided = None
    if total is DType.U16 and reduction is Reduction.SUM and result is DType.U8 and delta == 0:
        divided = _division(len(x) * len(y)) if scale * len(x) * len(y) == 1 else None
    if divided is not None:
        finish |= divided
    along = x != (1.0,)
    shifted = shifted or bool(divided)
    size = len(y), len(x)
    running = reduction is Reduction.SUM and _large(size)
    spec = FilterSpec.of(source, middle, total, result, along, reduction, shifted, bool(divided), squared, running)
    taps = [(i, 0, weight) for i, weight in enumerate(y) if weight]
    return _call(spec, shape, size, _middle(size), taps, x, border, 0.0, finish)


def dense(image: Array, weights: Array, kind: np.dtype[Any], delta: float, border: int) -> Array | None:
    """Pixels correlated with a kernel (height, width), plus ``delta``; None where numpy is to do it."""
    if image.dtype not in TYPES or kind not in TYPES or not worthwhile(image.size):
        return None
    numbers = tuple(weights.ravel().tolist())
    call = _dense(image.shape, image.dtype, weights.shape, numbers, kind, delta, border, thread_count())
    return _run(image, kind, call)


@functools.lru_cache(maxsize=KEPT)
def _dense(
    shape: tuple[int, ...], dtype: np.dtype[Any], size: tuple[int, int], weights: tuple[float, ...],
    kind: np.dtype[Any], delta: float, border: int, _threads: int,
) -> Call:  # fmt: skip
    spec = FilterSpec.of(TYPES[dtype], DType.F32, DType.F32, TYPES[kind], False, Reduction.WEIGHTED, False)
    taps = [(*divmod(i, size[1]), weight) for i, weight in enumerate(weights) if weight]
    finish = {"half": 0, "shift": 0, "scale": bits(1.0), "delta": bits(delta)}
    return _call(spec, shape, size, _middle(size), taps, (1.0,), border, 0.0, finish)


def between(image: Array, top: int, left: int, size: tuple[int, int], down: float, across: float) -> Array | None:
    """A picture of ``size`` (width, height) whose pixels lie between four of the picture's, whose edge goes on: from
    row ``top`` and column ``left`` on, shifted by parts of a pixel ``down`` and ``across``. None where numpy is to do
    it, as where columns are outside."""
    width, height = size
    if image.dtype not in (np.uint8, np.float32) or not worthwhile(width * height * image.shape[2]):
        return None
    if left < 0 or left + width > image.shape[1]:
        return None
    image = np.ascontiguousarray(image)
    within = top >= 0 and top + height < image.shape[0]
    rows = _going_on(0, height + 1, height + 1) if within else _going_on(top, height + 1, image.shape[0])
    behind = _going_on(width if left + width < image.shape[1] else width - 1, 1, width + 1, image.shape[2])
    weights = np.array([(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across], np.float32)
    out = np.empty((height, width, image.shape[2]), image.dtype)
    begin = ((top * image.shape[1] if within else 0) + left) * image.shape[2]
    call = _between(image.shape, image.dtype, size, thread_count())
    call(image.reshape(-1)[begin:], rows, behind, weights, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _going_on(first: int, count: int, length: int, each: int = 1) -> Array:
    """The places of ``count`` rows or pixels from ``first`` on, of ``each`` numbers, the edges of a length going on."""
    places = np.clip(np.arange(first, first + count), 0, length - 1)
    return (places[:, None] * each + np.arange(each)).astype(np.int32).ravel()


@functools.lru_cache(maxsize=KEPT)
def _between(shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], _threads: int) -> Call:
    (width, height), channels, kind = size, shape[2], TYPES[dtype]
    spec = FilterSpec.of(kind, DType.F32, DType.F32, kind, False, Reduction.WEIGHTED, False)
    elements = width * channels
    band = bands(height, height * elements)
    tables: dict[str, Array] = {
        "first": np.arange(height, dtype=np.int32),
        "tap_rows": np.array([0, 0, 1, 1], np.int64),
        "offsets": np.array([0, channels, 0, channels], np.int64),
        "blank": np.zeros(channels, dtype),
    }
    args = {
        "src_row": shape[1] * channels, "before": 0, "behind": channels, "elements": elements, "out_row": elements,
        "height": height, "band": band, "taps": 4, "half": 0, "shift": 0, "scale": bits(1.0),
        "delta": bits(0.0), **{name: address(table) for name, table in tables.items()},
        **spec.places(target(), elements, channels, 4, 2),
    }  # fmt: skip
    return call_of(spec, args, ("src", "rows", "edges", "weights", "out"), -(-height // band), tables)


def extreme(
    image: Array, element: Array, anchor: tuple[int, int], border: int, outside: float, least: bool
) -> Array | None:
    """The smallest (or largest) value under the true places of ``element``, whose place ``anchor`` (row, column) is on
    the pixel; None where numpy is to do it."""
    if image.dtype not in TYPES or not worthwhile(image.size):
        return None
    places = tuple(element.ravel().tolist())
    call = _extreme(image.shape, image.dtype, element.shape, places, anchor, border, outside, least, thread_count())
    return _run(image, image.dtype, call)


@functools.lru_cache(maxsize=KEPT)
def _extreme(
    shape: tuple[int, ...], dtype: np.dtype[Any], size: tuple[int, int], places: tuple[bool, ...],
    anchor: tuple[int, int], border: int, outside: float, least: bool, _threads: int,
) -> Call:  # fmt: skip
    kind, (height, width) = TYPES[dtype], size
    across = all(places) and width > 1
    reduction, running = Reduction.MIN if least else Reduction.MAX, all(places) and _large(size)
    spec = FilterSpec.of(kind, kind, kind, kind, across, reduction, False, running=running)
    taps = [(*divmod(i, width), 1.0) for i, taken in enumerate(places) if taken]
    if across:
        taps = [(i, 0, 1.0) for i in range(height)]
    finish = {"half": 0, "shift": 0, "scale": 0, "delta": 0}
    return _call(spec, shape, size, anchor, taps, (1.0,) * width, border, outside, finish)


def _division(count: int) -> dict[str, int] | None:
    """How sums of so many bytes are divided by their number, to the nearest, by a multiplication and a shift (Granlund
    and Montgomery, 1994); None where there are halves, or where that is not exact."""
    half, shift = count // 2, count.bit_length() - 1
    factor = -(-(1 << (16 + shift)) // count)
    sums = np.arange(255 * count + 1, dtype=np.int64) + half
    exact = sums[-1] < 1 << 16 and factor < 1 << 16 and bool((sums * factor >> 16 >> shift == sums // count).all())
    return {"half": half, "shift": shift, "factor": factor} if count % 2 and exact else None


def _whole(
    source: DType, x: tuple[float, ...], y: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...], int, DType, DType] | None:
    """Both kernels as whole numbers, how many bits are behind the point in a sum, and the types that hold sums along
    rows and all sums; None where weights are no such fractions or sums are too large."""
    if source is not DType.U8:
        return None
    scaled, behind = [], 0
    for weights in (x, y):
        fraction = next((n for n in range(_FRACTION + 1) if all((w * (1 << n)).is_integer() for w in weights)), None)
        if fraction is None:
            return None
        scaled.append(tuple(w * (1 << fraction) for w in weights))
        behind += fraction
    (low_x, high_x), (low_y, high_y) = (
        (sum(w for w in weights if w < 0), sum(w for w in weights if w > 0)) for weights in scaled
    )
    low, high = 255 * low_x, 255 * high_x
    middle = _holding(low, high)
    low, high = low * high_y + high * low_y, high * high_y + low * low_y
    if middle is None or max(-low, high) > _EXACT:
        return None
    fits = _holding(low, high + ((1 << behind) >> 1)) is middle and max(map(abs, scaled[1])) < 32768
    return scaled[0], scaled[1], behind, middle, middle if fits else DType.F32


def _large(size: tuple[int, int]) -> bool:
    """Whether a window (height, width) is so large that reducing spans takes less than reducing what it covers."""
    return sum(size) >= _RUNNING


def _middle(size: tuple[int, int]) -> tuple[int, int]:
    return size[0] // 2, size[1] // 2


def _holding(low: float, high: float) -> DType | None:
    return next((t for t in (DType.U16, DType.I16) if low >= RANGES[t][0] and high <= RANGES[t][1]), None)


def _call(
    spec: FilterSpec, shape: tuple[int, ...], size: tuple[int, int], anchor: tuple[int, int],
    taps: Sequence[tuple[int, int, float]], x: Sequence[float], border: int, outside: float, finish: Mapping[str, int],
) -> Call:  # fmt: skip
    """``size`` is that of the filter, ``anchor`` its place on the pixel; ``taps`` hold row, column and weight, ``x``
    the weights along rows."""
    height, width = shape[:2]
    channels = shape[2] if len(shape) == 3 else 1
    elements = width * channels
    (top, left), (below, right) = anchor, (n - 1 - at for n, at in zip(size, anchor, strict=True))
    rows = inside(np.arange(-top, height + below), height, border).astype(np.int32)
    places = np.concatenate([np.arange(-left, 0), np.arange(width, width + right)])
    columns = inside(places, width, border)[:, None]
    each = np.arange(channels)
    edges = np.where(columns < 0, -1 - each, columns * channels + each).astype(np.int32)
    blank = np.full(elements if rows.min() < 0 else channels, outside, spec.source.numpy)
    x_taps = [(j, weight) for j, weight in enumerate(x) if weight] or [(0, 0.0)]
    x_offsets = [j * channels for j, _ in x_taps]
    count = len(x_taps)
    if spec.running:
        steps = doublings(size[1], spec.reduction is Reduction.SUM)
        count = len(steps)
        x_offsets = [
            n for apart, more, missing in steps
            for n in (apart * channels, more * channels, elements + missing * channels)
        ]  # fmt: skip
    taps = taps or [(0, 0, 0.0)]
    tables = {
        "rows": rows,
        "edges": edges,
        "blank": blank,
        "first": np.arange(height, dtype=np.int32),
        "x_offsets": np.array(x_offsets or [0], np.int64),
        "x_weights": np.array([w for _, w in x_taps]).astype(spec.middle.numpy),
        "tap_rows": np.array([row for row, _, _ in taps], np.int64),
        "offsets": np.array([column * channels for _, column, _ in taps], np.int64),
        "weights": np.array([w for _, _, w in taps]).astype(spec.total.numpy),
    }
    band = bands(height, height * elements)
    if spec.running:  # spans begin where they do on one thread: sums are rounded alike, and few rows reduced twice
        band = -(-band // size[0]) * size[0]
    args = {
        "src_row": elements, "before": left * channels, "behind": right * channels, "elements": elements,
        "out_row": elements, "height": height, "band": band, "x_taps": count, "taps": len(taps),
        **{name: address(table) for name, table in tables.items()},
        **spec.places(target(), elements, (left + right) * channels, len(taps), size[0]), **finish,
    }  # fmt: skip
    return call_of(spec, args, ("src", "out"), -(-height // band), tables)


def _run(image: Array, kind: np.dtype[Any], call: Call) -> Array:
    image = np.ascontiguousarray(image)
    out = np.empty(image.shape, kind)
    call(image, out)
    return out
