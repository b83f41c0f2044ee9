"""Bytes that become other bytes: each of the 256 stays what it is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from tests.passes.build import Maker, apply, ops, stays

RNG = np.random.default_rng(11)


def _graph(bound: str | None, given: type, result: type, step: float, last: float, zeros: tuple[int, int]) -> Graph:
    m = Maker()
    x = m.input(2, 3, 256, dtype=DType.of(np.zeros(0, given)))
    y = m.op("DequantizeLinear", x, m.const(step), m.const(zeros[0], given))
    y = y if bound is None else m.op(bound, y)
    return m.done(m.op("QuantizeLinear", y, m.const(last), m.const(zeros[1], result)))


@pytest.mark.parametrize("bound", ["ReLU", "ReLU6", None])
def test_drawn_scales(bound: str | None) -> None:
    """To the bit, with the reference implementation; most scales have a factor."""
    fired = 0
    for _ in range(20):
        given, result = (RNG.choice([np.int8, np.uint8]) for _ in range(2))
        zeros = tuple(int(RNG.integers(np.iinfo(t).min, np.iinfo(t).max + 1)) for t in (given, result))
        step = float(RNG.uniform(0.005, 0.1))
        # as an observer behind the bound has it: from 0 on, all of its range used
        top = step * (np.iinfo(given).max - zeros[0])
        top = min(top, 6.0) if bound == "ReLU6" else top
        if RNG.random() < 0.3:  # one scale on both sides, as quantisers give those that share it
            result, zeros, last = given, (zeros[0], zeros[0]), step
        else:
            zeros = zeros if bound is None else (zeros[0], int(np.iinfo(result).min))
            last = max(top, 0.01) / 255 if bound is not None else float(RNG.uniform(0.005, 0.1))
        graph = _graph(bound, given, result, step, last, zeros)
        codes = np.arange(np.iinfo(given).min, np.iinfo(given).max + 1).astype(given)
        x = np.stack([RNG.permutation(codes) for _ in range(6)]).reshape(2, 3, 256)
        changes, found = apply("requantising", graph, {"x": x}, tol=0)
        fired += changes > 0
        assert not changes or (bound not in ops(found) and Counter(ops(found))["QuantizeLinear"] == (step != last))
    assert fired > 14


@pytest.mark.parametrize("between", ["ReLU", "Sigmoid"])
def test_others_stay(between: str) -> None:
    """What is an output too, and functions that bound nothing."""
    m = Maker()
    x = m.op("DequantizeLinear", m.input(4, dtype=DType.I8), m.const(0.1), m.const(3, np.int8))
    y = m.op(between, x)
    out = m.op("QuantizeLinear", y, m.const(0.05), m.const(-128, np.int8))
    stays("requantising", m.done(out, *([y] if between == "ReLU" else [])))
