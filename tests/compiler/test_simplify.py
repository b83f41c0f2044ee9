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
