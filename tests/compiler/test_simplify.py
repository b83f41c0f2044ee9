"""Scalar programs without detours: the same numbers, and what falls away."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.compiler.simplify import simplified
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder, body_of
from MNN.ops.quantized.quantization import saturated
from MNN.reference.scalar import evaluate


def there_and_back(dtype: DType, zero: int, again: int | None = None) -> Body:
    """An f32 quantised and restored, as QuantizeLinear and DequantizeLinear say."""

    def body(s: BodyBuilder, x: int) -> int:
        whole = saturated(s, s("mul", x, s.const(37.25, DType.F32)), zero, dtype)
        point = s.cast(s.const(zero if again is None else again, dtype), DType.I32)
        return s("mul", s.cast(s("sub", s.cast(whole, DType.I32), point), DType.F32), s.const(0.03125, DType.F32))

    return body_of([DType.F32], body)


def ops(body: Body) -> list[str]:
    return [i.op for i in body.code if i.op not in ("arg", "const")]


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.U16, DType.I16], ids=lambda d: d.value)
@pytest.mark.parametrize("zero", [0, 5, 127])
def test_quantised_and_restored(dtype: DType, zero: int) -> None:
    before = there_and_back(dtype, zero)
    after = simplified(before)
    assert ops(after) == ["mul", "max", "min", "round", "mul"]
    x = np.random.default_rng(0).normal(size=3000).astype(np.float32) * np.float32(50)
    x[:6] = [np.inf, -np.inf, 0, 1e30, -1e30, 0.5 / 37.25]
    np.testing.assert_array_equal(evaluate(after, [x])[0], evaluate(before, [x])[0])


def test_another_zero_point_is_kept() -> None:
    after = simplified(there_and_back(DType.U16, 7, 9))
    assert "sub" in ops(after)
    x = np.linspace(-3, 3, 500, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(after, [x])[0], evaluate(there_and_back(DType.U16, 7, 9), [x])[0])


def test_narrowing_that_wraps_is_kept() -> None:
    def wraps(s: BodyBuilder, x: int) -> int:
        bounded = s("min", s("max", x, s.const(-300, DType.F32)), s.const(300, DType.F32))
        byte = s.cast(s.cast(s("round", bounded), DType.I32), DType.U8)
        return s.cast(s.cast(byte, DType.I32), DType.F32)

    body = body_of([DType.F32], wraps)
    assert simplified(body).code == body.code
    unbounded = body_of([DType.F32], lambda s, x: s.cast(s.cast(s("round", x), DType.I32), DType.F32))
    assert simplified(unbounded).code == unbounded.code  # 3e9 saturates


def test_what_nothing_needs_falls_away_and_operands_stay() -> None:
    s = BodyBuilder()
    x, y = s.arg(DType.F32), s.arg(DType.F32)
    s("exp", y)
    body = s.build(s("round", x))
    after = simplified(body)
    assert after.args == body.args
    assert ops(after) == ["round"]


@pytest.mark.parametrize("seed", range(12))
def test_bounds_that_rounding_cannot_reach_fall_away(seed: int) -> None:
    """Behind an activation with bounds, in steps of any size: the same numbers with fewer bounds."""
    rng = np.random.default_rng(seed)
    low, high = (0.0, 6.0) if seed % 2 else (-1.0, 1.0)
    most = high / 32767 * (1.0, rng.uniform(0.3, 0.99), rng.uniform(1.01, 3))[seed % 3]
    inverse = np.float32(1 / most)

    def quantised(s: BodyBuilder, x: int) -> int:
        x = s("min", s("max", x, s.const(low, DType.F32)), s.const(high, DType.F32))
        whole = saturated(s, s("mul", x, s.const(float(inverse), DType.F32)), 0, DType.I16)
        return s("mul", s.cast(s.cast(whole, DType.I32), DType.F32), s.const(most, DType.F32))

    before = body_of([DType.F32], quantised)
    after = simplified(before)
    bounds = sum(op in ("min", "max") for op in ops(after))
    if seed % 3 != 1:  # the largest number is no more than 32767 steps
        assert bounds == 2
    else:
        assert bounds == 4 - (low == 0)
    x = (rng.normal(size=4000) * 4).astype(np.float32)
    x[:8] = [np.inf, -np.inf, 0, 1e30, -1e30, low, high, np.nan]
    edges = np.float32(high) - np.arange(20, dtype=np.float32) * np.float32(most / 4)
    x[8:28] = edges
    np.testing.assert_array_equal(evaluate(after, [x])[0][8:], evaluate(before, [x])[0][8:])
    np.testing.assert_array_equal(evaluate(after, [x[:7]])[0], evaluate(before, [x[:7]])[0])


def test_bounds_of_bytes_are_kept() -> None:
    body = body_of([DType.U8], lambda s, x: saturated(s, s.cast(x, DType.F32), 0, DType.U8))
    assert [op for op in ops(simplified(body)) if op in ("min", "max")] == ["max", "min"]


def test_bounds_that_sums_are_rounded_up_to_are_kept() -> None:
    """3.08 + 2.51, times a step, is less than 32767.5, and is that in f32: rounded to even it would be -32768."""
    most, more, step = (float(np.float32(n)) for n in (3.0769203, 2.5064316, 5868.786))

    def quantised(s: BodyBuilder, x: int) -> int:
        x = s("min", s("max", x, s.const(0.0, DType.F32)), s.const(most, DType.F32))
        x = s("add", x, s.const(more, DType.F32))
        return saturated(s, s("mul", x, s.const(step, DType.F32)), 0, DType.I16)

    before, x = body_of([DType.F32], quantised), np.array([-1, 1, 3, most, 10], np.float32)
    after = simplified(before)
    np.testing.assert_array_equal(evaluate(after, [x])[0], evaluate(before, [x])[0])
