"""Sizes and numbers that are inferred of strided slices with TensorFlow's masks are numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.symbolic import evaluate
from MNN.ops.arranging.extents import MASKS, masked_index
from MNN.ops.inference.infer import ShapeInference
from MNN.passes.symbols import Symbols

CASES = 600


def drawn(rng: np.random.Generator, rank: int) -> tuple[list[int], list[list[int]]]:
    """Masks, and begins, ends and steps."""
    count = int(rng.integers(1, rank + 1))
    masks = [int(rng.integers(1 << count)) if rng.random() < 0.7 else 0 for _ in range(5)]
    masks[2] = 0 if rng.random() < 0.6 else 1 << int(rng.integers(count))  # one ellipsis at most
    masks[3] &= ~masks[2]
    masks[4] &= ~masks[2] & ~masks[3]
    bounds = [rng.integers(-8, 9, count).tolist() for _ in range(2)]
    return masks, [*bounds, rng.choice([1, 1, 1, 2, 3, -1, -2], count).tolist()]


def node(masks: list[int], bounds: list[list[int]], x: Value) -> Node:
    held = [np.array(b, np.int32) for b in bounds]
    operands = [Value(f"c{i}", DType.I32, a.shape, a) for i, a in enumerate(held)]
    return Node("StridedSlice", "slice", [x, *operands], [Value("y")], dict(zip(MASKS, masks, strict=True)))


@pytest.mark.parametrize("part", range(3))
def test_sizes(part: int) -> None:
    rng = np.random.default_rng(part)
    tried = 0
    for _ in range(CASES):
        rank = int(rng.integers(1, 5))
        sizes = rng.integers(0 if rng.random() < 0.1 else 1, 7, rank).tolist()
        shape = [f"n{i}" if rng.random() < 0.5 else d for i, d in enumerate(sizes)]
        masks, bounds = drawn(rng, rank)
        x = Value("x", DType.F32, tuple(shape))
        try:
            index = masked_index(masks, *bounds, rank)
            wanted = np.zeros(sizes)[tuple(index)].shape
        except IndexError:
            continue
        tried += 1
        (dtype, found), *_ = ShapeInference().infer(node(masks, bounds, x))
        assert dtype is DType.F32
        assert found is not None
        assert len(found) == len(wanted)
        values = {f"n{i}": d for i, d in enumerate(sizes)}
        for have, want in zip(found, wanted, strict=True):
            assert have is None or (have if isinstance(have, int) else evaluate(have, values)) == want, (shape, masks)
        known = all(isinstance(d, int) for d in shape)
        assert not known or None not in found
    assert tried > CASES // 2


def test_numbers_of_sizes() -> None:
    """What a model cuts out of a shape is known by name, for shape inference and for passes."""
    rng = np.random.default_rng(0)
    sizes = ("batch", 3, "length", 7)
    for _ in range(CASES // 3):
        masks, bounds = drawn(rng, 1)
        x, shape = Value("x", DType.F32, sizes), Value("shape", DType.I32, (4,))
        first, second = Node("Shape", "shape", [x], [shape]), node(masks, bounds, shape)
        try:
            wanted = np.array(sizes, object)[tuple(masked_index(masks, *bounds, 1))]
        except IndexError:
            continue
        graph = Graph("test", [x], [second.outputs[0]], [first, second])
        found = Symbols(graph.producers()).array(second.outputs[0])
        assert found is not None
        assert np.array_equal(found, np.asarray(wanted, object))
        inference = ShapeInference()
        inference.annotate(first)
        inference.annotate(second)
        numbers = inference.ints(second.outputs[0])
        assert numbers is not None
        assert numbers == list(np.asarray(wanted, object).reshape(-1))
