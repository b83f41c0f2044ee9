"""Products with weights in few bits against numpy in float64: both ways of computing them, tiles, zero points."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.lowbit.layout import Layout, kinds_of, layout_of, pack, zero_points
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.quant import QuantizedArray, pack_codes
from MNN.ir.scalar import Body, body_of
from tests.backends.cpu import util
from tests.pairs import pairs

F32, BF16, F16 = DType.F32, DType.BF16, DType.F16
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)


def weights(
    n: int, k: int, width: int, blocks: int, zeros: str, seed: int = 3, half: bool = False
) -> QuantizedArray:  # fmt: skip
    """``half``: scales and offsets are numbers of f16, too."""
    rng = np.random.default_rng(seed)
    most = 1 << (width - 1)
    values = rng.integers(-most, most, (n, k)).astype(np.int8)
    kind = np.float16 if half else np.float32
    scale = rng.uniform(0.01, 0.1, (n, blocks)).astype(kind).astype(np.float32) * rng.choice([-1, 1], (n, blocks))
    offset = {
        "none": lambda: None,
        "i8": lambda: (rng.integers(1 - most, most + 1, (n, blocks)) * scale).astype(np.float32),
        "offset": lambda: (rng.uniform(-1, 1, (n, blocks)).astype(kind) + most * scale).astype(np.float32),
    }[zeros]()
    codes = pack_codes(values, width)
    return QuantizedArray(codes, scale.astype(np.float32), offset, width, (n, k), width)


def laid(
    target: Target, w: QuantizedArray, rounded: bool = False, entries: tuple[int, ...] = (), high: int = 0
) -> tuple[Layout, np.ndarray]:
    """How weights lie, and the bytes that a kernel reads; with ``entries``, in codes of a codebook; ``high``:
    bits beside four, in pieces."""
    kinds = kinds_of(target, w.scale, w.offset, w.width, rounded)
    layout = layout_of(target, w.shape[1], w.width, w.scale.shape[1], *kinds, entries, high)
    packed = np.zeros(layout.nbytes(w.shape[0]), np.uint8)
    pack(layout, w.codes, w.scale, zero_points(w.scale, w.offset, w.width)[1], packed)
    return layout, packed


def book(entries: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The codebook as kernels take it."""
    return {"entries": np.array([*entries, *[0] * (16 - len(entries))], np.int8)} if entries else {}


def product(
    spec: CompressedSpec, target: Target, w: QuantizedArray, a: np.ndarray, mb: int, nb: int, checked: bool = False,
    more: dict[str, np.ndarray] | None = None, rounded: bool = False, entries: tuple[int, ...] = (),
    high: int = 0,
) -> np.ndarray:  # fmt: skip
    """The kernel's result for A ``[m, k]``, whose rows lie apart and out of order."""
    (m, k), n = a.shape, w.shape[0]
    layout, packed = laid(target, w, rounded, entries, high)
    assert layout.zeros == spec.zeros
    spec = dataclasses.replace(spec, width=layout.width, factors=layout.factors, codebook=bool(entries), high=high)
    order = np.random.default_rng(1).permutation(m)
    spread = np.zeros((m, k + 3), a.dtype)
    spread[order, :k] = a
    c = np.full((m, n + 2), 7, spec.out.numpy)
    operands = more or {}
    arrays = {
        "a": spread, "b": packed, "c": c, "rows_a": (order * (k + 3)).astype(np.int32),
        "rows_c": (order * (n + 2)).astype(np.int32), "taps": np.zeros(1, np.int32),
        "batch": np.zeros((1, 3 + len(spec.operands)), np.int64), **operands, **book(entries),
    }  # fmt: skip
    numbers = {
        "n_taps": 1, "k": k, "ldb": 0, "panel": 0, "m": m, "n": n, "n_batch": 1, "mb": mb, "nb": nb, "ub": mb,
        "blocks": layout.blocks, "groups": layout.groups,
    }  # fmt: skip
    slots = numbers | {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, 1, mb, nb), list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[order, :n]


