"""Copies between orders of axes, beside numpy's; and what keeps an order: loops, addresses and what users read."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.expr import memory
from MNN.expr.fused import copies, kernels, loops
from MNN.expr.fused.settings import SETTINGS

Array = np.ndarray[Any, Any]
KINDS = (np.uint8, np.int16, np.float32, np.int32, np.float64, np.int64, np.complex128, np.bool_)


@pytest.fixture(autouse=True, params=["alone", "shared"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels from the first element on, for small parts."""
    monkeypatch.setattr(copies, "SMALLEST", 0)
    monkeypatch.setattr(copies, "PAYS_AFTER", 0)
    monkeypatch.setattr(loops, "COMPILE_AFTER", 0.0)
    monkeypatch.setattr(loops, "_COPIED", 1 << 10)
    monkeypatch.setattr(loops, "_BAND", 16)
    monkeypatch.setattr(SETTINGS, "loop_threads", 2 if request.param == "shared" else 1)
    if request.param == "shared":
        monkeypatch.setattr(kernels, "SHARED", 0)


def drawn(draw: np.random.Generator, rank: int, kind: type[Any]) -> Array:
    """Any view of an array: in any order of axes, with steps either way, repeated along axes or unaligned."""
    sizes = tuple(int(n) for n in draw.choice([0, 1, 2, 3, 7, 8, 17, 33, 70], rank, p=[0.02, 0.1, *[0.88 / 7] * 7]))
    array = draw.integers(0, 200, tuple(2 * n + 1 for n in sizes)).astype(kind)
    if draw.random() < 0.1:
        array = np.frombuffer(b"." + array.tobytes(), kind, offset=1).reshape(array.shape)
    key = []
    for n in sizes:
        step = int(draw.choice([1, 1, 1, 2, -1, -2]))
        first = int(draw.integers(2)) + (0 if step > 0 else n * -step)
        places = range(first, first + n * step, step)
        key.append(slice(places.start, places.stop if places.stop >= 0 else None, step) if n else slice(0, 0))
    array = array[(*key, ...)]
    if rank and draw.random() < 0.15:
        axis = int(draw.integers(rank))
        array = np.broadcast_to(array.take([0], axis) if array.shape[axis] else array, array.shape)
    return array.transpose(draw.permutation(rank))


@pytest.mark.parametrize("seed", range(120))
def test_copies_of_any_views(seed: int) -> None:
    draw = np.random.default_rng([seed, 31])
    kind = KINDS[draw.integers(len(KINDS))]
    source = drawn(draw, int(draw.integers(5)), kind)
    around = np.ones(tuple(n + 2 for n in source.shape), kind)
    inner = (*(slice(1, n + 1) for n in source.shape), ...)
    target = around[inner]
    order = draw.permutation(source.ndim)
    copies.copy(source.transpose(order), target.transpose(order))
    np.testing.assert_array_equal(target, source)
    target[...] = 1
    assert (around == 1).all()  # nothing beside it was written
    whole = copies.contiguous(source)
    assert whole.flags.c_contiguous
    np.testing.assert_array_equal(whole, source)


@pytest.mark.parametrize("seed", range(40))
def test_joined(seed: int) -> None:
    draw = np.random.default_rng([seed, 37])
    kind = KINDS[draw.integers(len(KINDS))]
    first = drawn(draw, int(draw.integers(1, 5)), kind)
    axis = int(draw.integers(-first.ndim, first.ndim))
    repeats = int(draw.integers(1, 4))
    parts = [first, np.repeat(first, repeats, axis), np.flip(first, axis)]
    found = copies.joined(parts, axis)
    np.testing.assert_array_equal(found, np.concatenate(parts, axis))
    with pytest.raises(ValueError, match="axis"):
        copies.joined(parts, first.ndim)
    with pytest.raises(ValueError, match="axis"):
        copies.joined([first, np.zeros((*first.shape, 1), kind)], axis)


def address_holds(x: Any) -> Array:
    """What lies at the address of a Var, row after row."""
    there: Any = (ctypes.c_float * x.size).from_address(memory.pointer(x.ptr))
    return np.ctypeslib.as_array(there)


@pytest.mark.parametrize("seed", range(25))
def test_results_keep_the_order_of_operands_unless_they_are_handed_out(seed: int) -> None:
    draw = np.random.default_rng([seed, 41])
    sizes = tuple(int(n) for n in draw.integers(20, 90, draw.integers(2, 4)))
    order = draw.permutation(len(sizes))
    a, b = (draw.random(tuple(sizes[i] for i in np.argsort(order)), np.float32) for _ in "ab")
    one, other = (mp.transpose(mp.array(v), tuple(map(int, order))) for v in (a, b))
    row = draw.random(sizes[-1], np.float32)
    results = {
        "both": (mp.sqrt(one * 2.0 + other), np.sqrt(a * np.float32(2) + b).transpose(order)),
        "with a row": (one * other + mp.array(row), (a * b).transpose(order) + row),
        "with another order": (one + mp.array(b.transpose(order).copy()), (a + b).transpose(order)),
    }
    for found, wanted in results.values():
        np.testing.assert_allclose(np.asarray(found), wanted, 1e-6)
        again = found + 0.0
        read = again.read()
        assert read.flags.c_contiguous
        assert read.flags.writeable
        np.testing.assert_allclose(read, wanted, 1e-6)
        np.testing.assert_allclose(address_holds(found), wanted.reshape(-1), 1e-6)
        assert memory.pointer(found.ptr) == memory.pointer(found.ptr)
        np.testing.assert_allclose(mp.sum(found * 1.0, axis=0).read(), wanted.sum(0), 1e-5)


def test_addresses_are_of_rows() -> None:
    """Also of arrays that users give in another order, of what a graph computes, and of large transposed ones."""
    a = np.random.default_rng(0).random((600, 500), np.float32)
    given = F.placeholder([600, 500])
    given.write(a)
    for found, wanted in (
        (mp.transpose(mp.array(a)), a.T), (mp.array(np.asfortranarray(a)), a), (mp.transpose(given), a.T),
    ):  # fmt: skip
        np.testing.assert_array_equal(address_holds(found), wanted.reshape(-1))
        np.testing.assert_array_equal(found.read(), wanted)
