"""Inner products against float64: odd extents, cut tiles and panels, epilogues, accuracy, numbers that forbid them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.assembly import examine
from MNN.backends.cpu.inner_product.cost import (
    _TILES,
    SHORTEST,
    applies,
    choose_cut,
    choose_inner_product,
    has_inner_product,
)
from MNN.backends.cpu.inner_product.iteration import FULL_REGISTER_TILE, fills_registers, halved_rows, iteration_of
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec, sizable
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.products.register_tiles import contract_cycles, pack_b
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ops.quantized.quantization import saturated
from tests.backends.cpu import util

F32 = DType.F32
WIDTHS = [t for t in util.TARGETS if t.lanes(F32) >= 8]
TARGETS = pytest.mark.parametrize("target", WIDTHS, ids=lambda t: t.name)
WIDE = [t for t in util.TARGETS if t.broadcast_operand]
BOTH = pytest.mark.parametrize(
    ("target", "tile"),
    [*((t, (9, 2)) for t in WIDE), *((t, FULL_REGISTER_TILE) for t in util.TARGETS if fills_registers(t))],
    ids=lambda x: x.name if isinstance(x, Target) else "",
)


def prepared(
    target: Target, w: np.ndarray, tile: tuple[int, int], checked: bool = False, screened: bool = False
) -> np.ndarray:
    """Panels ``[panels, head + k, nr]``."""
    iteration, nv = iteration_of(target, *tile), tile[1]
    k, nr = w.shape[0], nv * target.lanes(F32)
    plain, head, depth = pack_b(w, nr), iteration.head + screened, iteration.whole(k)
    packed = np.zeros((len(plain), head + depth, nr), np.float32)
    packed[:, :head], packed[:, head : head + k] = 7, plain
    slots = {"b": packed.ctypes.data, "k": depth, "vectors": nv}
    util.call(InnerProductPackSpec(iteration.split, screened), target, slots, len(plain) * nv, [packed], checked)
    return packed


def run(
    target: Target,
    x: np.ndarray,
    w: np.ndarray,
    tile: tuple[int, int],
    body: Body | None = None,
    operands: dict[str, tuple[str, np.ndarray]] | None = None,
    checked: bool = False,
    rows_per_block: int = 2,
    panels_per_block: int = 2,
    screened: bool = False,
    out: DType = F32,
) -> np.ndarray:
    """The product; rows of A lie backwards, those of C further apart than they are long."""
    (m, k), n, operands = x.shape, w.shape[1], operands or {}
    spec = InnerProductSpec(*tile, out, body, tuple(kind for kind, _ in operands.values()), screened)
    nr = spec.nr(target)
    b, c = prepared(target, w, tile, checked, screened), np.full((m, n + 3), 7, out.numpy)
    a = np.ascontiguousarray(x[::-1])
    rows_a, rows_c = (np.arange(m)[::-1] * k).astype(np.int32), (np.arange(m) * (n + 3)).astype(np.int32)
    arrays = {"a": a, "b": b, "c": c, "rows_a": rows_a, "rows_c": rows_c}
    for name, (kind, values) in operands.items():
        arrays[name] = values
        if kind in ("m", "mn"):
            arrays[name.replace("op", "rows")] = (np.arange(m) * (values.size // m)).astype(np.int32)
    mb, nb = rows_per_block * tile[0], panels_per_block * nr
    numbers = {"k": k, "panel": b[0].size, "m": m, "n": n, "mb": mb, "nb": nb, "ub": tile[0]}
    slots = {name: v.ctypes.data for name, v in arrays.items()} | numbers
    util.call(spec, target, slots, spec.blocks(m, n, tile[0], nb), list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n]


def numbers(m: int, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)


def exact(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ w.astype(np.float64)


FIT = [(t, tile) for t in WIDTHS for tile in ((2, 1), (4, 2), (6, 3), (9, 2), (14, 1)) if tile[0] <= t.lanes(F32)]
"""Tiles the notes on whose rows are one vector."""


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize(("target", "tile"), FIT, ids=lambda x: x.name if isinstance(x, Target) else f"{x[0]}x{x[1]}")
@pytest.mark.parametrize("sizes", [(1, 3, 5), (9, 16, 32), (13, 20, 33), (30, 63, 100), (40, 34, 17)])
def test_products(target: Target, tile: tuple[int, int], sizes: tuple[int, int, int], checked: bool) -> None:
    x, w = numbers(*sizes)
    found, right = run(target, x, w, tile, checked=checked), exact(x, w)
    assert np.abs(found - right).max() <= 2e-6 * np.abs(right).max()


@pytest.mark.parametrize("dtype", [DType.I16, DType.U16], ids=lambda d: d.value)
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@BOTH
def test_results_of_16_bits(target: Target, tile: tuple[int, int], checked: bool, dtype: DType) -> None:
    """What is stored in integers is what the same kernel's floats are when rounded."""
    x, w = numbers(25, 24, 40)
    zero = 0 if dtype is DType.I16 else 30000
    body = body_of([F32], lambda s, a: saturated(s, s("mul", a, s.const(5000.0, F32)), zero, dtype))
    found, whole = run(target, x, w, tile, body, checked=checked, out=dtype), run(target, x, w, tile)
    info = np.iinfo(dtype.numpy.name)
    wanted = np.clip(np.round(whole * np.float32(5000)) + zero, info.min, info.max)
    np.testing.assert_array_equal(found, wanted.astype(dtype.numpy))
    assert (found == info.max).any()


