"""permute-cancelling: random operators between permutations keep what they compute, and pairs are gone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.ir.graph import Value
from tests.passes.build import Maker, apply, fires, ops, stays

LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def _last(m: Maker, x: Value) -> Value:
    return m.op("Permute", x, dims=LAST)


def _first(m: Maker, x: Value) -> Value:
    return m.op("Permute", x, dims=FIRST)


def test_what_lies_between_is_computed_in_the_other_order() -> None:
    m = Maker()
    x, z = (_last(m, m.op("TanH", m.input(1, 3, 4, 5, name=n))) for n in "xz")
    total = m.binary("ADD", m.op("ReLU", x), m.binary("MUL", z, m.noise(3)))
    graph = m.done(m.op("TanH", _first(m, total)))
    assert "Permute" not in ops(apply("dead-code", fires("permute-cancelling", graph))[1])


def test_an_output_between_gets_the_only_permutation() -> None:
    m = Maker()
    x = m.op("ReLU", _last(m, m.op("TanH", m.input(1, 3, 4, 5))))
    graph = m.done(x, m.op("TanH", _first(m, m.op("Sigmoid", x))))
    assert ops(apply("dead-code", fires("permute-cancelling", graph))[1]).count("Permute") == 1


def test_one_permutation_stays_where_it_is() -> None:
    m = Maker()
    stays("permute-cancelling", m.done(m.op("ReLU", _last(m, m.input(1, 3, 4, 5)))))
    m = Maker()
    y = m.op("ReLU", m.op("Permute", m.input(2, 3, 4), dims=[1, 2, 0]))
    stays("permute-cancelling", m.done(m.op("Permute", y, dims=[1, 2, 0])))


def test_two_operands_of_different_orders_are_left() -> None:
    m = Maker()
    x, z = m.input(1, 4, 4, 4), m.input(1, 4, 4, 4, name="z")
    graph = m.done(_first(m, m.binary("ADD", _last(m, m.op("TanH", x)), z)))
    stays("permute-cancelling", graph)


def _concat(m: Maker, x: Value) -> Value:
    return m.op("Concat", x, m.op("Sigmoid", x), axis=int(m.rng.integers(-4, 4)))


def _padded(m: Maker, x: Value) -> Value:
    return m.op("Padding", x, m.ints(*m.rng.integers(0, 3, 8).tolist()), m.const(0.5), mode="CONSTANT")


def _reduced(m: Maker, x: Value) -> Value:
    dims = sorted(m.rng.choice(4, 2, replace=False).tolist())
    return m.binary("MUL", x, m.op("Reduction", x, operation="MEAN", dim=dims, keepDims=True))


def _cut(m: Maker, x: Value) -> Value:
    return m.ops("Slice", 2, x, axis=int(m.rng.integers(-4, 4)), sourceType="TENSORFLOW", slicePoints=[2, -1])[1]


def test_what_is_given_out_may_be_used_once_more() -> None:
    """A permutation back whose result is an output of the model, of what others between the permutations take too."""
    m = Maker()
    x = _first(m, m.input(2, 4, 4, 3))
    y = m.op("TanH", m.op("ReLU", x))
    graph = m.done(_last(m, y), _last(m, m.op("Sigmoid", m.op("Concat", y, x, axis=2))), _last(m, y))
    after = apply("dead-code", fires("permute-cancelling", graph))[1]
    assert ops(after).count("Permute") == 2  # of one value two outputs of the model


def _window(m: Maker, x: Value) -> Value:
    return m.op("SliceTf", x, m.ints(0, 1, 0, 1), m.ints(-1, -1, -1, -1))


def _chosen(m: Maker, x: Value) -> Value:
    return m.op("Select", m.binary("GREATER", x, m.const(0.0)), x, m.noise(1, 1, 1))


def _quantized(m: Maker, x: Value) -> Value:
    scale, zero = m.const(0.05), m.const(3, np.int8)
    return m.op("DequantizeLinear", m.op("QuantizeLinear", x, scale, zero), scale, zero)


STEPS: list[Callable[[Maker, Value], Value]] = [
    _concat, _padded, _reduced, _cut, _window, _chosen, _quantized,
    lambda m, x: m.op("ReLU6", x),
    lambda m, x: m.op("UnaryOp", x, opType="SQUARE"),
    lambda m, x: m.op("Softmax", x, axis=int(m.rng.integers(-4, 4))),
    lambda m, x: m.binary("MUL", x, m.noise(int(m.rng.integers(0, 2)) or 1)),
    lambda m, x: m.binary("MAXIMUM", x, m.op("Sigmoid", x)),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_operators_between(seed: int) -> None:
    """A few operators, one after the other, between a permutation and its inverse, beside a second way out."""
    m = Maker(seed)
    order = m.rng.permutation(4).tolist()
    x = m.op("TanH", m.input(2, 5, 6, 7))
    y = m.op("Permute", x, dims=order)
    for _ in range(int(m.rng.integers(1, 5))):
        y = STEPS[int(m.rng.integers(len(STEPS)))](m, y)
    outputs = [m.op("ReLU", m.op("Permute", y, dims=np.argsort(order).tolist()))]
    if seed % 3 == 0:
        outputs.append(m.op("UnaryOp", y, opType="NEG"))
    graph = m.done(*outputs)
    after = apply("dead-code", apply("permute-cancelling", graph)[1])[1]
    if order != [0, 1, 2, 3]:
        assert ops(after).count("Permute") == (0 if seed % 3 else 1)
