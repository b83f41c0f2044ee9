"""Arithmetic on every number of a picture, by the engine's loops over scalar programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.backends.cpu.loops.lookup import ENTRIES, LookupSpec
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.cv.kernels.run import KEPT, TYPES, Array, Call, bands, call_of, target, thread_count, worthwhile
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder

_LARGE = 2.0**100
"""Numbers up to this one, and their reciprocals, leave room for differences and products in f32."""


def by_table(image: Array, function: Callable[[Array], Array]) -> Array | None:
    """``function`` of every byte of a picture, where its results are bytes and registers look up several at once; None
    where they do not, or numpy is to do it."""
    if image.dtype != np.uint8 or not worthwhile(image.size) or not target().has_instruction(can.PICK_BYTES):
        return None
    return looked_up(image, function(np.arange(ENTRIES, dtype=np.uint8)))


def looked_up(image: Array, table: Array) -> Array | None:
    """What a ``table`` of 256 bytes has for every byte of a picture; None where numpy is to do it."""
    if table.dtype != np.uint8 or not worthwhile(image.size):
        return None
    image, out = np.ascontiguousarray(image), np.empty(image.shape, np.uint8)
    _look_up(image.size, thread_count())(table, image, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _look_up(size: int, _threads: int) -> Call:
    chunk = bands(size, size)
    return call_of(LookupSpec.of(1), {"extent0": size, "chunk": chunk}, ("table", "in0", "out0"), -(-size // chunk))


def selected(image: Array, level: float, above: float | None, other: float | None) -> Array | None:
    """``above`` where a picture of u8 or f32 is above ``level`` (of bytes, a whole number), else ``other``: each a
    number of its type, or None for the picture itself. None where numpy is to do it."""
    if image.dtype not in _SELECTED or not worthwhile(image.size):
        return None
    return _mapped(*_selection(image.dtype, level, above, other), [image], image.dtype)


_SELECTED = (np.dtype(np.uint8), np.dtype(np.float32))


@functools.lru_cache(maxsize=KEPT)
def _selection(kind: np.dtype[Any], level: float, above: float | None, other: float | None) -> tuple[Body, Array]:
    if kind == np.uint8 and level < 0:  # which no byte is
        level, other = 255.0, above
    level = min(level, 255.0) if kind == np.uint8 else level
    with np.errstate(over="ignore"):
        numbers = np.array([level, above or 0, other or 0], kind)
    return _selected(TYPES[kind], above is None, other is None), numbers


def compared(image: Array, mean: Array, level: int, high: int, low: int) -> Array | None:
    """Of two pictures of bytes: ``high`` where they differ by more than ``level``, else ``low``. None where numpy is to
    do it."""
    if image.dtype != np.uint8 or mean.dtype != np.uint8 or not worthwhile(image.size):
        return None
    numbers = np.array([min(max(level, -256), 256), high, low], np.int16)
    return _mapped(_compared(), numbers, [image, mean], image.dtype)


_WORDS = {1: DType.U8, 2: DType.U16, 4: DType.I32, 8: DType.I64}
"""Numbers that are moved as they are, by their bytes."""


def chosen(image: Array, mask: Array, other: Array | None) -> Array | None:
    """The numbers of a picture of one channel where a mask (h, w) is not 0, else those of another picture, or 0. None
    where numpy is to do it."""
    if image.itemsize not in _WORDS or image.size != mask.size or not worthwhile(image.size):
        return None
    mask = mask if mask.itemsize == 1 else mask != 0
    pictures = [image, mask] if other is None else [image, mask, other]
    return _mapped(_chosen(_WORDS[image.itemsize], other is None), None, pictures, image.dtype)


def blended(image: Array, top: int, left: int, size: tuple[int, int], down: float, across: float) -> Array | None:
    """The part of a picture (h, w, channels) of ``size`` (width, height) whose pixels lie between four of its own: from
    row ``top`` and column ``left`` on, shifted by parts of a pixel ``down`` and ``across``. None where numpy is to do
    it, as where any of them is outside."""
    (width, height), (rows, columns, channels) = size, image.shape
    if image.dtype not in TYPES or not worthwhile(width * height * channels):
        return None
    if min(top, left) < 0 or top + height >= rows or left + width >= columns:
        return None
    image, out = np.ascontiguousarray(image), np.empty((height, width, channels), image.dtype)
    weights = np.array([(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across], np.float32)
    _blend(image.shape, image.dtype, size, thread_count())(image[top:, left:], weights, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _blend(shape: tuple[int, int, int], dtype: np.dtype[Any], size: tuple[int, int], _threads: int) -> Call:
    (width, height), channels = size, shape[2]
    spec = MapSpec.of(_blended(dtype), 2, ("1",) * 4 + ("0",) * 4, ("1",))
    args = {"extent0": height, "extent1": width * channels, "chunk": width * channels, "out0_s0": width * channels}
    args |= {f"in{i}_s0": shape[1] * channels for i in range(4)}
    pixel = channels * dtype.itemsize
    row = shape[1] * pixel
    corners = dict(zip(("in0", "in1", "in2", "in3"), (0, pixel, row, row + pixel), strict=True))
    return call_of(spec, args, (corners, {f"in{4 + i}": 4 * i for i in range(4)}, "out0"), height)


@functools.cache
def _blended(dtype: np.dtype[Any]) -> Body:
    b = BodyBuilder()
    pixels = [b.cast(b.arg(TYPES[dtype]), DType.F32) for _ in range(4)]
    weights = [b.arg(DType.F32) for _ in range(4)]
    total = b("mul", pixels[0], weights[0])
    for pixel, weight in zip(pixels[1:], weights[1:], strict=True):
        total = b("fma", pixel, weight, total)
    return b.build(total if dtype == np.float32 else b.cast(b("round", total), TYPES[dtype]))


def weighted(a: Array, alpha: float, b: Array, beta: float, gamma: float) -> Array | None:
    """``a * alpha + b * beta + gamma`` in a's type; None where numpy is to do it."""
    if a.dtype not in TYPES or b.dtype not in TYPES or not worthwhile(a.size):
        return None
    return _mapped(_weighted(a.dtype, b.dtype), np.array([alpha, beta, gamma], np.float32), [a, b], a.dtype)


