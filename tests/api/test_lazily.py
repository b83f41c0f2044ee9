"""Threads that keep expressions of constants as expressions, beside others that have them computed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.expr.fused.settings import is_lazy, lazily
from MNN.expr.var import Var


def _computed() -> list[Var]:
    """Functions of constants by all ways in: operators, generated entries, views, products, few and many numbers."""
    found = []
    for size in (3, 5000):
        x = F.const(np.linspace(0.5, 2, 4 * size, dtype=np.float32), [4, size])
        found += [x + x, x * 2.0, 2.0 - x, F.exp(x), F.reduce_sum(x, [1]), F.sort(x), F.concat([x, x], 0), x[1:3]]
        found += [F.transpose(x, [1, 0]), F.reshape(x, [-1]), F.matmul(x, x, False, True), mp.sqrt(x), mp.sum(x, 0), -x]
        found += [F.cast(x, F.int), F.relu(x), mp.where(x > 1.0, x, x), mp.clip(x, 0.7, 1.2), F.argmax(x, 1)]
    return found


def _elsewhere(run: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()


@pytest.mark.usefixtures("uncompiled")
def test_other_threads_compute_at_once() -> None:
    plain = [v.read() for v in _computed()]

    def check() -> None:
        assert not is_lazy()
        for var, array in zip(_computed(), plain, strict=True):
            assert var._few is not None or var._expr.op == "Const", "an expression of another thread's mode"
            np.testing.assert_array_equal(var.read(), array)

    with lazily():
        _elsewhere(check)
        kept = _computed()
        assert {v._expr.op for v in kept if v._few is None} - {"Const"}
        for var, array in zip(kept, plain, strict=True):
            np.testing.assert_allclose(var.read(), array, rtol=1e-5)
    check()


@pytest.mark.parametrize("before", [False, True])
def test_the_setting_is_what_it_was_when_all_have_left(before: bool) -> None:
    F.lazy_eval(before)
    try:
        with lazily():
            with lazily():
                _elsewhere(lambda: _assert(is_lazy() is before))
            assert is_lazy()
            _elsewhere(lambda: F.lazy_eval(not before))
            assert is_lazy()
            _elsewhere(lambda: _assert(is_lazy() is not before))
        assert is_lazy() is not before
        F.lazy_eval(before)
        with pytest.raises(KeyError), lazily():
            raise KeyError
        assert is_lazy() is before
    finally:
        F.lazy_eval(False)


def _assert(found: bool) -> None:
    assert found
