"""Sums of pairs of bytes in 16 bits: exactly the integers, whatever weights are, and where they are taken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing.byte_pairs import (
    NATURAL,
    joined,
    loads,
    pack_byte_pairs,
    paired,
    shift_of,
    split,
    sums_byte_pairs,
)
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ops.core.builder import Builder
from tests.backends.cpu import util
from tests.compiler.checks import built

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32
TARGETS = [t for t in util.TARGETS if t.family == "x86" and sums_byte_pairs(t)]


def drawn(rng: np.random.Generator, dtype: DType, *shape: int, size: float = 1.0) -> np.ndarray:
    """Numbers of 8 bits, a third of them the largest or the smallest; ``size``: that part of the range."""
    info = np.iinfo(dtype.numpy)
    low, high = int(info.min * size), int(info.max * size)
    found = rng.integers(low, high + 1, shape)
    ends = rng.random(shape)
    return np.where(ends < 0.17, low, np.where(ends < 0.33, high, found)).astype(dtype.numpy)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("a", [U8, I8], ids=["u8", "i8"])
@pytest.mark.parametrize(("m", "n", "run", "taps"), [(5, 17, 4, 1), (23, 50, 37, 2), (30, 100, 64, 1), (9, 40, 6, 5)])
@pytest.mark.parametrize("tile", [(1, 1), (4, 2), (3, 3)], ids=str)
def test_exact_products(target: Target, a: DType, tile: tuple[int, int], m: int, n: int, run: int, taps: int) -> None:
    body = body_of([I32, I32], lambda b, s, bias: b("add", s, bias))
    spec = ContractSpec(a, I8, I32, I32, *tile, epilogue=body, operands=("n",), group=4, byte_pairs=True)
    rng, nr, k = np.random.default_rng(m + run), spec.nr(target), run * taps
    left, right = drawn(rng, a, m, k + 3), drawn(rng, I8, 2, k, n)
    right[0, : k // 2] = drawn(rng, I8, k // 2, n, size=0.25)  # of all kinds
    right[1] = np.clip(rng.standard_normal((k, n)) * 35, -128, 127)
    bias, c = rng.integers(-1000, 1000, n).astype(np.int32), np.full((2, m, n + 2), 7, np.int32)
    packed = pack_byte_pairs(right, run, nr, shift_of(a))
    arrays = {
        "a": left, "b": packed, "c": c, "op0": bias, "rows_a": (np.arange(m) * (k + 3)).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "taps": (2 + run * np.arange(taps)).astype(np.int32),
        "batch": np.array([[0, 0, 0, 0], [0, packed[0].size, c[0].size, 0]], np.int64),
    }  # fmt: skip
    slots = {
        "n_taps": taps, "k": run, "ldb": 4 * nr, "panel": packed.shape[-1], "m": m, "n": n, "n_batch": 2,
        "mb": 2 * tile[0], "nb": nr, "ub": tile[0],
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    for checked in (False, True):
        util.call(spec, target, slots, spec.blocks(m, n, 2, tile[0], nr), list(arrays.values()), checked)
    assert (c[..., n:] == 7).all(), "wrote past the columns"
    exact = left[:, 2 : k + 2].astype(np.int64) @ right.astype(np.int64) + bias
    np.testing.assert_array_equal(c[..., :n], exact)


def small_and_large(rng: np.random.Generator, a: DType, shape: tuple[int, int], large: float) -> np.ndarray:
    """Values near the least one, but for a part that is the largest."""
    found = np.where(rng.random(shape) < large, 255, rng.integers(0, 40, shape))
    return (found - shift_of(a)).astype(a.numpy)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("a", [U8, I8], ids=["u8", "i8"])
@pytest.mark.parametrize(("m", "n", "run", "taps"), [(23, 80, 37, 2), (42, 100, 64, 1), (9, 70, 8, 5)])
def test_exact_products_where_values_tell(target: Target, a: DType, m: int, n: int, run: int, taps: int) -> None:
    """Of small values, of some or many large ones, in the same block; of all columns at once and of few. What either
    way does not need is spoilt."""
    body = body_of([I32, I32], lambda b, s, bias: b("add", s, bias))
    spec = ContractSpec(a, I8, I32, I32, 4, 2, epilogue=body, operands=("n",), group=4, byte_pairs=True, light=True)
    rng, nr, k = np.random.default_rng(m + run), spec.nr(target), run * taps
    weights = drawn(rng, I8, 1, k, n)
    packed = pack_byte_pairs(weights, run, nr, shift_of(a), True)
    bias = rng.integers(-1000, 1000, n).astype(np.int32)
    natural = np.arange(packed.shape[-1]) >= 4 * int(packed.view(np.int32)[0, 0, nr + NATURAL])
    head = np.arange(packed.shape[-1]) < 4 * int(packed.view(np.int32)[0, :, nr + 3].min())
    whole = -(-n // nr)
    cases = [(0.0, whole, ~natural & ~head), (0.02, 4, None), (1.0, whole, natural), (0.0, 1, natural)]
    for large, columns, spoilt in [*cases, ((0.0, 0.01, 1.0), whole, None)]:
        left = small_and_large(rng, a, (m, k + 3), 0.0)
        some = np.resize(np.repeat(large, 4), m)
        for row, part in enumerate(some):
            left[row] = small_and_large(rng, a, (1, k + 3), part)
        right = packed.copy()
        if spoilt is not None:
            right[..., spoilt] = 99
        c = np.full((m, n + 2), 7, np.int32)
        arrays = {
            "a": left, "b": right, "c": c, "op0": bias, "rows_a": (np.arange(m) * (k + 3)).astype(np.int32),
            "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "taps": (2 + run * np.arange(taps)).astype(np.int32),
            "batch": np.zeros((1, 4), np.int64),
        }  # fmt: skip
        slots = {
            "n_taps": taps, "k": run, "ldb": 4 * nr, "panel": packed.shape[-1], "m": m, "n": n, "n_batch": 1,
            "mb": 24, "nb": columns * nr, "ub": 8,
        }  # fmt: skip
        slots |= {name: array.ctypes.data for name, array in arrays.items()}
        for checked in (False, True):
            util.call(spec, target, slots, spec.blocks(m, n, 1, 8, columns * nr), list(arrays.values()), checked)
        assert (c[:, n:] == 7).all(), "wrote past the columns"
        exact = left[:, 2 : k + 2].astype(np.int64) @ weights[0].astype(np.int64) + bias
        np.testing.assert_array_equal(c[:, :n], exact)


def test_which_pairs_fit() -> None:
    """Those whose sums fit in 16 bits with any u8: the extremes are found by trying them."""
    rng = np.random.default_rng(3)
    pairs = np.concatenate([rng.integers(-128, 128, (500, 2)), [[1, 127], [2, 127], [-1, -128], [-128, 127], [64, 64]]])
    most, least = (255 * pairs.clip(*ends).sum(1) for ends in ((0, None), (None, 0)))
    whole, rest = split(np.stack([pairs, np.zeros_like(pairs)], 1).reshape(-1, 1, 4).astype(np.int8))
    np.testing.assert_array_equal(~rest.any((1, 2)), (most < 1 << 15) & (least >= -(1 << 15)))
    np.testing.assert_array_equal((whole.astype(int) + rest)[:, 0, :2], pairs)
    for part in (whole, rest):
        assert (loads(part) <= 128).all()


def test_eight_values_are_paired_so_that_most_fit() -> None:
    """Beside a search of all orders."""
    rng = np.random.default_rng(4)
    eight = np.clip(rng.standard_normal((40, 12, 8)) * rng.choice([30, 45, 60], (40, 1, 1)), -128, 127).astype(np.int8)
    every = np.array(list(itertools.permutations(range(8))))
    values = paired(eight)
    assert (np.sort(values) == np.arange(8)).all()
    counts = []
    for row, order in zip(eight.astype(int), values, strict=True):
        fit = (np.abs(row[:, :, None] + row[:, None]) <= 128).all(0)
        counts.append(int(fit[order[::2], order[1::2]].sum()))
        assert counts[-1] == fit[every[:, ::2], every[:, 1::2]].sum(1).max()
    assert len(set(counts)) > 2


@pytest.mark.parametrize("size", [15, 30, 45])
def test_rows_that_are_joined_fit_together(size: int) -> None:
    rng = np.random.default_rng(size)
    rows = np.clip(rng.standard_normal((3, 41, 8, 4)) * size, -60, 60).astype(np.int8)
    kind = rng.choice([0, 0, 0, 1, 2], (3, 41))
    load = loads(rows)
    order, twos = joined(load, kind)
    for panel in range(3):
        assert sorted(order[panel]) == list(range(41))
        assert (np.diff(kind[panel, order[panel]]) >= 0).all()
        pairs = order[panel, : 2 * twos[panel]].reshape(-1, 2)
        assert (load[panel, pairs].astype(int).sum(1) <= 128).all()
    assert twos.sum() > 10 or size == 45


def test_weights_that_do_not_fit_are_widened() -> None:
    """Sums of normal weights by channel are bytes; not those of weights all of which are large."""
    rng, target = np.random.default_rng(5), named_target("avx2")
    normal = np.clip(rng.standard_normal((256, 40)) * 38, -127, 127).astype(np.int8)
    for weights, pairs in ((normal, True), (rng.choice(np.array([-128, 127], np.int8), (256, 40)), False)):
        x = drawn(rng, U8, 9, 256)
        b, inputs, outputs, numbers = built(lambda b, x, w=weights: b.matmul(x, b.const(w)), x)
        program = compile_stage(b.prims, inputs, outputs, target, Options(), ConstantPool())
        np.testing.assert_array_equal(BoundProgram(program, Library(target)).run([x], 1)[0], numbers[outputs[0]])
        kernels = [c.kernel for c in program.commands if isinstance(c.kernel, ContractSpec)]
        assert [kernel.byte_pairs for kernel in kernels] == [pairs]


@pytest.mark.parametrize("seed", range(9))
def test_where_they_are_taken(seed: int) -> None:
    """Convolutions of any windows, strides, dilations and groups, but for those by Winograd's method, and matrix
    products: results are the integers."""
    target, rng = named_target("avx2"), np.random.default_rng(seed)
    kind, a, size = seed % 3, U8 if seed % 2 else I8, float(rng.choice([0.25, 0.5]))
    n, rows = 8 * int(rng.integers(1, 5)) + seed % 8, int(rng.integers(11, 15))
    if kind == 0:
        k = int(rng.integers(4, 70))
        x, weights = drawn(rng, a, 2, rows, k), drawn(rng, I8, k, n, size=size)
    else:
        groups, k, kernel = 1 if kind == 1 else int(rng.integers(2, 4)), int(rng.integers(4, 30)), rng.integers(1, 6, 2)
        x = drawn(rng, a, 2, groups * k, rows, rows + 2)
        weights = drawn(rng, I8, groups * n, k, *kernel, size=size)
    steps, dilations = (tuple(int(i) for i in rng.integers(1, 3, 2)) for _ in "ab")

    def build(b: Builder, x: Tensor) -> Tensor:
        right = b.const(weights)
        return b.conv(x, right, (2, *steps[1:]), dilations, groups, (0, 0, 0, 0)) if kind else b.matmul(x, right)

    b, inputs, outputs, numbers = built(build, x)
    library = Library(target)
    program = compile_stage(b.prims, inputs, outputs, target, Options(), ConstantPool())
    np.testing.assert_array_equal(BoundProgram(program, library).run([x], 1)[0], numbers[outputs[0]])
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, ContractSpec)]
    assert [kernel.byte_pairs for kernel in kernels] == [True]


@pytest.mark.parametrize("bad", [{"group": 2, "a": DType.I16, "b": DType.I16}, {"b_packed": False}, {"a": F32}])
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    good = ContractSpec(U8, I8, I32, I32, 4, 2, group=4, byte_pairs=True)
    with pytest.raises(ValueError, match=r"pairs of bytes|no contraction"):
        ContractSpec(**{**good.__dict__, **bad})  # type: ignore[arg-type]