def check(
    spec: CompressedSpec, target: Target, w: QuantizedArray, m: int, mb: int, nb: int, checked: bool = False,
    tolerance: float = 3e-7,
) -> None:  # fmt: skip
    a = np.random.default_rng(m).normal(size=(m, w.shape[1])).astype(spec.a.numpy)
    found = product(spec, target, w, a, mb, nb, checked)
    wide = w.dequantize().astype(np.float64).T
    expected, bound = a.astype(np.float64) @ wide, np.abs(a).astype(np.float64) @ np.abs(wide)
    worst = np.abs(found.astype(np.float64) - expected) / (bound + 1e-30)
    assert worst.max() <= tolerance, f"off by {worst.max()}"


def spec_of(target: Target, width: int, zeros: str, few: bool, m: int, **more: object) -> CompressedSpec:
    tile = (min(m, 4), 2 if m > 1 else 4) if few else (3, 2)
    return CompressedSpec(F32, F32, F32, F32, *tile, width=width, zeros=zeros, few=few, **more)  # type: ignore[arg-type]


@pairs(target=util.TARGETS, width=[2, 4, 8], zeros=["none", "i8", "offset"], few=[True, False], half=[True, False])
def test_numbers_of_all_widths(target: Target, width: int, zeros: str, few: bool, half: bool) -> None:
    for m, n, k, blocks in ((1, 70, 96, 3), (5, 130, 64, 2), (3, 16, 37, 1)):
        spec = spec_of(target, width, zeros, few, m)
        w = weights(n, k, width, blocks, zeros, half=half)
        check(spec, target, w, m, m, -(-n // spec.nr(target)) * spec.nr(target))
        check(spec, target, w, m, 3, spec.nr(target), checked=True)


@TARGETS
@pytest.mark.parametrize("tile", [(1, 1), (1, 2), (1, 4), (2, 4), (3, 2), (6, 2), (8, 1)], ids=str)
def test_every_tile_of_few_rows(target: Target, tile: tuple[int, int]) -> None:
    w = weights(70, 128, 4, 4, "i8")
    spec = CompressedSpec(F32, F32, F32, F32, *tile, zeros="i8", few=True)
    check(spec, target, w, 7, 7, spec.nr(target))


@TARGETS
@pytest.mark.parametrize("few", [True, False], ids=["few", "expanded"])
@pytest.mark.parametrize("dtype", [BF16, F16], ids=lambda d: d.value)
def test_sixteen_bit_sides(target: Target, dtype: DType, few: bool) -> None:
    w = weights(50, 64, 4, 2, "none")
    spec = dataclasses.replace(spec_of(target, 4, "none", few, 3), a=dtype, out=dtype)
    check(spec, target, w, 3, 3, 4 * spec.nr(target), tolerance=4e-3 if dtype is BF16 else 6e-4)


@TARGETS
def test_expanded_to_pairs(target: Target) -> None:
    if group_of(target, BF16) != 2:
        with pytest.raises(ValueError, match="groups"):
            CompressedSpec(BF16, F32, F32, F32, 3, 2, group=2)
        return
    for k in (64, 37):
        w = weights(70, k, 4, 1, "i8")
        spec = CompressedSpec(BF16, BF16, F32, F32, 3, 2, group=2, zeros="i8")
        check(spec, target, w, 7, 7, 3 * spec.nr(target), checked=True, tolerance=6e-3)


def _epilogue() -> Body:
    return body_of(
        [F32, F32, F32], lambda b, s, bias, more: b("add", b("max", b("add", s, bias), b.const(0, F32)), more)
    )


@TARGETS
@pytest.mark.parametrize("few", [True, False], ids=["few", "expanded"])
def test_epilogues(target: Target, few: bool) -> None:
    m, n, k = 3, 70, 64
    spec = dataclasses.replace(spec_of(target, 4, "none", few, m), epilogue=_epilogue(), operands=("n", "m"))
    w, rng = weights(n, k, 4, 2, "none"), np.random.default_rng(2)
    a, bias, more = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (n,), (m,)))
    order = np.random.default_rng(1).permutation(m)
    operands = {"op0": bias, "op1": more, "rows1": np.argsort(np.argsort(order)).astype(np.int32)}
    found = product(spec, target, w, a, m, 4 * spec.nr(target), more=operands)
    expected = np.maximum(a @ w.dequantize().T + bias, 0)
    np.testing.assert_allclose(found, expected + more[operands["rows1"]][:, None], rtol=1e-5, atol=1e-5)


