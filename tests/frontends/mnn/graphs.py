"""Small graphs for tests of the .mnn front end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.frontends.mnn import graph_of, net_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.verify import verify
from MNN.schema import read_net, write_net
from tests.harness import run_reference


def const(name: str, array: object, dtype: type | None = None) -> Value:
    data = np.asarray(array, dtype)
    return Value(name, DType.of(data), tuple(data.shape), data)


def value(name: str, shape: tuple[int | str, ...] | None = None, dtype: DType = DType.F32) -> Value:
    return Value(name, dtype, shape)


def through_file(graph: Graph, **options: object) -> Graph:
    """The graph after being written to a file's bytes and read back."""
    data = write_net(net_of(graph, **options))  # type: ignore[arg-type]
    assert data is not None
    again = graph_of(read_net(data))
    verify(again, "read")
    return again


def assert_same_answers(graph: Graph, again: Graph, feeds: Mapping[str, np.ndarray]) -> None:
    """Names, types and bits of all outputs agree."""
    assert [v.name for v in again.inputs] == [v.name for v in graph.inputs]
    assert [(v.dtype, v.shape) for v in again.inputs] == [(v.dtype, v.shape) for v in graph.inputs]
    assert [v.name for v in again.outputs] == [v.name for v in graph.outputs]
    for before, after in zip(run_reference(graph, feeds), run_reference(again, feeds), strict=True):
        assert isinstance(before, np.ndarray)
        assert isinstance(after, np.ndarray)
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def small_net() -> tuple[Graph, dict[str, np.ndarray]]:
    """Convolution, PReLU, pooling, shape arithmetic and a product: constants inside of tables and beside them."""
    rng = np.random.default_rng(3)
    x = value("x", ("batch", 3, 8, 8))
    conv, act, pool = value("conv"), value("act"), value("pool")
    size, rows, flat, out = value("size", (4,), DType.I64), value("rows", None, DType.I64), value("flat"), value("out")
    weight = const("w", rng.standard_normal((4, 3, 3, 3)), np.float32)
    nodes = [
        Node("Convolution", "c", [x, weight, const("b", np.arange(4), np.float32)], [conv],
             {"kernelX": 3, "kernelY": 3, "pads": [1, 1, 1, 1], "relu6": True}),
        Node("PReLU", "p", [conv, const("slope", np.full((4, 1, 1), 0.25), np.float32)], [act]),
        Node("Pooling", "m", [act], [pool], {"kernelX": 2, "kernelY": 2, "strideX": 2, "strideY": 2,
                                              "pads": [0, 0, 0, 0], "ceilModel": False}),
        Node("Shape", "s", [pool], [size], {"outputDataType": "DT_INT64"}),
        Node("GatherV2", "g", [size, const("zero", [0], np.int64), const("axis", 0, np.int64)], [rows]),
        Node("Concat", "k", [rows, const("rest", [-1], np.int64)], [target := value("target", None, DType.I64)],
             {"axis": 0}),
        Node("Reshape", "r", [pool, target], [flat]),
        Node("MatMul", "mm", [flat, const("m", rng.standard_normal((64, 5)), np.float32)], [out]),
    ]  # fmt: skip
    graph = Graph("small", [x], [out, size], nodes, {"source": "ONNX", "metadata": {"author": "a test"}})
    return graph, {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}
