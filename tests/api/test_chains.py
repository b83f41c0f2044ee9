"""Chains of elementwise functions that are evaluated again and again are compiled, and give the same numbers."""

from __future__ import annotations

import numpy as np

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it


def test_a_chain_is_compiled_when_it_is_used_again() -> None:
    x = F.placeholder([400, 500])
    y = F.maximum(F.minimum((F.abs(x * 2.0 + 1.0) - 0.5) * 3.0, 4.0), F.tanh(x)) / 7.0
    random = np.random.default_rng(0)
    for turn in range(12):
        a = random.normal(size=(400, 500)).astype(np.float32)
        x.write(a)
        wanted = np.maximum(np.minimum((np.abs(a * 2 + 1) - 0.5) * 3, 4), np.tanh(a)) / 7
        np.testing.assert_allclose(y.read(), wanted, atol=1e-5)
        if not turn:
            assert y._expr._executor is None  # nothing is compiled for one use
    assert y._expr._executor is not None
    x.resize([3])
    x.write([1.0, 2.0, 3.0])
    np.testing.assert_allclose(y.read(), np.float32([4, 4, 4]) / 7, atol=1e-6)
