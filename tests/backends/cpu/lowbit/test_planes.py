"""Weights of 5 and 6 bits in planes: products have the bits that those with 8 bits a number have."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.lowbit.emit_int8 import Parts, possible
from MNN.backends.cpu.lowbit.int8 import is_wide, sums_fours
from MNN.backends.cpu.lowbit.layout import layout_of
from MNN.backends.cpu.lowbit.planes import HIGH, half_of, high_of
from MNN.backends.cpu.targets import Target
from MNN.ir.quant import QuantizedArray, pack_codes
from MNN.llm.files.gguf import codebooks, super_blocks  # noqa: F401 - they enter their kinds
from MNN.llm.files.gguf.blocks import KINDS
from tests.backends.cpu import util
from tests.backends.cpu.lowbit import test_int8, test_lowbit, test_strips
from tests.backends.cpu.lowbit.test_lowbit import spec_of, weights
from tests.pairs import pairs


def of_bits(n: int, k: int, blocks: int, zeros: str, high: int) -> QuantizedArray:
    """Weights of 8 bits whose numbers take so many beside four, the least and the largest of these among them."""
    like, half = weights(n, k, 8, blocks, zeros), half_of(high)
    values = np.random.default_rng(n * k).integers(-half, half, (n, k)).astype(np.int8)
    values[0, :2] = -half, half - 1
    return QuantizedArray(pack_codes(values, 8), like.scale, like.offset, 8, (n, k), 8)


def found(w: QuantizedArray) -> int:
    return high_of(w.codes, w.shape[1], w.scale.shape[1], w.width)


@pairs(target=util.TARGETS, high=list(HIGH), zeros=["none", "i8", "offset"], few=[True, False])
def test_products_of_floats_have_the_same_bits(target: Target, high: int, zeros: str, few: bool) -> None:
    for m, n, k, blocks in ((5, 70, 64, 2), (1, 16, 96, 1)):
        spec, w = spec_of(target, 8, zeros, few, m), of_bits(n, k, blocks, zeros, high)
        assert found(w) == high
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        width = -(-n // spec.nr(target)) * spec.nr(target)
        want = test_lowbit.product(spec, target, w, a, m, width)
        some = test_lowbit.product(spec, target, w, a, 3, spec.nr(target), k == 64, high=high)
        np.testing.assert_array_equal(some, want)


@pairs(
    target=test_int8.targets(), high=list(HIGH), zeros=["none", "i8", "offset"], height=[1, 3],
    parts=[None, Parts(3), Parts(2, True, True), Parts(3, True)],
)  # fmt: skip
def test_products_of_bytes_have_the_same_bits(
    target: Target, high: int, zeros: str, height: int, parts: Parts | None
) -> None:
    if is_wide(target, 8):
        parts = None
    for m, n, k, blocks in ((9, 40, 64, 2), (1, 70, 96, 1)):
        w = of_bits(n, k, blocks, zeros, high)
        assert possible(target, layout_of(target, k, 8, blocks, high=high))
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        a[0, : k // 2] = 0
        want = test_int8.product(target, w, a, height, m, n, parts=parts)
        for expanded in (False, True):
            some = test_int8.product(target, w, a, height, 4, n, m == 9, parts, high=high, expanded=expanded)
            np.testing.assert_array_equal(some, want)
    assert sums_fours(target) or parts is None


@test_strips.needs_wide_vectors
@pairs(high=list(HIGH), parts=[1, 3], run=[32, 64])
def test_strips_have_the_same_bits(high: int, parts: int, run: int) -> None:
    m, n, k = 33, 70, 64
    w = of_bits(n, k, k // run, "none", high)
    a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
    want = test_strips.product(w, a, parts, (64, 128, 2), False)
    some = test_strips.product(w, a, parts, (32, 96, 1), True, high=high)
    np.testing.assert_array_equal(some, want)


def test_kinds_of_files_whose_numbers_lie_in_planes() -> None:
    rng, names = np.random.default_rng(0), {}
    for kind in KINDS.values():
        if kind.take_apart is not None and kind.width == 8:
            block = kind.take_apart(rng.integers(0, 256, (400, kind.bytes), np.uint8))
            values = block.values if block.minimum is None else block.values - np.int8(1 << (kind.bits - 1))
            names[kind.name] = high_of(pack_codes(values, 8), kind.size, block.scale.shape[1], 8)
    assert {name for name, high in names.items() if high == 1} >= {"Q5_0", "Q5_1", "Q5_K"}
    assert names["Q6_K"] == 2
    assert names["Q8_0"] == 0


@pytest.mark.parametrize("high", HIGH)
def test_weights_that_lie_in_planes(high: int) -> None:
    w, steps = of_bits(5, 64, 1, "none", high), 32 // high
    assert found(w) == high
    for value in (-half_of(high) - 1, half_of(high)):
        more = w.values.copy()
        more[4, 63] = value
        assert high_of(pack_codes(more, 8), 64, 1, 8) == (2 if high == 1 else 0)
    assert high_of(w.codes, 64, 128 // steps, 8) == (2 if high == 1 else 0), "blocks of half a group"
    assert not high_of(w.codes, 64, 8, 8)
    assert not high_of(w.codes[:, :32], 64, 2, 4)
    padded = np.concatenate([w.codes, np.full((5, 1), 255, np.uint8)], 1)
    assert high_of(padded, 64, 1, 8) == high, "bytes behind a row are none of its codes"