@pairs(target=util.TARGETS, zeros=["none", "i8", "offset"], few=[True, False])
def test_extreme_numbers_give_what_f32_gives(target: Target, zeros: str, few: bool) -> None:
    """Infinities and what is no number arrive where they do in f32, and large finite numbers stay finite."""
    w = weights(40, 64, 4, 2, zeros)
    wide = w.dequantize()
    spec = spec_of(target, 4, zeros, few, 4)
    a = np.random.default_rng(4).normal(size=(4, 64)).astype(np.float32)
    a[0, 5], a[1, 40], a[2, 3], a[3] = np.inf, np.nan, -np.inf, a[3] * np.float32(1e37)
    with np.errstate(all="ignore"):
        expected = (a[:, None, :] * wide).sum(-1)
    found = product(spec, target, w, a, 4, 4 * spec.nr(target))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    finite = np.isfinite(expected)
    scale = np.abs(np.where(finite, expected, 0)).max(axis=1, keepdims=True) + 1
    away = np.where(finite, found, 0) / scale - np.where(finite, expected, 0) / scale
    assert np.abs(away).max() < 1e-5


def test_zero_points_are_found_in_offsets() -> None:
    w = weights(20, 64, 8, 4, "i8")
    assert w.offset is not None
    assert zero_points(w.scale, w.offset, 8)[0] == "i8"
    low = np.float32(-128) * w.scale  # what a file keeps is the least number
    again = (w.offset + low) - low
    kind, points = zero_points(w.scale, again, 8)
    assert kind == "i8"
    np.testing.assert_array_equal(points, np.rint(-w.offset / w.scale))
    assert zero_points(w.scale, w.offset + np.float32(0.003), 8)[0] == "offset"
    assert zero_points(np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32), 4)[0] == "offset"


@TARGETS
def test_scales_lie_in_f16_where_it_holds_them(target: Target) -> None:
    """Nothing is rounded: sums would tell."""
    half = np.array([[2.0**-20, 0.0, -0.1, 200.0]], np.float16).astype(np.float32)
    held = F16 if target.can(can.CONVERT_F16) else F32
    assert kinds_of(target, half, None, 4) == ("none", held)
    assert kinds_of(target, half, half[:, ::-1] * np.float32(0.7) + 8 * half, 4) == ("offset", F32)
    assert kinds_of(target, half, half[:, ::-1] * np.float32(0.5) + 8 * half, 4) == ("offset", held)
    assert kinds_of(target, half, half * 3, 4) == ("i8", held)
    for strange in (np.float32(0.1), np.float32(1e-12), np.float32(1e4), np.float32(np.nan)):
        assert kinds_of(target, np.append(half, [[strange]], 1), None, 4) == ("none", F32)
        if abs(strange) > 1:
            assert kinds_of(target, np.append(half, [[strange]], 1), None, 4, rounded=True) == ("none", F32)
        least = np.array([[0.5, strange, 0.25, 1]], np.float32)  # behind the scale that is 0
        assert kinds_of(target, half, least + 8 * half, 4) == ("offset", F32)


@pairs(target=util.TARGETS, width=[2, 4, 8], zeros=["none", "i8", "offset"], few=[True, False])
def test_scales_may_be_rounded(target: Target, width: int, zeros: str, few: bool) -> None:
    """To numbers of f16 times 2^-8, and so may what code 0 stands for; whole zero points are kept."""

    def held(numbers: np.ndarray) -> np.ndarray:
        return (numbers * 256).astype(np.float16).astype(np.float32) / 256

    w, half = weights(70, 64, width, 2, zeros), 1 << (width - 1)
    scale, offset = held(w.scale), w.offset
    if zeros == "i8":
        offset = np.rint(-w.offset / w.scale) * -scale
    elif zeros == "offset":
        offset = held(w.offset - half * w.scale) + half * scale
    a = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    spec = spec_of(target, width, zeros, few, 5)
    found = product(spec, target, w, a, 5, 2 * spec.nr(target), rounded=True)
    if not target.can(can.CONVERT_F16):
        scale, offset = w.scale, w.offset
    wide = dataclasses.replace(w, scale=scale, offset=offset).dequantize().astype(np.float64).T
    assert (np.abs(found - a @ wide) <= 3e-7 * (np.abs(a) @ np.abs(wide))).all()