def scaled(image: Array, low: float, scale: float, shift: float, kind: np.dtype[Any]) -> Array | None:
    """``(image - low) * scale + shift`` in the type ``kind``; None where numpy is to do it."""
    if image.dtype not in TYPES or kind not in TYPES or not worthwhile(image.size):
        return None
    if abs(low) > _LARGE or abs(scale) > _LARGE or 0 < abs(scale) < 1 / _LARGE:
        return None
    return _mapped(_scaled(image.dtype, kind), np.array([low, scale, shift], np.float32), [image], kind)


@functools.cache
def _selected(kind: DType, above: bool, other: bool) -> Body:
    """``above`` and ``other``: whether these are the picture."""
    b = BodyBuilder()
    x, level, high, low = (b.arg(kind) for _ in range(4))
    return b.build(b("select", b("gt", x, level), x if above else high, x if other else low))


@functools.cache
def _chosen(kind: DType, alone: bool) -> Body:
    b = BodyBuilder()
    x, mask = b.arg(kind), b.arg(DType.U8)
    other = b.const(0, kind) if alone else b.arg(kind)
    return b.build(b("select", b("ne", mask, b.const(0, DType.U8)), x, other))


@functools.cache
def _compared() -> Body:
    b = BodyBuilder()
    x, y = (b.cast(b.arg(DType.U8), DType.I16) for _ in range(2))
    level, high, low = (b.arg(DType.I16) for _ in range(3))
    return b.build(b.cast(b("select", b("gt", b("sub", x, y), level), high, low), DType.U8))


@functools.cache
def _weighted(a: np.dtype[Any], b: np.dtype[Any]) -> Body:
    return _in_f32((a, b), a, lambda code, x, y, alpha, beta, gamma: code("fma", x, alpha, code("fma", y, beta, gamma)))


@functools.cache
def _scaled(dtype: np.dtype[Any], kind: np.dtype[Any]) -> Body:
    return _in_f32((dtype,), kind, lambda code, x, low, scale, shift: code("fma", code("sub", x, low), scale, shift))


def _in_f32(pictures: Sequence[np.dtype[Any]], kind: np.dtype[Any], compute: Callable[..., int]) -> Body:
    """Pictures and three numbers of f32, computed with in f32 and rounded to ``kind``."""
    b = BodyBuilder()
    xs = [b.cast(b.arg(TYPES[dtype]), DType.F32) for dtype in pictures]
    found = compute(b, *xs, *(b.arg(DType.F32) for _ in range(3)))
    return b.build(found if kind == np.float32 else b.cast(b("round", found), TYPES[kind]))


def _mapped(body: Body, numbers: Array | None, pictures: Sequence[Array], kind: np.dtype[Any]) -> Array:
    pictures = [np.ascontiguousarray(picture) for picture in pictures]
    out = np.empty(pictures[0].shape, kind)
    if numbers is None:
        _call(body, len(pictures), 0, 0, out.size, thread_count())(*pictures, out)
    else:
        _call(body, len(pictures), len(numbers), numbers.itemsize, out.size, thread_count())(*pictures, numbers, out)
    return out


@functools.lru_cache(maxsize=KEPT)
def _call(body: Body, pictures: int, numbers: int, step: int, size: int, _threads: int) -> Call:
    spec = MapSpec.of(body, 1, ("1",) * pictures + ("0",) * numbers, ("1",))
    chunk = bands(size, size)
    moving: list[str | dict[str, int]] = [f"in{i}" for i in range(pictures)]
    if numbers:
        moving.append({f"in{pictures + i}": i * step for i in range(numbers)})
    moving.append("out0")
    return call_of(spec, {"extent0": size, "chunk": chunk}, moving, -(-size // chunk))
