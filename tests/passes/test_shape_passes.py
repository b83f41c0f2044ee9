"""shape-propagation and shape-folding."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.passes.arranging.shape_propagation import refine, run
from tests.passes.build import Maker, apply, fires, noise_for, ops, stays


def test_propagation_follows_names() -> None:
    m = Maker()
    x = m.input("batch", 3, 8, 8)
    y = m.op("ReLU", m.conv(x, 4, 3, strideX=2, strideY=2))
    graph = m.done(y)
    assert y.shape == ("batch", 4, 4, 4)
    assert y.dtype is DType.F32
    assert run(graph) == 0


def test_numbers_come_before_names_and_names_before_nothing() -> None:
    value = Value("v", DType.F32, ("batch", "unknown", 5))
    assert refine(value, [None, 7, "n"])
    assert value.shape == ("batch", 7, 5)
    assert not refine(value, [None, None, None])


@pytest.mark.parametrize(("dtype", "factor"), [("DT_INT32", 1 << 30), ("DT_INT64", 1 << 62)])
def test_numbers_beyond_their_type_are_left_to_what_runs(dtype: str, factor: int) -> None:
    m = Maker()
    sizes = m.op("Cast", m.op("Shape", m.input(2, 3, 5), outputDataType="DT_INT64"), dstT=dtype)
    kind = np.int32 if dtype == "DT_INT32" else np.int64
    graph = m.done(m.binary("MUL", sizes, m.const(factor, kind)))
    _, after = apply("shape-folding", graph)
    assert ops(after)[-1] == "MUL"


def test_known_sizes_become_constants() -> None:
    m = Maker()
    x = m.input("batch", 6, 4)
    size = m.op("GatherV2", m.op("Shape", x, outputDataType="DT_INT64"), m.const(1, np.int64), m.const(0, np.int32))
    half = m.op("Unsqueeze", m.binary("REALDIV", size, m.const(2, np.int64)), squeezeDims=[0])
    graph = m.done(m.op("StridedSlice", x, m.ints(0), half, m.ints(1), fromType=1))
    after = fires("dead-code", fires("shape-folding", graph))
    assert ops(after) == ["StridedSlice"]


def test_reshape_copies_and_works_out_sizes() -> None:
    m = Maker()
    x = m.input("batch", "length", 12)
    shape = m.op("Shape", x, outputDataType="DT_INT64")
    parts = [
        m.op("Unsqueeze", m.op("GatherV2", shape, m.const(i, np.int64), m.const(0, np.int32)), squeezeDims=[0])
        for i in (0, 1)
    ]
    target = m.op("Concat", *parts, m.ints(3), m.ints(4), axis=0)
    flat = m.op("Concat", parts[0], m.ints(-1), axis=0)
    graph = m.done(m.op("Reshape", x, target), m.op("Reshape", x, flat))
    after = fires("shape-folding", graph, feeds=noise_for(graph, batch=2, length=5))
    reshapes = [n for n in after.nodes if n.op == "Reshape"]
    assert [list(n.inputs[1].array()) for n in reshapes if n.inputs[1]] == [[0, 0, 3, 4], [0, -1]]


def test_two_unknown_sizes_stay() -> None:
    m = Maker()
    x, y = m.input("a", "b", 4), m.input("c", "d", name="y")
    graph = m.done(m.op("Reshape", x, m.op("Concat", m.op("Shape", y, outputDataType="DT_INT64"), m.ints(2), axis=0)))
    changes, _ = apply("shape-folding", graph, noise_for(graph, a=2, b=3, c=4, d=3))
    assert changes == 0


def test_names_that_mean_anything_are_not_equal() -> None:
    m = Maker()
    x = m.input("?", "?", 4)
    swapped = m.op("Permute", x, dims=[1, 0, 2])
    graph = m.done(m.op("Reshape", swapped, m.op("Shape", x, outputDataType="DT_INT64")))
    changes, _ = apply("shape-folding", graph, {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)})
    assert changes == 0


def test_minimum_of_unknown_sizes_stays() -> None:
    m = Maker()
    x = m.input("n", 4)
    n = m.op("StridedSlice", m.op("Shape", x, outputDataType="DT_INT64"), m.ints(0), m.ints(1), fromType=1)
    end = m.op("BinaryOp", n, m.ints(2), opType="MINIMUM")
    stays("shape-folding", m.done(m.op("StridedSlice", x, m.ints(0), end, m.ints(0), fromType=1)))


def test_slices_to_the_end_need_no_size() -> None:
    m = Maker()
    x = m.input("n", 4)
    n = m.op("StridedSlice", m.op("Shape", x, outputDataType="DT_INT64"), m.ints(0), m.ints(1), fromType=1)
    graph = m.done(m.op("StridedSlice", x, m.ints(1), n, m.ints(0), fromType=1))
    after = fires("shape-folding", graph)
    end = after.nodes[-1].inputs[2]
    assert end is not None
    assert end.is_const


def test_shape_comparisons_as_exporters_write_them() -> None:
    """where(shape == -1, 1, shape): a size is never -1."""
    m = Maker()
    x, cls = m.input("batch", 4), m.noise(1, 1, 4)
    batch = m.op("StridedSlice", m.op("Shape", x, outputDataType="DT_INT64"), m.ints(0), m.ints(1), fromType=1)
    target = m.op("Concat", batch, m.ints(-1, -1), axis=0)
    wanted = m.op("Select", m.binary("EQUAL", target, m.ints(-1, -1, -1)), m.ints(1, 1, 1), target)
    out = m.op("BroadcastTo", cls, wanted)
    graph = m.done(out)
    assert out.shape == ("batch", 1, 4)
    apply("shape-folding", graph, noise_for(graph, batch=2))
