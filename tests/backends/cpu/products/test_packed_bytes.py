"""Results of 8 bits packed several vectors at a time: which ends of bodies are such, and products with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot8 import moved, pack_dot4
from MNN.backends.cpu.products.packed_bytes import fits, saturated_end
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ops.quantized.quantization import saturated
from tests.backends.cpu import util
from tests.backends.cpu.gemm.test_int8 import ALL
from tests.pairs import pairs

I32, F32, U8, I8 = DType.I32, DType.F32, DType.U8, DType.I8


def requantised(zero: int, dtype: DType, factor: float, least: float | None = None) -> Body:
    """``saturate(round((sum + n) * factor) + zero)``, with another bound from below."""

    def build(s, total: int, bias: int) -> int:  # type: ignore[no-untyped-def]
        q = s("mul", s.cast(s("add", total, bias), F32), s.const(factor, F32))
        if least is not None:
            q = s("max", q, s.const(least, F32))
        return saturated(s, q, zero, dtype)

    return body_of([I32, I32], build)


def test_ends_that_packing_bounds() -> None:
    for dtype, zero in ((U8, 0), (U8, 255), (U8, 7), (I8, 0), (I8, -128), (I8, 127)):
        end = saturated_end(requantised(zero, dtype, 0.01))
        assert end is not None
        assert (end.zero, end.dtype) == (zero, dtype)
        assert end.most == np.iinfo(dtype.numpy).max - zero
    assert saturated_end(None) is None
    assert saturated_end(body_of([I32], lambda s, x: s.cast(x, U8))) is None  # wraps
    assert saturated_end(body_of([I32], lambda s, x: s.cast(s.cast(x, F32), U8))) is None  # truncates


def multiply(spec: ContractSpec, target: Target, a: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    (m, k), n, nr = a.shape, w.shape[1], spec.nr(target)
    c = np.full((m, n + 5), 7, spec.out.numpy)
    arrays = {
        "a": a, "b": pack_dot4(w, nr, k, moved(target, U8)), "c": c, "rows_a": (np.arange(m) * k).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 5)).astype(np.int32), "taps": np.zeros(1, np.int32),
        "batch": np.zeros((1, 4), np.int64), "op0": bias,
    }  # fmt: skip
    numbers = {
        "n_taps": 1, "k": k, "ldb": 4 * nr, "panel": arrays["b"].shape[-1], "m": m, "n": n, "n_batch": 1,
        "mb": m, "nb": nr, "ub": m,
    }  # fmt: skip
    slots = numbers | {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, 1, m, nr), list(arrays.values()), True)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n]


@pairs(target=ALL, dtype=[U8, I8], order=[("max", "min"), ("min", "max"), ("min",)])
def test_bytes_are_bounded_then(target: Target, dtype: DType, order: tuple[str, ...]) -> None:
    """An activation whose bounds are numbers of the result: upper one below the lower one, too."""
    rng = np.random.default_rng(5)
    a = rng.integers(0, 256, (7, 20)).astype(np.uint8)
    w = rng.integers(-128, 128, (20, 75)).astype(np.int8)
    bias = rng.integers(-(1 << 14), 1 << 14, 75).astype(np.int32)
    for numbers in ({"max": 5, "min": 55}, {"max": 100, "min": 2}, {"max": 90, "min": 127}):

        def bounded(s, total: int, own: int, numbers=numbers) -> int:  # type: ignore[no-untyped-def]
            q = s("mul", s.cast(s("add", total, own), F32), s.const(0.003, F32))
            made: int = saturated(s, q, 9, dtype)
            for op in order:
                made = s(op, made, s.const(numbers[op], dtype))
            return made

        body = body_of([I32, I32], bounded)
        assert saturated_end(body) is not None
        found = multiply(ContractSpec(U8, I8, I32, dtype, 2, 2, True, body, ("n",), 4), target, a, w, bias)
        q = (a.astype(np.int64) @ w.astype(np.int64) + bias).astype(np.float32) * np.float32(0.003)
        info = np.iinfo(dtype.numpy)
        expected = np.clip(np.rint(q.astype(np.float64)) + 9, info.min, info.max)
        for op in order:
            expected = (np.maximum if op == "max" else np.minimum)(expected, numbers[op])
        assert (found == expected).all()


@pairs(target=ALL, dtype=[U8, I8], order=[("max", "min"), ("min", "max")])
def test_whole_numbers_are_packed(target: Target, dtype: DType, order: tuple[str, ...]) -> None:
    """Ends that are integers all along: bounded in 32 bits, far outside of which sums lie."""
    rng = np.random.default_rng(6)
    a = rng.integers(0, 256, (7, 20)).astype(np.uint8)
    w = rng.integers(-128, 128, (20, 75)).astype(np.int8)
    bias = rng.integers(-(1 << 30), 1 << 30, 75).astype(np.int32) * (rng.random(75) < 0.3)
    info = np.iinfo(dtype.numpy)
    for low, high in ((int(info.min), int(info.max)), (10, 90), (60, 20)):
        ends = {"max": low, "min": high}

        def bounded(s, total: int, own: int, ends=ends) -> int:  # type: ignore[no-untyped-def]
            made = s("add", s("shr", s("add", total, own), s.const(7, I32)), s.const(9, I32))
            for op in order:
                made = s(op, made, s.const(ends[op], I32))
            made = s.cast(made, dtype)
            return int(s("min", made, s.const(80, dtype)))

        body = body_of([I32, I32], bounded)
        end = saturated_end(body)
        assert end is not None
        assert end.whole
        spec = ContractSpec(U8, I8, I32, dtype, 2, 2, True, body, ("n",), 4)
        found = multiply(spec, target, a, w, bias.astype(np.int32))
        expected = ((a.astype(np.int64) @ w.astype(np.int64) + bias) >> 7) + 9
        for op in order:
            expected = (np.maximum if op == "max" else np.minimum)(expected, ends[op])
        assert (found == np.minimum(expected, 80)).all()
    beyond = body_of([I32], lambda s, x: s.cast(s("min", s("max", x, s.const(0, I32)), s.const(300, I32)), U8))
    assert saturated_end(beyond) is None


@pairs(
    target=ALL, tile=[(3, 1), (2, 2), (2, 3), (2, 4)], result=[(U8, 0), (U8, 131), (I8, -128), (I8, 5)]
)  # fmt: skip
def test_products(target: Target, tile: tuple[int, int], result: tuple[DType, int]) -> None:
    """Sums far beyond what 8 bits, 16 bits and i32 hold on the way."""
    dtype, zero = result
    rng = np.random.default_rng(tile[1])
    a = rng.integers(0, 256, (7, 20)).astype(np.uint8)
    w = rng.integers(-128, 128, (20, 75)).astype(np.int8)
    bias = rng.integers(-(1 << 14), 1 << 14, 75).astype(np.int32)
    a[0], w[:, 3] = 255, 127
    for factor in (0.003, 7.0, 3e7, -3e7):
        for least in (None, 1.0):
            spec = ContractSpec(U8, I8, I32, dtype, *tile, True, requantised(zero, dtype, factor, least), ("n",), 4)
            total = (a.astype(np.int64) @ w.astype(np.int64) + bias).astype(np.float32) * np.float32(factor)
            total = total if least is None else np.maximum(total, np.float32(least))
            info = np.iinfo(dtype.numpy)
            expected = np.clip(np.rint(total.astype(np.float64)) + zero, info.min, info.max)
            assert (multiply(spec, target, a, w, bias) == expected).all()


def test_bounds_that_no_number_reaches() -> None:
    """Where scales are small, or numbers that are not constant may be anything."""

    def scaled(s, total: int, scale: int) -> int:  # type: ignore[no-untyped-def]
        return saturated(s, s("mul", s.cast(total, F32), scale), 3, U8)

    body = body_of([I32, F32], scaled)
    assert fits(body, {1: (-0.4, 0.2)})
    assert not fits(body, {1: (0.0, 1.0)})  # 2^31 becomes the least number
    assert not fits(body, {})
    assert not fits(None, {})
    end = saturated_end(body, fits=True)
    assert end is not None
    assert end.most is None
    lower = body_of([I32, F32], lambda s, x, y: s("min", scaled(s, x, y), s.const(100, U8)))
    assert fits(lower, {1: (0.0, 0.1)})
    assert saturated_end(lower) == replace(saturated_end(body), bounds=(("min", 100),))  # type: ignore[type-var]

    def cut(s, total: int, scale: int) -> int:  # type: ignore[no-untyped-def]
        q = s("mul", s.cast(total, F32), scale)
        q = s("min", s("max", q, s.const(0.0, F32)), s.const(100.0, F32))
        return s.cast(s.cast(s("round", q), I32), U8)

    end = saturated_end(body_of([I32, F32], cut), fits=True)
    assert end is not None
    assert end.most == 100.0  # a bound that the type does not have


@pairs(
    target=ALL, tile=[(3, 2), (2, 4), (6, 3), (5, 2)], m=[1, 6, 7, 20], columns=[0, -1, 5], k=[16, 20, 64],
    zero=[0, 9], small=[False, True],
)  # fmt: skip
def test_results_beside_products(
    target: Target, tile: tuple[int, int], m: int, columns: int, k: int, zero: int, small: bool
) -> None:
    """Some rows of a tile are finished while others take the last steps of their sums."""
    body = requantised(zero, U8, 0.003)
    spec = ContractSpec(U8, I8, I32, U8, *tile, True, body, ("n",), 4, beside=4, fits=small and fits(body, {}))
    assert spec.fits is small
    n, rng = 2 * spec.nr(target) + columns, np.random.default_rng(m * k)
    a, w = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    bias = rng.integers(-(1 << 14), 1 << 14, n).astype(np.int32)
    a[0], w[:, 1] = 255, 127
    total = (a.astype(np.int64) @ w.astype(np.int64) + bias).astype(np.float32) * np.float32(0.003)
    expected = np.clip(np.rint(total.astype(np.float64)) + zero, 0, 255)
    assert (multiply(spec, target, a, w, bias) == expected).all()
