"""Weights whose numbers are entries of a codebook: products have the bits that those with 8 bits a number have."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.lowbit.codebook import ENTRIES, entries_of
from MNN.backends.cpu.lowbit.emit_int8 import Parts, possible
from MNN.backends.cpu.lowbit.int8 import is_wide, sums_fours
from MNN.backends.cpu.lowbit.layout import layout_of
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.quant import QuantizedArray, pack_codes
from MNN.llm.files.gguf import codebooks, super_blocks  # noqa: F401 - they enter their kinds
from MNN.llm.files.gguf.blocks import KINDS
from MNN.llm.files.gguf.small_blocks import FP4_VALUES, IQ4_VALUES
from tests.backends.cpu import util
from tests.backends.cpu.lowbit import test_int8, test_lowbit, test_strips
from tests.backends.cpu.lowbit.test_lowbit import spec_of, weights
from tests.pairs import pairs

FORMS = {
    "IQ4": tuple(map(int, IQ4_VALUES)),
    "FP4": tuple(sorted({int(x) for x in FP4_VALUES})),
    "ends": (-128, 0, 127),
}
LOOKING_UP = [t for t in util.TARGETS if t.can(can.LOOK_UP)]


def with_entries(n: int, k: int, blocks: int, zeros: str, entries: tuple[int, ...]) -> QuantizedArray:
    """Weights of 8 bits that have no other values than these."""
    like = weights(n, k, 8, blocks, zeros)
    values = np.random.default_rng(n * k).choice(np.array(entries, np.int8), (n, k))
    return QuantizedArray(pack_codes(values, 8), like.scale, like.offset, 8, (n, k), 8)


def found(target: Target, w: QuantizedArray) -> tuple[int, ...]:
    return entries_of(target, w.codes, w.shape[1], w.scale.shape[1], w.width)


def test_some_target_looks_codes_up() -> None:
    assert LOOKING_UP


@pairs(target=LOOKING_UP, form=list(FORMS), zeros=["none", "i8", "offset"], few=[True, False])
def test_products_of_floats_have_the_same_bits(target: Target, form: str, zeros: str, few: bool) -> None:
    for m, n, k, blocks in ((5, 70, 64, 2), (1, 16, 37, 1)):
        spec, w = spec_of(target, 8, zeros, few, m), with_entries(n, k, blocks, zeros, FORMS[form])
        entries = found(target, w)
        assert set(entries) == set(w.values.ravel().tolist())
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        width = -(-n // spec.nr(target)) * spec.nr(target)
        want = test_lowbit.product(spec, target, w, a, m, width)
        some = test_lowbit.product(spec, target, w, a, 3, spec.nr(target), k == 64, entries=entries)
        np.testing.assert_array_equal(some, want)


@pairs(
    target=[t for t in test_int8.targets() if t.can(can.LOOK_UP)], form=list(FORMS), zeros=["none", "offset"],
    height=[1, 3], parts=[None, Parts(2, True, True), Parts(3, True)],
)  # fmt: skip
def test_products_of_bytes_have_the_same_bits(
    target: Target, form: str, zeros: str, height: int, parts: Parts | None
) -> None:
    if is_wide(target, 8):
        parts = None
    for m, n, k, blocks in ((9, 40, 64, 2), (1, 16, 37, 1), (3, 64, 32, 2)):
        w = with_entries(n, k, blocks, zeros, FORMS[form])
        entries = found(target, w)
        if not possible(target, layout_of(target, k, 4, blocks)):
            assert blocks > 1
            assert k // blocks < 32
            continue
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        a[0, : k // 2] = 0
        want = test_int8.product(target, w, a, height, m, n, parts=parts)
        for expanded in (False, True):
            some = test_int8.product(target, w, a, height, 4, n, m == 9, parts, entries, expanded=expanded)
            np.testing.assert_array_equal(some, want)
    assert sums_fours(target) or parts is None


@test_strips.needs_wide_vectors
@pairs(form=list(FORMS), zeros=["none", "offset"], parts=[1, 3], run=[16, 32])
def test_strips_have_the_same_bits(form: str, zeros: str, parts: int, run: int) -> None:
    target, (m, n, k) = test_strips.tiles(), (33, 70, 64)
    assert target is not None
    w = with_entries(n, k, k // run, zeros, FORMS[form])
    a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
    want = test_strips.product(w, a, parts, (64, 128, 2), False)
    some = test_strips.product(w, a, parts, (32, 96, 1), True, entries=found(target, w))
    np.testing.assert_array_equal(some, want)


@pytest.mark.parametrize("target", LOOKING_UP[-1:], ids=lambda t: t.name)
def test_kinds_of_files_that_have_a_codebook(target: Target) -> None:
    rng, names = np.random.default_rng(0), set()
    for kind in KINDS.values():
        if kind.take_apart is not None and kind.width == 8:
            values = kind.take_apart(rng.integers(0, 256, (400, kind.bytes), np.uint8)).values
            if entries_of(target, pack_codes(values, 8), kind.size, 1, 8):
                names.add(kind.name)
    assert names.issuperset({"IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ1_M"})
    assert not names & {"Q8_0", "Q6_K", "Q5_0"}


@pytest.mark.parametrize("target", LOOKING_UP[-1:], ids=lambda t: t.name)
def test_weights_that_have_a_codebook(target: Target) -> None:
    w = with_entries(5, 64, 2, "none", FORMS["IQ4"])
    assert found(target, w) == FORMS["IQ4"]
    more = w.values.copy()
    more[4, 63] = 2
    assert len(FORMS["IQ4"]) == ENTRIES
    assert not entries_of(target, pack_codes(more, 8), 64, 2, 8)
    assert not entries_of(target, w.codes, 64, 16, 8), "blocks of half a word"
    assert not entries_of(target, w.codes[:, :32], 64, 2, 4)
    padded = np.concatenate([w.codes, np.arange(5, dtype=np.uint8)[:, None]], 1)
    assert entries_of(target, padded, 64, 2, 8) == FORMS["IQ4"], "bytes behind a row are none of its codes"
