"""Memory of large results is used again, and never while somebody has them."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import MNN.numpy as mp
from MNN.expr.arrays.few import POOLED, pooled
from MNN.expr.fused import results
from MNN.expr.fused.results import MOST, SMALLEST, empty

F32 = np.dtype(np.float32)
COUNT = SMALLEST // 4


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> results._Blocks:
    """None that earlier results have left."""
    fresh = results._Blocks()
    monkeypatch.setattr(results, "_BLOCKS", fresh)
    return fresh


def test_a_result_that_is_gone_gives_its_memory_to_the_next() -> None:
    first = empty((COUNT,), F32)
    place = first.ctypes.data
    del first
    assert empty((COUNT // 4, 4), F32).ctypes.data == place


def test_views_keep_it() -> None:
    first = empty((COUNT, 2), F32)
    first[...] = 7
    view = first[::3].T[1:].reshape(-1)[5:]
    as_bytes = memoryview(first)
    del first
    second = empty((COUNT, 2), F32)
    second[...] = 1
    assert (view == 7).all()
    assert np.frombuffer(as_bytes, np.float32)[-1] == 7


def test_small_and_other_sizes_are_new(blocks: results._Blocks) -> None:
    del blocks
    first = empty((COUNT,), F32)
    place = first.ctypes.data
    del first
    assert empty((COUNT + 1,), F32).ctypes.data != place
    assert empty((COUNT - 1,), F32).base is None
    assert empty((0, 5), F32).shape == (0, 5)


def test_what_is_kept_is_bounded(blocks: results._Blocks) -> None:
    rng = np.random.default_rng(0)
    held = [empty((int(n),), F32) for n in rng.integers(COUNT, 20 * COUNT, 60)]
    held.append(empty((MOST,), F32))
    rng.shuffle(held)  # type: ignore[arg-type]
    while held:
        held.pop()
        kept = sum(block.size for block in blocks._blocks)
        assert kept == blocks._kept <= MOST
    assert blocks._kept > MOST // 2


def test_threads_never_share_a_result() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(60):
            one, two = empty((COUNT,), F32), empty((COUNT,), F32)
            one[...], two[...] = number, -step - 1
            if not ((one == number).all() and (two == -step - 1).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loops_over_large_arrays_leave_their_operands_and_results_alone() -> None:
    """Results are read late, freed in another order and by the collector of cycles."""
    rng = np.random.default_rng(1)
    data = rng.random(4 * COUNT, np.float32)
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    x = mp.array(data)
    for step in range(1, 40):
        y = x * float(step) + 1.0
        z = mp.sqrt(mp.abs(y - 3.0))
        if step % 3:
            kept.append((np.asarray(z), np.sqrt(np.abs(data * np.float32(step) + np.float32(1) - np.float32(3)))))
        cycle: list[object] = [np.asarray(y)]
        cycle.append(cycle)
        if len(kept) > 5:
            del kept[int(rng.integers(len(kept)))]
        if step % 7 == 0:
            gc.collect()
        for found, expected in kept:
            np.testing.assert_allclose(found, expected, 1e-6)
    np.testing.assert_array_equal(np.asarray(x), data)


def test_what_numpy_computes_at_once_lies_in_memory_that_is_used_again(blocks: results._Blocks) -> None:
    """Results of 64 Ki numbers and more; a view of the memory itself does not give it back."""
    x = np.random.default_rng(2).random(POOLED, np.float32)
    half = np.asarray(0.5, np.float32)
    for given in ((np.multiply, x, half), (np.add, x, x), (np.sqrt, x), (np.abs, x)):
        first = pooled(*given)
        place = first.ctypes.data
        assert isinstance(first.base, results._Lent)
        first.base[3:].sum()
        other = pooled(np.multiply, x, half)
        assert other.ctypes.data != place
        np.testing.assert_array_equal(first, given[0](*given[1:]))
        del first, other
        gc.collect()
        assert blocks._kept > 0
    assert pooled(np.add, x[:9], x[:9]).base is None
    assert pooled(np.add, half, x).shape == x.shape
