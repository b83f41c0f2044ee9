"""Gradients of operators: against finite differences in float64, and compiled kernels against the reference."""

from __future__ import annotations

import os

import numpy as np
import pytest

from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from MNN.runtime.session import Session
from tests.autodiff import table
from tests.autodiff.cases import (
    FAMILIES,
    UNCHECKED,
    NoFloatsError,
    contrib_cases,
    graph_of,
    onnx_cases,
    random_cases,
    run,
)
from tests.autodiff.checking import REFERENCE, differentiated

COUNT = int(os.environ.get("MNN_TEST_GRADIENTS", "2"))
"""Cases of each operator, and of each random family."""
TOLERANCE, SECOND = 1e-5, 1e-4


@pytest.mark.parametrize("operator", sorted(onnx_cases()))
def test_cases_of_onnx(operator):
    for made in onnx_cases()[operator][:COUNT]:
        try:
            found = run(made)
        except NoFloatsError:
            continue
        except MNNError:
            assert operator in UNCHECKED
            continue
        if operator in UNCHECKED:
            continue
        assert found.counted, made.name
        assert found.error < TOLERANCE, (made.name, found.worst)


def test_cases_of_onnxruntime():
    for made in contrib_cases():
        if made.operator in UNCHECKED:
            continue
        try:
            found = run(made, directions=2)
        except (NoFloatsError, UnsupportedError):
            continue
        assert found.error < SECOND, (made.name, found.worst)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_cases(family):
    counted = 0
    for made in random_cases(family, 3 * COUNT):
        try:
            found = run(made)
        except NoFloatsError:
            continue
        counted += found.counted
        assert found.error < SECOND, (made.name, found.worst)
    assert counted


@pytest.mark.parametrize("family", FAMILIES)
def test_second_derivatives(family):
    for made in random_cases(family, COUNT):
        try:
            found = run(made, second=True)
        except NoFloatsError:
            continue
        assert found.error < SECOND, (made.name, found.worst)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels(family):
    """Compiled gradients in f32 are those of the reference implementation in float64."""
    for made in random_cases(family, COUNT):
        if any(
            isinstance(a, np.ndarray) and a.dtype not in (np.float32, np.int64, np.int32) for a in made.feeds.values()
        ):
            continue
        narrow, feeds = graph_of(made, settings=True, wide=False)
        wide, wide_feeds = graph_of(made, settings=True)
        try:
            _, _, fetch = differentiated(narrow, feeds)
            _, _, wanted = differentiated(wide, wide_feeds)
        except LookupError:
            continue
        got = Executor(narrow, Config(precision="high")).run(
            {v: feeds[v.name] for v in narrow.inputs if not v.is_const}, fetch
        )
        want = Executor(wide, REFERENCE).run({v: wide_feeds[v.name] for v in wide.inputs if not v.is_const}, wanted)
        for a, z in zip(got, want, strict=True):
            assert np.abs(np.asarray(a) - np.asarray(z)).max(initial=0) <= 2e-4 * max(
                np.abs(np.asarray(z)).max(initial=0), 1e-3
            ), made.name


def test_the_table_is_current():
    assert len(table.read()) >= 150
    assert {row.operator for row in table.read() if row.error >= SECOND} == set()


def _graph(op, attrs, *inputs, outputs=1):
    made = [Value(f"y{i}") for i in range(outputs)]
    return Graph("g", [v for v in inputs if not v.is_const], made, [Node(op, "node", list(inputs), made, attrs)])


def _gradient(graph, loss, *wrt):
    made = [Value(f"d{v.name}") for v in wrt]
    graph.nodes.append(Node("Gradient", "gradient", [loss, *wrt], made))
    graph.outputs = made
    return graph


X = {"x": np.array([1.0, 2.0], np.float32)}


def test_loss_that_is_no_scalar():
    x = Value("x", DType.F32, (2,))
    graph = _graph("UnaryOp", {"opType": "EXP"}, x)
    with pytest.raises(ShapeError, match=r"one number, .* has the shape \[2\]; reduce it"):
        Session(_gradient(graph, graph.outputs[0], x)).run(X)


def test_gradient_of_an_integer():
    x, n = Value("x", DType.F32, (2,)), Value("n", DType.I32, (2,))
    graph = _graph("BinaryOp", {"opType": "MUL"}, x, x)
    graph.inputs.append(n)
    total = Value("total")
    axes = Value("axes", DType.I64, (1,), np.array([0]))
    graph.nodes.append(Node("Reduction", "sum", [graph.outputs[0], axes], [total], {"operation": "SUM"}))
    with pytest.raises(ShapeError, match="'n' is asked for, which holds i32: only floats have gradients"):
        Session(_gradient(graph, total, n)).run({**X, "n": np.array([1, 2], np.int32)})


