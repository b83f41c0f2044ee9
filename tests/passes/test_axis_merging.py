"""axis-merging: operators that only order axes and put in or take out those of size 1."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.arranging.axis_merging import PASS
from tests.passes.build import Maker, apply, fires, noise_for, ops, stays


def cleaned(graph, **sizes: int) -> list[str]:  # type: ignore[no-untyped-def]
    return ops(apply("dead-code", fires("axis-merging", graph, feeds=noise_for(graph, **sizes)))[1])


def test_a_convolution_of_one_dimension_with_channels_last() -> None:
    """Out of the image: [n, c, 1, w] to [n, w, c], and back to [n, c, w]."""
    m = Maker()
    x = m.op("TanH", m.input("n", 3, 1, 5))
    y = m.op("Squeeze", m.op("Permute", x, dims=[0, 2, 3, 1]), squeezeDims=[1])
    assert cleaned(m.done(m.op("Permute", y, dims=[0, 2, 1])), n=2) == ["TanH", "Squeeze"]


def test_functions_within_a_row_move_in_front() -> None:
    m = Maker()
    x = m.op("ReLU", m.conv(m.input("n", 3, 1, 5), 4, 3, 1))
    y = m.op("UnaryOp", m.op("Permute", x, dims=[0, 2, 3, 1]), opType="NEG")
    y = m.op("UnaryOp", m.op("Squeeze", y, squeezeDims=[1]), opType="ABS")
    graph = m.done(m.op("Permute", y, dims=[0, 2, 1]))
    assert cleaned(graph, n=2) == ["Convolution", "ReLU", "NEG", "ABS", "Squeeze"]


def test_functions_stay_that_others_use_or_where_nothing_is_gained() -> None:
    m = Maker()
    x = m.op("UnaryOp", m.op("Permute", m.input("n", 3, 1, 5), dims=[0, 2, 3, 1]), opType="NEG")
    y = m.op("Permute", m.op("Squeeze", x, squeezeDims=[1]), dims=[0, 2, 1])
    stays("axis-merging", m.done(y, x))
    m = Maker()
    x = m.op("UnaryOp", m.op("Permute", m.input(2, 3, 4), dims=[2, 0, 1]), opType="NEG")
    stays("axis-merging", m.done(m.op("Unsqueeze", x, squeezeDims=[1])))


def test_one_axis_of_size_one_is_as_good_as_another() -> None:
    m = Maker()
    x = m.op("TanH", m.input("n", 7, 1))
    y = m.op("Permute", m.op("Unsqueeze", x, squeezeDims=[1]), dims=[0, 3, 1, 2])
    assert cleaned(m.done(m.op("ReLU", m.op("Squeeze", y, squeezeDims=[2]))), n=2) == ["TanH", "Permute", "ReLU"]
    m = Maker()
    x = m.op("TanH", m.input(2, 1, 1, 7))
    y = m.op("Permute", m.op("Reshape", x, m.ints(2, 7, 1)), dims=[0, 2, 1])
    assert cleaned(m.done(y)) == ["TanH", "Squeeze"]


def test_what_moves_is_kept() -> None:
    m = Maker()
    x = m.op("Permute", m.op("Unsqueeze", m.input(2, 3, 4), squeezeDims=[1]), dims=[0, 3, 1, 2])
    stays("axis-merging", m.done(x))


def test_others_need_what_lies_between() -> None:
    m = Maker()
    inner = m.op("Permute", m.op("TanH", m.input(2, 3, 1, 4)), dims=[0, 2, 3, 1])
    stays("axis-merging", m.done(m.op("Squeeze", inner, squeezeDims=[1]), m.op("ReLU", inner)))
    m = Maker()
    inner = m.op("Permute", m.op("TanH", m.input(2, 3, 1, 4)), dims=[0, 2, 3, 1])
    stays("axis-merging", m.done(m.op("Squeeze", inner, squeezeDims=[1]), inner))


def test_sizes_that_are_not_known_may_be_one() -> None:
    m = Maker()
    x = m.op("Reshape", m.op("Permute", m.input("n", 3, "w"), dims=[0, 2, 1]), m.ints(-1, 3))
    stays("axis-merging", m.done(x))


def test_where_only_axes_of_size_one_move_a_reshape_is_enough() -> None:
    m = Maker()
    x = m.op("Permute", m.op("TanH", m.input("n", 1, 1, 7)), dims=[0, 2, 3, 1])
    assert cleaned(m.done(m.op("Squeeze", m.op("Squeeze", x, squeezeDims=[1]), squeezeDims=[2])), n=2)[-1] == "Squeeze"
    m = Maker()
    x = m.op("Permute", m.op("TanH", m.input("n", 1, 3, 1, 7)), dims=[0, 2, 3, 4, 1])
    y = m.op("Unsqueeze", m.op("Squeeze", x, squeezeDims=[2]), squeezeDims=[1, 2])
    assert cleaned(m.done(y), n=2) == ["TanH", "Reshape"]


def test_a_number_added_within_a_row_comes_to_stand_in_front() -> None:
    m = Maker()
    x = m.op("Permute", m.op("TanH", m.input("n", 1, 5, 7)), dims=[0, 2, 3, 1])
    x = m.op("BinaryOp", x, m.const(np.float32([2.0])), opType="ADD")
    assert cleaned(m.done(m.op("Squeeze", x, squeezeDims=[3])), n=2) == ["TanH", "ADD", "Squeeze"]


@pytest.mark.parametrize("seed", range(60))
def test_random_rows(seed: int) -> None:
    """Whatever the row, the numbers stay and no more operators come out than went in."""
    rng = np.random.default_rng(seed)
    m = Maker()
    shape = [int(n) for n in rng.choice([1, 1, 2, 3, 4], int(rng.integers(2, 5)))]
    x = m.op("TanH", m.input(*shape))
    count = int(rng.integers(2, 6))
    for _ in range(count):
        units = [i for i, d in enumerate(shape) if d == 1]
        kind = rng.integers(5)
        if kind == 0 and units:
            at = int(rng.choice(units))
            x, shape = m.op("Squeeze", x, squeezeDims=[at]), shape[:at] + shape[at + 1 :]
        elif kind == 1 and len(shape) < 6:
            at = int(rng.integers(len(shape) + 1))
            x, shape = m.op("Unsqueeze", x, squeezeDims=[at]), [*shape[:at], 1, *shape[at:]]
        elif kind == 2:
            shape = [d for d in shape if d != 1] or [1]
            x = m.op("Reshape", x, m.ints(*shape))
        elif kind == 3:
            number = rng.standard_normal((1,) * int(rng.integers(2) if shape else 0)).astype(np.float32)
            x = m.op(
                "BinaryOp", *[x, m.const(number)][:: int(rng.choice([1, -1]))], opType=str(rng.choice(["ADD", "SUB"]))
            )
        elif shape:
            order = [int(a) for a in rng.permutation(len(shape))]
            x, shape = m.op("Permute", x, dims=order), [shape[a] for a in order]
    graph = m.done(m.op("ReLU", x))
    before = len(graph.nodes)
    assert len(apply("dead-code", apply("axis-merging", graph, noise_for(graph))[1])[1].nodes) <= before


def test_nodes_without_operands_are_none_of_them() -> None:
    out = Value("y")
    graph = Graph("empty", [], [out], [Node("Optional", "optional", [], [out], {})])
    assert PASS.run(graph) == 0
