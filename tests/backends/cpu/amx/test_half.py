"""Products on tiles of two fp16 parts, against numpy in float64: as exact as fp32, at every scale of the numbers."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.amx.layout import joined_layout, rows_layout, tall_layout, window_layout
from MNN.backends.cpu.amx.lines import line_layout, lines_of
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu.amx import test_tiles as test_amx
from tests.backends.cpu.amx.test_tiles import LINES, TARGETS, WINDOWS, contract, windows

F32 = DType.F32
HALF = AmxSpec(F32, F32, 2, half=True)
BOUND = 2.0**-21.4
"""Largest error relative to the sum of absolute products, apart from that of summing in f32."""


def assert_exact(found: np.ndarray, left: np.ndarray, right: np.ndarray, bound: float = BOUND) -> None:
    allowed = (bound + 1e-7) * (np.abs(left) @ np.abs(right)) + 1e-37
    worst = np.abs(found - left @ right) / allowed
    assert worst.max() <= 1, f"{worst.max()} at {np.unravel_index(worst.argmax(), worst.shape)}"


def check(
    target: Target, m: int, n: int, k: int, a: np.ndarray, b: np.ndarray, mb: int = 64, chunk: int = 0,
    tall: bool = False, nb: int = 64,
) -> None:  # fmt: skip
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, mb, chunk)
    layout = tall_layout(layout, 4) if tall else layout
    spec = dataclasses.replace(HALF, tall=tall)
    for checked in (False, True):
        found = contract(spec, target, layout, a, b, m, nb, checked=checked)
        assert_exact(found, a.astype(np.float64), b.astype(np.float64))


def numbers(*shape: int, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) * scale).astype(np.float32)


@TARGETS
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (16, 16, 32), (17, 33, 31), (32, 48, 64), (70, 20, 33), (100, 100, 7), (49, 64, 130)]
)
@pytest.mark.parametrize("scale", [1.0, 3e-9, 2e12], ids=str)
def test_matrix_product(target: Target, m: int, n: int, k: int, scale: float) -> None:
    check(target, m, n, k, numbers(2, m, k, scale=scale), numbers(2, k, n, scale=1 / scale), mb=32)
    check(target, m, n, k, numbers(2, m, k, scale=scale), numbers(2, k, n, scale=scale))


@TARGETS
def test_every_block_and_panel_has_a_scale_of_its_own(target: Target) -> None:
    a, b = numbers(2, 70, 100), numbers(2, 100, 90)
    a[:, 32:] *= 1e8
    a[1] *= 1e-12
    b[:, :, 32:64] *= 1e-10
    for chunk in (0, 32):
        check(target, 70, 90, 100, a, b, mb=32, chunk=chunk)
    check(target, 70, 90, 100, a, b, tall=True, mb=32)


@TARGETS
def test_numbers_of_all_sizes_beside_each_other(target: Target) -> None:
    """Down to 2^-18 of the largest as exact as elsewhere, below to within 2^-40 of it."""
    m, n, k = 40, 33, 64
    rng = np.random.default_rng(3)
    a, b = (numbers(*s) * np.exp2(rng.uniform(-14, 0, s)).astype(np.float32) for s in ((1, m, k), (1, k, n)))
    check(target, m, n, k, a, b)
    a[0, 0] = 0
    a[0, 0, 0] = 2.0**-30 * np.abs(a).max()
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64)
    found = contract(HALF, target, layout, a, b, m, 64)[0, 0]
    wanted = a[0, 0].astype(np.float64) @ b[0]
    assert np.abs(found - wanted).max() <= 2.0**-39 * np.abs(a).max() * np.abs(b).max()


@TARGETS
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_windows(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 1)
    layout = window_layout(w, int(case[-1]))  # type: ignore[call-overload]
    found = contract(dataclasses.replace(HALF, ahead=2), target, layout, a[None], b, left.shape[1], 64, checked=True)
    assert_exact(found, left, b.astype(np.float64))


@TARGETS
@pytest.mark.parametrize("case", LINES, ids=str)
def test_tiles_from_lines(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 0)
    layout = line_layout(lines_of(w), int(case[-1]))  # type: ignore[call-overload]
    found = contract(dataclasses.replace(HALF, lines=True), target, layout, a[None], b, left.shape[1], 64, checked=True)
    assert_exact(found, left, b.astype(np.float64))


@TARGETS
def test_rows_joined_from_lines(target: Target) -> None:
    c, kernel, width, n = 5, 9, 40, 33
    a, b = numbers(1, width, width, c, scale=1e5), numbers(1, kernel * kernel * c, n)
    side = width - kernel + 1
    rows = (np.arange(side)[:, None] * width * c + np.arange(side) * c).reshape(-1)
    layout = joined_layout(rows, np.arange(kernel) * width * c, kernel * c, 96)
    assert layout is not None
    at = np.lib.stride_tricks.sliding_window_view(a[0], (kernel, kernel), (0, 1))
    left = at.transpose(0, 1, 3, 4, 2).reshape(1, side * side, -1).astype(np.float64)
    found = contract(dataclasses.replace(HALF, joined=True), target, layout, a, b, side * side, 64, checked=True)
    assert_exact(found, left, b.astype(np.float64))


@TARGETS
@pytest.mark.parametrize("overlap", [False, True], ids=["after", "between"])
@pytest.mark.parametrize("tall", [False, True], ids=["pairs", "tall"])
def test_epilogue(target: Target, tall: bool, overlap: bool) -> None:
    m, n, k = 60, 183, 200
    body = body_of([F32] * 2, lambda b, s, x: b("add", s, x))
    a, b, x = numbers(1, m, k, scale=1e-6), numbers(1, k, n, scale=1e3), numbers(1, n)
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64)
    layout = tall_layout(layout, 4) if tall else layout
    spec = dataclasses.replace(HALF, epilogue=body, operands=("n",), overlap=overlap, tall=tall)
    found = contract(spec, target, layout, a, b, m, 96, (x,), checked=True)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b + x[:, None], rtol=0, atol=1e-6)


@TARGETS
def test_special_values_give_what_fp32_gives(target: Target) -> None:
    """One product per result, with a small one beside it; every pair alone, as it has scales of its own."""
    largest = float(np.finfo(np.float32).max)
    few = [0.0, 1.0, 1.5, 1 / 3, 1e10, 1e30, largest, np.inf]
    values = np.array([*few, *(-x for x in few), np.nan], np.float32)
    layout = rows_layout(np.zeros(1, np.int64), np.zeros(1, np.int64), 2, 16)
    small = 1e-30
    for x, y in itertools.product(values, values):
        a, b = np.array([[[x, small]]], np.float32), np.array([[[y], [small]]], np.float32)
        found = contract(HALF, target, layout, a, b, 1, 32)[0, 0, 0]
        with np.errstate(all="ignore"):
            want = x * y
        np.testing.assert_allclose(found, want, rtol=3e-7, atol=1e-37)


@TARGETS
@pytest.mark.parametrize(("large", "other"), [(1e30, 1e20), (1e20, 1e30), (1e38, 1e-10), (1e-10, 1e38)], ids=str)
def test_large_numbers_beside_others(target: Target, large: float, other: float) -> None:
    """Scales whose product is no fp32 number, or far from the result's."""
    a = np.array([[[large, 0], [0, large], [1, 0], [0, 0]]], np.float32)
    b = np.array([[[other, 0, 1e-3], [0, 1e-3, 0]]], np.float32)
    layout = rows_layout(np.arange(4) * 2, np.zeros(1, np.int64), 2, 16)
    found = contract(HALF, target, layout, a, b, 4, 32)
    with np.errstate(over="ignore"):
        wanted = (a.astype(np.float64) @ b).astype(np.float32)
    largest = 2.0**-39 * np.abs(a).max() * float(np.abs(b).max())
    plain = np.isfinite(wanted)
    np.testing.assert_array_equal(np.isinf(found), ~plain)
    assert (np.abs(found[plain].astype(np.float64) - wanted[plain]) <= 1e-6 * np.abs(wanted[plain]) + largest).all()