def test_gradient_across_sizes_that_depend_on_numbers():
    x = Value("x", DType.F32, (2,))
    cond = Value("c", DType.BOOL, (2,))
    y, total = Value("y"), Value("total")
    axes = Value("axes", DType.I64, (1,), np.array([0]))
    nodes = [
        Node("Compress", "pick", [x, cond], [y], {"axis": 0}),
        Node("Reduction", "sum", [y, axes], [total], {"operation": "SUM"}),
    ]
    graph = _gradient(Graph("g", [x, cond], [total], nodes), total, x)
    with pytest.raises(UnsupportedError, match=r"Compress 'pick'.*gradients do not reach across"):
        Session(graph).run({**X, "c": np.array([True, False])})


def test_what_is_not_used_has_gradient_zero():
    x, u = Value("x", DType.F32, (2,)), Value("u", DType.F32, (3,))
    total = Value("total")
    axes = Value("axes", DType.I64, (1,), np.array([0]))
    graph = Graph("g", [x, u], [total], [Node("Reduction", "sum", [x, axes], [total], {"operation": "SUM"})])
    found = Session(_gradient(graph, total, x, u)).run({**X, "u": np.ones(3, np.float32)})
    assert found["dx"].tolist() == [1, 1]
    assert found["du"].tolist() == [0, 0, 0]


def test_a_branch_that_is_not_taken_gives_nothing():
    """exp overflows where the branch was not taken, as in elu."""
    x = Value("x", DType.F32, (2,))
    graph = _graph("ELU", {"alpha": 1.0}, x)
    total = Value("total")
    axes = Value("axes", DType.I64, (1,), np.array([0]))
    graph.nodes.append(Node("Reduction", "sum", [graph.outputs[0], axes], [total], {"operation": "SUM"}))
    found = Session(_gradient(graph, total, x)).run({"x": np.array([1000.0, -1.0], np.float32)})["dx"]
    assert found[0] == 1
    assert abs(found[1] - np.exp(-1)) < 1e-6


@pytest.mark.parametrize("config", [Config(precision="high"), REFERENCE])
def test_a_smooth_function_that_is_made_of_parts_with_kinks(config):
    """Softplus, at the kink of its parts."""
    x = Value("x", DType.F32, (3,))
    graph = _graph("UnaryOp", {"opType": "BNLL"}, x)
    (y,), axes = graph.outputs, Value("axes", DType.I64, (1,), np.array([0]))
    total, slope, sum_of, second = Value("total"), Value("slope"), Value("sum"), Value("second")
    graph.nodes += [
        Node("Reduction", "sum", [y, axes], [total], {"operation": "SUM"}),
        Node("Gradient", "gradient", [total, x], [slope]),
        Node("Reduction", "sum of slopes", [slope, axes], [sum_of], {"operation": "SUM"}),
        Node("Gradient", "second", [sum_of, x], [second]),
    ]
    numbers = np.array([0.0, -0.0, 2.0])
    found = Executor(graph, config).run({x: numbers.astype(np.float32)}, [y, slope, second])
    share = 1 / (1 + np.exp(-numbers))
    for got, want in zip(found, (np.log1p(np.exp(numbers)), share, share * (1 - share)), strict=True):
        assert np.abs(np.asarray(got) - want).max() < 1e-6


def test_a_tensor_on_the_way_from_another():
    """Each has its whole gradient, whichever others are asked for."""
    x, w = Value("x", DType.F32, (3,)), Value("w", DType.F32, (3,))
    y, square, loss, axes = Value("y"), Value("square"), Value("loss"), Value("axes", DType.I64, (1,), np.array([0]))
    nodes = [
        Node("BinaryOp", "product", [x, w], [y], {"opType": "MUL"}),
        Node("UnaryOp", "square", [y], [square], {"opType": "SQUARE"}),
        Node("Reduction", "sum", [square, axes], [loss], {"operation": "SUM"}),
    ]
    feeds = {"x": np.float32([1, 2, 3]), "w": np.float32([4, 5, 6])}
    wanted = {w: [8, 40, 108], y: [8, 20, 36], x: [32, 100, 216]}
    for asked in ([w, y], [y, w], [x, y, w], [y, x]):
        slopes = [Value(f"slope{i}") for i in range(len(asked))]
        gradient = Node("Gradient", "gradient", [loss, *asked], slopes)
        found = Session(Graph("example", [x, w], slopes, [*nodes, gradient])).run(feeds)
        assert [found[v.name].tolist() for v in slopes] == [wanted[v] for v in asked]
