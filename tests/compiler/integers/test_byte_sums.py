"""Sums of two quantised tensors in two multiplications: the same byte for every pair of integers."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.compiler.integers.byte_sums import with_short_sums
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder, body_of
from MNN.ops.quantized.quantization import saturated
from MNN.reference.scalar import evaluate

F32, I32, U8, I8 = DType.F32, DType.I32, DType.U8, DType.I8
Point = tuple[float, int]
"""A scale and a zero point."""


def restored(s: BodyBuilder, whole: int, point: Point) -> int:
    """``(integer - zero) * scale`` of an integer whose zero point may be taken off already (``whole`` is f32)."""
    if s.dtype(whole) is not F32:
        whole = s.cast(s("sub", s.cast(whole, I32), s.const(point[1], I32)), F32)
    return s("mul", whole, s.const(point[0], F32))


def residual(dtype: DType, product: Point, other: Point, out: Point) -> Body:
    """What follows the sums of a convolution: quantised, restored, added to bytes, and quantised again."""
    low = int(np.iinfo(dtype.numpy.str).min)

    def build(s: BodyBuilder, total: int, byte: int) -> int:
        q = s("mul", s.cast(total, F32), s.const(0.037, F32))
        bounds = (s.const(float(low - product[1] + most), F32) for most in (0, 255))
        q = s("round", s("min", s("max", q, next(bounds)), next(bounds)))
        both = s("add", restored(s, q, product), restored(s, byte, other))
        return saturated(s, s("div", both, s.const(out[0], F32)), out[1], dtype)

    return body_of([I32, dtype], build)


def points(rng: np.random.Generator, dtype: DType, count: int) -> list[Point]:
    info = np.iinfo(dtype.numpy.str)
    ends = (info.min, 0, info.max)
    zeros = [
        int(rng.choice(ends)) if rng.random() < 0.4 else int(rng.integers(info.min, info.max)) for _ in range(count)
    ]
    return [(float(np.float32(np.exp(rng.normal() * 0.7 - 4))), zero) for zero in zeros]


def bytes_of(product: Point, other: Point, out: Point, dtype: DType, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """ONNX's DequantizeLinear, Add and QuantizeLinear in numpy."""
    info = np.iinfo(dtype.numpy.str)
    first, second = (
        (x.astype(np.float32) - np.float32(zero)) * np.float32(scale) for x, (scale, zero) in ((u, product), (v, other))
    )
    whole = np.rint((first + second) / np.float32(out[0])) + out[1]
    return np.clip(whole, info.min, info.max).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [U8, I8], ids=lambda d: d.value)
def test_every_pair_of_integers_gives_the_byte_it_gave(dtype: DType) -> None:
    rng, found = np.random.default_rng(0), 0
    info = np.iinfo(dtype.numpy.str)
    for _ in range(10):
        product, other, out = points(rng, dtype, 3)
        before = residual(dtype, product, other, out)
        after = with_short_sums(before)
        if after is before:
            continue
        found += 1
        assert len(after.code) < len(before.code)
        u, v = (x.ravel() for x in np.meshgrid(*[np.arange(info.min, info.max + 1)] * 2, indexing="ij"))
        total = np.rint((u - product[1]) / 0.037).astype(np.int32)
        assert (np.rint(total.astype(np.float32) * np.float32(0.037)) == u - product[1]).all()
        args = [total, v.astype(dtype.numpy)]
        np.testing.assert_array_equal(evaluate(after, args)[0], bytes_of(product, other, out, dtype, u, v))
    assert found >= 8, "hardly ever found"


def test_ties_of_scales_that_are_multiples_of_each_other() -> None:
    for scales in ((1.0, 1.0, 2.0), (0.5, 0.25, 0.5), (3.0, 1.0, 2.0), (1.0, 1.0, 1.0)):
        product, other, out = ((s / 64, z) for s, z in zip(scales, (128, 3, 7), strict=True))
        before = residual(U8, product, other, out)
        after = with_short_sums(before)
        assert after is not before, scales
        rng = np.random.default_rng(1)
        args = [rng.integers(-9000, 9000, 50000, np.int32), rng.integers(0, 256, 50000).astype(np.uint8)]
        np.testing.assert_array_equal(evaluate(after, args)[0], evaluate(before, args)[0])


def test_what_is_no_sum_of_two_stays() -> None:
    def three(s: BodyBuilder, x: int, y: int, z: int) -> int:
        total = s("add", s("add", restored(s, x, (0.1, 3)), restored(s, y, (0.2, 0))), restored(s, z, (0.3, 9)))
        return saturated(s, total, 0, U8)

    def product(s: BodyBuilder, x: int, y: int) -> int:
        return saturated(s, s("mul", restored(s, x, (0.1, 3)), restored(s, y, (0.2, 0))), 0, U8)

    def rectified(s: BodyBuilder, x: int, y: int) -> int:
        left = s("max", restored(s, x, (0.1, 3)), s.const(0.0, F32))
        return saturated(s, s("add", left, restored(s, y, (0.2, 0))), 0, U8)

    def sum_of_two(s: BodyBuilder, x: int, y: int) -> int:
        return saturated(s, s("add", restored(s, x, (0.1, 3)), restored(s, y, (0.2, 0))), 0, U8)

    def tiny(s: BodyBuilder, x: int, y: int) -> int:
        return saturated(s, s("add", restored(s, x, (1e-9, 3)), restored(s, y, (0.2, 0))), 0, U8)

    for count, build in ((3, three), (2, product), (2, rectified), (2, tiny)):
        body = body_of([U8] * count, build)
        assert with_short_sums(body) is body
    assert with_short_sums(body_of([U8, U8], sum_of_two)) is not body_of([U8, U8], sum_of_two)
    words = body_of([U8, DType.I16], sum_of_two)
    assert with_short_sums(words) is words