@BOTH
def test_epilogues(target: Target, tile: tuple[int, int]) -> None:
    x, w = numbers(25, 24, 40)
    bias, added, scale = (np.linspace(-2, 2, s).astype(np.float32) for s in (40, 25 * 40, 25))
    body = body_of(
        [F32] * 4, lambda b, s, v, u, t: b("max", b("mul", b("add", b("add", s, v), u), t), b.const(0.0, F32))
    )
    operands = {"op0": ("n", bias), "op1": ("mn", added), "op2": ("m", scale)}
    found = run(target, x, w, tile, body, operands)
    right = np.maximum((exact(x, w) + bias + added.reshape(25, 40)) * scale[:, None], 0)
    assert np.abs(found - right).max() <= 2e-6 * np.abs(right).max()


def plainly(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sums in f32, one product after the other."""
    total = np.zeros((x.shape[0], w.shape[1]), np.float32)
    for step in range(x.shape[1]):
        total = (x[:, step, None].astype(np.float64) * w[step] + total).astype(np.float32)
    return total


@BOTH
@pytest.mark.parametrize("depth", [16, 256, 1024])
@pytest.mark.parametrize("kind", ["normal", "positive", "shifted", "uneven", "outlier", "tiny", "huge"])
def test_accuracy(target: Target, tile: tuple[int, int], depth: int, kind: str) -> None:
    """At most twice the error of plain sums, three times where one channel drowns the others."""
    depth = max(depth, SHORTEST) if tile == FULL_REGISTER_TILE else depth
    x, w = numbers(48, depth, 48, 1)
    w *= np.exp(np.random.default_rng(2).normal(size=48)).astype(np.float32)
    x = {
        "normal": x,
        "positive": np.maximum(x, 0),
        "shifted": x + 2,
        "uneven": x * np.exp(np.random.default_rng(3).normal(size=depth)).astype(np.float32),
        "outlier": x * np.where(np.arange(depth) == 5, 100, 1).astype(np.float32),
        "tiny": x * np.float32(1e-6),
        "huge": x * np.float32(1e6),
    }[kind]
    right = exact(x, w)
    per_column = np.sqrt(np.square(right).mean(axis=0))
    errors = [np.sqrt(np.square((f - right) / per_column).mean()) for f in (run(target, x, w, tile), plainly(x, w))]
    limits = {"outlier": 3.0, "shifted": 2.2 if tile == FULL_REGISTER_TILE else 2.0}
    assert errors[0] <= limits.get(kind, 2.0) * errors[1]


@BOTH
def test_special_rows(target: Target, tile: tuple[int, int]) -> None:
    """Rows of zeros are exact, those with infinities, NaNs and extreme numbers what plain sums are."""
    x, w = numbers(30, 32, 40)
    w[:, 7] = 0
    x[1], x[4, 3], x[9, 2], x[15, 5], x[20] = 0, np.inf, np.nan, 3e38, x[20] * np.float32(1e-30)
    found = run(target, x, w, tile)
    with np.errstate(all="ignore"):
        right = plainly(x, w)
    assert (found[1] == 0).all()
    assert (found[[0, 2, 3, 28], 7] == 0).all()
    assert np.array_equal(np.isnan(found), np.isnan(right))
    finite = np.isfinite(right)
    assert np.array_equal(found[~finite], right[~finite], equal_nan=True)
    for row in range(30):
        ok = finite[row]
        if ok.any():
            largest = np.abs(right[row][ok]).max()
            assert np.abs(found[row][ok] - right[row][ok]).max() <= 3e-6 * largest


@BOTH
def test_equal_columns_stay_equal(target: Target, tile: tuple[int, int]) -> None:
    x, w = numbers(20, 64, 33)
    w[:, [9, 20, 32]] = w[:, [0]]
    found = run(target, x, w, tile)
    for column in (9, 20, 32):
        assert np.array_equal(found[:, column], found[:, 0])


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@BOTH
def test_weights_that_nobody_has_looked_at(target: Target, tile: tuple[int, int], checked: bool) -> None:
    """Columns that must not be mixed up are found while the program runs; others have the errors that they always
    have, but for those of subnormal sums."""
    rng = np.random.default_rng(5)
    k, width = 64, tile[1] * target.lanes(F32)
    kinds = {
        "usual": lambda w: w, "zeros": lambda w: w * 0, "small": lambda w: w * np.float32(1e-30),
        "large": lambda w: w * np.float32(1e25), "infinite": lambda w: np.where(np.arange(k) == 3, np.inf, w),
        "none": lambda w: np.where(np.arange(k) == 5, np.nan, w), "sparse": lambda w: w * (np.arange(k) % 3 == 0),
        "of one sign": np.abs, "loud": lambda w: np.where(np.arange(k) == 9, 1e6, w), "tiny": lambda w: w * 1e-44,
    }  # fmt: skip
    x = rng.normal(size=(2 * tile[0] + 1, k)).astype(np.float32)
    x[3] *= np.float32(10.0) ** -np.linspace(0, 9, k, dtype=np.float32)
    w = rng.normal(size=(k, width * len(kinds))).astype(np.float32)  # a panel each, and each beside usual ones
    alone, beside = w.copy(), w.copy()
    for i, change in enumerate(kinds.values()):
        for column in range(width):
            alone[:, i * width + column] = change(w[:, i * width + column])
        beside[:, i * width + 7] = change(w[:, i * width + 7])
    for weights in (alone, beside):
        found = run(target, x, weights, tile, checked=checked, screened=True)
        with np.errstate(all="ignore"):
            right = plainly(x, weights)
            for i, kind in enumerate(kinds):
                part = slice(i * width, (i + 1) * width)
                if kind != "usual":  # exactly as plain sums are, which one multiply-add after the other makes
                    changed = part if weights is alone else slice(i * width + 7, i * width + 8)
                    assert np.array_equal(found[:, changed], right[:, changed], equal_nan=True), kind
                norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(weights[:, part].astype(np.float64), axis=0)
                fine = np.isfinite(norms)
                error = np.abs(np.where(fine, found[:, part] - exact(x, np.where(fine[:1], weights[:, part], 0)), 0))
                assert (error <= 5e-7 * np.where(fine, norms, 1) + k * 2.0**-149).all(), kind


def test_sizable() -> None:
    _, w = numbers(1, 16, 8)
    assert sizable(w)
    w[:, 3] = 0
    assert sizable(w)
    w[:, 4] = 1e-30
    assert not sizable(w)
    w[:, 4] = 1e30
    assert not sizable(w)


def test_rows_are_spread() -> None:
    assert [len(halved_rows(mr)) for mr in (6, 7, 9, 12, 14)] == [4, 4, 6, 8, 9]
    assert halved_rows(6) == [1, 2, 4, 5]


def _separate() -> Target:
    return dataclasses.replace(named_target("avx512"), separate_adders=True, split_vectors=True, fma_per_cycle=1.0)


def test_choices() -> None:
    target = _separate()
    assert has_inner_product(target)
    assert not has_inner_product(named_target("avx512"))
    assert not has_inner_product(named_target("avx2"))
    tile, cycles = choose_inner_product(target, 196, 512, 512, None, 1)
    assert tile in _TILES
    assert cycles < 0.85 * 196 * 512 * 512 / 16
    assert choose_inner_product(target, 200, 512, 512, (7, 2), 1)[0] == (7, 2)
    assert choose_cut(target, 196, 512, 512, (9, 2), 1) == (198, 512, 198, 1)
    assert choose_cut(target, 196, 512, 512, (9, 2), 2) == (99, 32, 9, 11 * 16)  # a block each
    assert choose_cut(target, 49, 160, 960, (10, 2), 2)[1:] == (32, 10, 13)  # tiles one by one
    assert choose_cut(target, 12544, 32, 96, (9, 2), 1)[0] % 9 == 0


@pytest.mark.parametrize("tile", _TILES, ids=lambda t: f"{t[0]}x{t[1]}")
def test_assembly(tile: tuple[int, int]) -> None:
    """The loop over pairs has a third fewer multiply-adds than products, spills nothing, and takes A from memory."""
    target = _separate()
    listing = examine(toolchain.assembly(InnerProductSpec(*tile).emit(target), target, True), "x86")
    mr, nv = tile
    halved = len(halved_rows(mr))
    hot = listing.hot
    assert hot is not None
    assert hot.kinds["multiply-add"] == 2 * nv * (halved + 2 * (mr - halved))
    assert hot.vector_spills == 0
    assert "broadcast or shuffle" not in hot.kinds


def test_tiles_of_all_registers() -> None:
    """On AVX2 the loop is a turn of four pairs, with nothing spilled; other depths end in zeros."""
    target = dataclasses.replace(named_target("avx2"), separate_adders=True)
    assert has_inner_product(target)
    assert applies(target, 196, 116, 58)
    assert not applies(target, 196, 116, SHORTEST - 1)
    iteration = iteration_of(target, *FULL_REGISTER_TILE)
    assert (iteration.steps, iteration.head, iteration.whole(58)) == (8, 3, 64)
    for row in range(FULL_REGISTER_TILE[0]):  # those taken by inner products, with either sign as often
        assert sum(sign for sign, rows in zip(iteration.signs, iteration.halved, strict=True) if row in rows) == 0
    tile, cycles = choose_inner_product(target, 196, 512, 256, None, 1)
    assert tile == FULL_REGISTER_TILE
    assert cycles < 0.9 * contract_cycles(target, 196, 512, 256)
    hot = examine(toolchain.assembly(InnerProductSpec(*tile).emit(target), target, True), "x86").hot
    assert hot is not None
    assert hot.kinds["multiply-add"] == 40  # for 64 products
    assert hot.vector_spills == 0


def test_tiles_with_more_rows_than_lanes_are_refused() -> None:
    with pytest.raises(ValueError, match="notes on 9 rows"):
        InnerProductSpec(9, 1).emit(named_target("avx2"))
