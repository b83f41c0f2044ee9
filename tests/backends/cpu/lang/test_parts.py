"""f32 kept as two bf16 (``BF16X2``): loads, stores, products on tiles and windows, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.layout import Layout, direct_layout, rows_layout, tall_layout, window_layout
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.codegen.overlay import fits
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from MNN.ir.scalar import BodyBuilder, body_of
from tests.backends.cpu import parted, util
from tests.backends.cpu.amx.test_tiles import WINDOWS, assert_close, contract, windows

F32, PARTS = DType.F32, DType.BF16X2
TARGETS = pytest.mark.parametrize("target", util.TARGETS[-2:], ids=lambda t: t.name)
SPECIAL = (0.0, -0.0, 1e-30, 1.0, -1.00390625, 65504.0, 3.39e38, -3.4e38, np.inf, -np.inf, np.nan, 1e-45)


def converted(x: np.ndarray, source: DType, to: DType, target: Target) -> np.ndarray:
    out = parted.empty(*x.shape)
    spec = MapSpec(body_of([source], lambda b, v: b.cast(v, to)), 2, ("1",), ("1",))
    slots = {"extent0": x.shape[0], "extent1": x.shape[1], "chunk": 64, "in0": x.ctypes.data, "out0": out.ctypes.data}
    slots |= {"in0_s0": x.shape[1], "out0_s0": x.shape[1]}
    util.call(spec, target, slots, x.shape[0] * -(-x.shape[1] // 64), [x, out], checked=True)
    return out


@pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
def test_conversion(target: Target) -> None:
    x = np.random.default_rng(0).normal(size=(3, 96)).astype(np.float32) * 100
    x[1, : len(SPECIAL)] = SPECIAL
    there = converted(x, F32, PARTS, target)
    wanted = parted.encode(x)
    normal = np.isfinite(x) & (np.abs(x) > 1e-37)
    for found in (parted.decode(there), converted(wanted, PARTS, F32, target).astype(np.float64)):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
        np.testing.assert_array_equal(found[np.isinf(x)], x[np.isinf(x)])
        exact = x[normal].astype(np.float64)
        assert (np.abs(found[normal] - exact) <= parted.ERROR * np.abs(exact)).all()
        assert (np.abs(found)[~normal & np.isfinite(x)] < 1e-37).all()


@TARGETS
@pytest.mark.parametrize(
    ("m", "n", "k", "mb", "chunk"), [(16, 20, 32, 32, 0), (45, 70, 96, 32, 0), (70, 100, 128, 32, 64)]
)
@pytest.mark.parametrize("direct", [False, True])
def test_products_of_rows_in_parts(target: Target, m: int, n: int, k: int, mb: int, chunk: int, direct: bool) -> None:
    rng = np.random.default_rng(m * n + k)
    a, b = rng.uniform(-1, 1, (1, m, k + 32)), rng.uniform(-1, 1, (1, k, n)).astype(np.float32)
    rows = np.arange(m) * (k + 32) + 32
    layout = direct_layout(rows, k, mb, chunk, 2) if direct else rows_layout(rows, np.zeros(1, np.int64), k, mb, chunk)
    assert layout is not None
    assert layout.direct == direct
    left = parted.encode(a)
    found = contract(AmxSpec(PARTS, F32, 2, direct=direct), target, layout, left, b, m, 64, checked=True)
    assert_close(found, a[:, :, 32:], b.astype(np.float64), 2)


@TARGETS
def test_rows_within_a_border(target: Target) -> None:
    """Tiles also take what lies between the lines; its results are not stored."""
    rng, (high, wide), k, n = np.random.default_rng(4), (5, 17), 64, 40
    a, b = rng.uniform(-1, 1, (1, high + 2, wide + 2, k)), rng.uniform(-1, 1, (1, k, n)).astype(np.float32)
    rows = ((np.arange(high) + 1)[:, None] * (wide + 2) + np.arange(wide) + 1).reshape(-1) * k
    for mb in (32, 64, 128):
        layout = direct_layout(rows, k, mb, 0, 2)
        assert layout is not None
        spec = AmxSpec(PARTS, F32, 2, direct=True)
        found = contract(spec, target, layout, parted.encode(a), b, rows.size, 64, checked=True)
        left = a[:, 1:-1, 1:-1].reshape(1, -1, k)
        assert_close(found, left, b.astype(np.float64), 2)


@TARGETS
def test_tall_sums_and_windows_of_parts(target: Target) -> None:
    w, a, left, b = windows(WINDOWS[0], 0)
    layout: Layout = window_layout(w, 2)
    found = contract(AmxSpec(PARTS, F32, 2), target, layout, parted.encode(a.reshape(2, -1)), b, left.shape[1], 64)
    assert_close(found, left, b.astype(np.float64), 2)
    rng, m, k, n = np.random.default_rng(8), 49, 320, 40
    x, y = rng.uniform(-1, 1, (1, m, k)), rng.uniform(-1, 1, (1, k, n)).astype(np.float32)
    tall = tall_layout(rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64), 4)
    found = contract(AmxSpec(PARTS, F32, 2, tall=True), target, tall, parted.encode(x), y, m, 64, checked=True)
    assert_close(found, x, y.astype(np.float64), 2)


@TARGETS
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("costly", [False, True])
def test_results_and_residuals_in_parts(target: Target, overlap: bool, costly: bool) -> None:
    rng, m, n, k = np.random.default_rng(2), 70, 96, 64
    a, b = rng.uniform(-1, 1, (1, m, k)).astype(np.float32), rng.uniform(-1, 1, (1, k, n)).astype(np.float32)
    residual = rng.uniform(-1, 1, (1, m, n))

    def finish(e: BodyBuilder, x: int, r: int) -> int:
        total = e("add", x, e.cast(r, F32))
        return e.cast(e("tanh", total) if costly else total, PARTS)

    body = body_of([F32, PARTS], finish)
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64)
    spec = AmxSpec(F32, PARTS, 2, body, ("mn",), overlap=overlap)
    found = parted.decode(contract(spec, target, layout, a, b, m, 64, (parted.encode(residual),), checked=True))
    exact = a.astype(np.float64) @ b + residual
    allowed = 2.0**-15 * (np.abs(a) @ np.abs(b) + np.abs(residual))
    assert (np.abs(found - (np.tanh(exact) if costly else exact)) <= allowed).all()


@TARGETS
@pytest.mark.parametrize("op", ["dot", "max", "sum"])
def test_windows_over_parts(target: Target, op: str) -> None:
    rng, (side, c) = np.random.default_rng(6), (6, 64)
    x, w = rng.uniform(-1, 1, (side, side, c)), rng.uniform(-1, 1, (9, c)).astype(np.float32)
    y, inside, out = parted.empty(side - 2, side - 2, c), parted.encode(x), side - 2
    lines = np.arange(out, dtype=np.int32) * side * c, np.arange(out, dtype=np.int32) * out * c
    body = body_of([F32], lambda b, v: b.cast(v, PARTS))
    spec = WindowSpec(PARTS, F32, PARTS, op, 3, 1, 1, 2, body)
    arrays = {"x": inside, "w": w, "y": y, "lines_x": lines[0], "lines_y": lines[1]}
    slots = {name: a.ctypes.data for name, a in arrays.items()}
    slots |= {"n_lines": out, "kh": 3, "row_x": side * c, "step_x": c, "step_y": c, "ow": out, "c": c}
    util.call(spec, target, slots | {"lines_per_block": 2}, 2, list(arrays.values()), checked=True)
    seen = np.lib.stride_tricks.sliding_window_view(parted.decode(inside), (3, 3), (0, 1)).reshape(out, out, c, 9)
    wanted = {"dot": (seen * w.T).sum(-1), "max": seen.max(-1), "sum": seen.sum(-1)}[op]
    np.testing.assert_allclose(parted.decode(y), wanted, rtol=0, atol=2.0**-15 * np.abs(seen).sum(-1).max())


def test_results_take_the_place_of_operands_of_their_type_only() -> None:
    assert fits(PARTS, PARTS)
    assert fits(F32, F32)
    assert not fits(F32, PARTS)
    assert not fits(PARTS, F32)


def test_what_is_no_neighbour_is_refused() -> None:
    with pytest.raises(ValueError, match="neighbours"):
        MapSpec(body_of([PARTS], lambda b, v: b.cast(v, F32)), 1, ("s",), ("1",)).emit(util.TARGETS[-1])


def test_other_numbers_of_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="parts"):
        AmxSpec(PARTS, F32, 3)
