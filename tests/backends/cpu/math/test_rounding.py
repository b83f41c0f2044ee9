"""Floats to integers: saturation at the ends of every type, and bounds of scalar programs."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.codegen.toolchain import assembly
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.intervals import intervals
from MNN.ir.scalar import BodyBuilder, body_of
from MNN.reference.scalar import evaluate
from tests.backends.cpu.loops.test_map_nest import INTS, run_map
from tests.backends.cpu.util import TARGETS


def ends(source: DType, to: DType) -> np.ndarray:
    """Both ends of an integer type in floats, their neighbours, and what is no number."""
    info, kind = np.iinfo(to.numpy.name), source.numpy
    points = [np.array(v, kind) for v in (info.min, info.max, 0, 0.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan)]
    around = [np.nextafter(p, np.array(d, kind)) for p in points for d in (-np.inf, np.inf)]
    return np.tile(np.array([*points, *around], kind), 3)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("to", INTS, ids=lambda d: d.value)
@pytest.mark.parametrize("source", [DType.F32, DType.F64], ids=lambda d: d.value)
def test_ends_of_types(source: DType, to: DType, target: Target) -> None:
    x, body = ends(source, to), body_of([source], lambda b, v: b.cast(v, to))
    found = np.zeros(x.shape, to.numpy)
    run_map(body, [x], [found], target, x.size)
    np.testing.assert_array_equal(found, evaluate(body, [x])[0])


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("to", [DType.U8, DType.I8, DType.U16, DType.I16], ids=lambda d: d.value)
def test_ends_of_types_to_the_nearest(to: DType, target: Target) -> None:
    info = np.iinfo(to.numpy.name)
    halves = np.array([info.min - 0.5, info.min + 0.5, 1.5, 2.5, info.max - 0.5, info.max + 0.5, 3e9, -3e9], np.float32)
    x = np.concatenate([ends(DType.F32, to), np.tile(halves, 5)])
    body = body_of([DType.F32], lambda b, v: b.cast(b("round", v), to))
    found = np.zeros(x.shape, to.numpy)
    run_map(body, [x], [found], target, x.size)
    np.testing.assert_array_equal(found, evaluate(body, [x])[0])


def test_bytes_are_packed_by_what_saturates() -> None:
    body = body_of([DType.F32], lambda b, v: b.cast(b("round", v), DType.U8))
    for target in TARGETS:
        text = assembly(MapSpec(body, 1, ("1",), ("1",)).emit(target), target)
        assert target.family != "x86" or ("packuswb" in text or "vpmovusdb" in text)
        assert "vroundps" not in text


def test_conversions_stay_in_vectors() -> None:
    for target in TARGETS:
        spec = MapSpec(body_of([DType.F32], lambda b, v: b.cast(v, DType.U8)), 1, ("1",), ("1",))
        assert target.family != "x86" or "cvttss2si" not in assembly(spec.emit(target), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.U16, DType.I16], ids=lambda d: d.value)
def test_rounding_around_a_zero_point_that_is_an_operand(dtype: DType, target: Target) -> None:
    from MNN.ops.quantized.quantization import saturated_around

    body = body_of([DType.F32, dtype], lambda b, q, z: saturated_around(b, q, z, dtype))
    info = np.iinfo(dtype.numpy.name)
    q = np.random.default_rng(1).normal(size=(6, 61)).astype(np.float32) * info.max
    q[:, :8] = [0.5, 1.5, -2.5, np.inf, -np.inf, 1e30, -1e30, 0]
    zero = np.array([info.min, info.max, 0, 1, 7, info.max // 2], dtype.numpy)[:, None]
    found = np.zeros(q.shape, dtype.numpy)
    run_map(body, [q, np.broadcast_to(zero, q.shape)], [found], target, 61)
    wanted = np.clip(np.round(q.astype(np.float64)) + zero, info.min, info.max)
    np.testing.assert_array_equal(found, wanted.astype(dtype.numpy))


def test_intervals() -> None:
    b = BodyBuilder()
    x, z = b.arg(DType.F32), b.arg(DType.U8)
    shift = b.cast(z, DType.F32)
    low, high = b("neg", shift), b("sub", b.const(255, DType.F32), shift)
    inside = b("min", b("max", x, low), high)
    whole = b("round", inside)
    wraps = b("add", z, z)
    code = b.build(whole, wraps).code
    found = intervals(code)
    assert found[x] == (-np.inf, np.inf)
    assert found[low] == (-255, 0)
    assert found[high] == (0, 255)
    assert found[inside] == found[whole] == (-255, 255)
    assert found[wraps] == (0, 255)
    half = body_of(
        [DType.F32],
        lambda s, v: s.cast(s("min", s("max", v, s.const(4.5, DType.F32)), s.const(7.5, DType.F32)), DType.I32),
    )
    assert intervals(half.code)[-1] == (0, 8)  # NaN gives 0
    low, high = intervals(body_of([DType.I64], lambda s, v: s.cast(v, DType.F32)).code)[-1]
    assert (low, high) == (-np.inf, np.inf)
    whole = body_of([DType.I32], lambda s, v: s.cast(s.cast(v, DType.F32), DType.I32))
    low, high = intervals(whole.code)[1]
    assert low <= -(2.0**31)
    assert 2.0**31 <= high < 2.0**31 + 1e3  # 2^31 - 1 is rounded up
    assert intervals(whole.code)[-1] == (-(2**31), 2**31 - 1)


def test_intervals_of_products() -> None:
    """With what is known of arguments, and never less than what rounding makes of them."""
    rng = np.random.default_rng(5)
    code = body_of([DType.F32] * 3, lambda s, x, y, z: s("fma", s("mul", x, y), y, z)).code
    for _ in range(200):
        ends = np.sort(rng.normal(0, 10.0 ** rng.integers(-3, 4), (3, 2)).astype(np.float32), axis=1)
        low, high = intervals(code, {i: (float(a), float(b)) for i, (a, b) in enumerate(ends)})[-1]
        x, y, z = np.meshgrid(*ends)
        with np.errstate(over="ignore"):
            found = (x * y).astype(np.float64) * y + z
            found = found.astype(np.float32)
        assert low <= found.min()
        assert found.max() <= high
    assert intervals(code, {0: (1, 2), 1: (0, 1)})[-1] == (-np.inf, np.inf)
