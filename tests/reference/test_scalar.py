"""The numpy interpreter of scalar programs against hand-computed values."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.scalar import BodyBuilder, body_of
from MNN.reference.scalar import evaluate

I8, I32, U8, F32, F16 = DType.I8, DType.I32, DType.U8, DType.F32, DType.F16


def binary(op: str, dtype: DType, x: list[float], y: list[float]) -> list[float]:
    body = body_of([dtype, dtype], lambda b, p, q: b(op, p, q))
    return evaluate(body, [np.array(x, dtype.numpy), np.array(y, dtype.numpy)])[0].tolist()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("div", [-2, -2, 2, 0, -128]),
        ("rem", [-1, 1, -1, 0, 0]),
        ("floordiv", [-3, -3, 2, 0, -128]),
        ("mod", [2, -2, -1, 0, 0]),
    ],
)
def test_integer_division(op: str, expected: list[int]) -> None:
    assert binary(op, I8, [-7, 7, -7, 5, -128], [3, -3, -3, 0, -1]) == expected


def test_shifts_pow_and_wrap() -> None:
    assert binary("shl", I8, [1, 1, 1, 1], [6, 7, 8, -1]) == [64, -128, 0, 0]
    assert binary("shr", I8, [-8, -8, -8], [1, 7, 8]) == [-4, -1, 0]
    assert binary("shr", U8, [248, 248], [1, 8]) == [124, 0]
    assert binary("pow", I32, [2, -1, 1, 3, 0], [10, -3, -5, -1, 0]) == [1024, -1, 1, 0, 1]
    assert binary("add", U8, [250], [10]) == [4]


def test_float_to_integer_saturates() -> None:
    body = body_of([F32], lambda b, x: b.cast(x, I8))
    x = np.array([1.9, -1.9, 300, -300, np.nan, np.inf], np.float32)
    assert evaluate(body, [x])[0].tolist() == [1, -1, 127, -128, 0, 127]
    body = body_of([F32], lambda b, x: b.cast(x, DType.I64))
    assert evaluate(body, [x * np.float32(1e30)])[0].tolist()[2:] == [2**63 - 1, -(2**63), 0, 2**63 - 1]


def test_half_is_computed_in_single() -> None:
    # 2048 + 1 is not an f16 number, but the sum of three terms is rounded once at the end
    body = body_of([F16, F16], lambda b, x, y: b("add", b("add", x, y), y))
    x, y = np.array([2048], np.float16), np.array([1], np.float16)
    assert evaluate(body, [x, y])[0].tolist() == [2050]
    body = body_of([DType.BF16], lambda b, x: b("mul", x, x))
    out = evaluate(body, [np.array([3.0], ml_dtypes.bfloat16)])[0]
    assert out.dtype == ml_dtypes.bfloat16
    assert float(out[0]) == 9.0


def test_nan_sign_round_and_bool() -> None:
    assert np.isnan(binary("max", F32, [np.nan, 1], [1, np.nan])).all()
    assert evaluate(body_of([F32], lambda b, x: b("round", x)), [np.float32([0.5, 1.5, -2.5])])[0].tolist() == [
        0,
        2,
        -2,
    ]
    assert np.isnan(evaluate(body_of([F32], lambda b, x: b("sign", x)), [np.float32([np.nan])])[0][0])
    assert evaluate(body_of([F32], lambda b, x: b.cast(x, DType.BOOL)), [np.float32([0, -0.0, 2])])[0].tolist() == [
        False,
        False,
        True,
    ]


def test_row_program() -> None:
    b = BodyBuilder()
    x = b.arg(F32)
    from MNN.ir.scalar import Instr

    top = b._add(Instr("reduce.max", (x,), F32))
    e = b("exp", b("sub", x, top))
    total = b._add(Instr("reduce.sum", (e,), F32))
    data = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    soft, biggest = evaluate(b.build(b("div", e, total), top), [data])
    np.testing.assert_allclose(soft.sum(-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(biggest[:, 0], data.max(-1))


def test_transcendental_on_integers_is_an_error() -> None:
    with pytest.raises(TypeError, match="exp"):
        evaluate(body_of([I32], lambda b, x: b("exp", x)), [np.zeros(1, np.int32)])


@pytest.mark.parametrize("dtype", [F32, F16, DType.BF16, I32, DType.BOOL])
@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (0, 2)])
def test_results_are_new_row_major_arrays(dtype: DType, shape: tuple[int, ...]) -> None:
    """Also what is passed on as it is, named twice, broadcast, or computed from operands in another order."""
    b = BodyBuilder()
    x, y = b.arg(dtype), b.arg(dtype)
    total = b("add", x, y)
    body = b.build(x, total, total, x, y)
    numbers = np.random.default_rng(len(shape)).integers(0, 2, shape[::-1]).astype(dtype.numpy)
    given = [numbers.T, np.ones((), dtype.numpy)]
    for operands in (given, [given[0], given[0]]):
        before = [a.copy() for a in operands]
        results = evaluate(body, operands)
        for i, found in enumerate(results):
            assert found.shape == shape
            assert found.dtype == dtype.numpy
            assert found.flags.c_contiguous
            assert found.flags.writeable
            assert not any(np.shares_memory(found, other) for other in [*operands, *results[:i]])
        np.testing.assert_array_equal(results[0], before[0])
        np.testing.assert_array_equal(results[4], np.broadcast_to(before[1], shape))


def test_fma_rounds_once() -> None:
    """Against rational numbers: among f32 neighbours the nearest, and the even one of two that are as near."""
    rng = np.random.default_rng(8)
    count = 3000
    x, y = (rng.integers(1, 1 << 24, count).astype(np.float32) for _ in range(2))
    z = -(x * y) * np.float32(2) ** rng.integers(-30, 2, count).astype(np.float32)
    z[::3] = np.ldexp(np.float32(1), rng.integers(-20, 70, len(z[::3]))).astype(np.float32)
    body = body_of([F32, F32, F32], lambda b, p, q, r: b("fma", p, q, r))
    found = evaluate(body, [x, y, z])[0]
    assert found.dtype == np.float32
    for each in zip(x, y, z, found, strict=True):
        p, q, r, value = (Fraction(float(v)) for v in each)
        near = np.float32(value)
        others = [np.nextafter(near, np.float32(s * np.inf), dtype=np.float32) for s in (-1, 1)]
        best = min((near, *others), key=lambda c: (abs(Fraction(float(c)) - (p * q + r)), int(c.view(np.int32)) & 1))
        assert best == near, each
    special = evaluate(body, [np.float32([np.inf, 1, 3e38]), np.float32([0, np.inf, 3e38]), np.float32([1, 1, 1])])[0]
    assert np.isnan(special[0])
    assert special[1:].tolist() == [np.inf, np.inf]
