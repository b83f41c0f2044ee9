"""Every operator of drawn quantised networks gives LiteRT's numbers; ``python -m tests.frontends.tflite.chain_trial``
tries more of them."""

from __future__ import annotations

import pytest

from tests.frontends.tflite.chain_trial import apart

STEPS = {"INT8": {}, "INT16": {"TANH": 2, "SOFTMAX": 4, "LOGISTIC": 2}}
"""Functions of 16 bits, which LiteRT takes from tables, and this engine computes; all others are one step away at most.
"""
OFTEN = ("TRANSPOSE_CONV", "MEAN", "LEAKY_RELU", "HARD_SWISH")
"""Operators of bytes whose kernels in LiteRT may round more than once, where this engine does so once."""


@pytest.mark.parametrize("kind", STEPS)
def test_operators_give_the_numbers_of_litert(kind: str) -> None:
    found = apart(kind, range(5))
    assert len(found) > 15
    for a in found:
        assert a.steps <= STEPS[kind].get(a.op, 1), a
        if kind == "INT8" and a.op not in OFTEN:
            assert a.count <= 0.005 * a.size, a