@TARGETS
def test_a_number_that_is_not_finite_spoils_its_results_alone(target: Target) -> None:
    m, n, k = 40, 40, 64
    a, b = numbers(1, m, k), np.abs(numbers(1, k, n))
    a[0, 3, 5], a[0, 4, 5], a[0, 5, 5] = np.inf, -np.inf, np.nan
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64)
    found = contract(HALF, target, layout, a, b, m, 64)
    assert (found[0, 3] == np.inf).all()
    assert (found[0, 4] == -np.inf).all()
    assert np.isnan(found[0, 5]).all()
    rest = np.setdiff1d(np.arange(m), [3, 4, 5])
    assert_exact(found[:, rest], a[:, rest].astype(np.float64), b.astype(np.float64))


def test_instructions() -> None:
    base = test_amx.amx_target()
    target = dataclasses.replace(base, features=(*base.features, "amx-fp16"))
    text = toolchain.assembly(HALF.emit(target), target, AmxSpec.shaped)
    assert text.count("tdpfp16ps") == 3 * (1 + 2 + 2 + 4)
    assert "tdpbf16ps" not in text


@pytest.mark.parametrize(
    "bad",
    [{"parts": 1}, {"parts": 3}, {"a": DType.BF16X2, "direct": True}, {"a": DType.BF16X2}, {"w24": True}],
    ids=str,
)
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="parts"):
        dataclasses.replace(HALF, **bad)  # type: ignore[arg-type]
