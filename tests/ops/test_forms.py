"""Forms of operators that ONNX models do not have but .mnn files do, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.ir.graph import Graph, Node, Value
from tests.harness import run_reference, run_session

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5) - 20
RUN = pytest.mark.parametrize("run", [run_reference, run_session])


def apply(run, op, inputs, outputs=1, **attrs):
    """One operator: arrays are inputs of the graph, ("const", x) constants."""
    graph, feeds, values = Graph("g"), {}, []
    for i, x in enumerate(inputs):
        if isinstance(x, tuple):
            values.append(Value(f"c{i}", data=np.asarray(x[1])))
        else:
            values.append(Value(f"x{i}"))
            graph.inputs.append(values[-1])
            feeds[f"x{i}"] = np.asarray(x)
    outs = [Value(f"y{i}") for i in range(outputs)]
    graph.nodes.append(Node(op, "node", values, outs, attrs))
    graph.outputs = outs
    return run(graph, feeds)


def const(*numbers):
    return ("const", np.asarray(numbers, np.int64))


@RUN
@pytest.mark.parametrize(
    ("masks", "begin", "end", "strides", "expected"),
    [
        ({}, (0, 1, -2), (2, 4, 5), (1, 2, 1), X[0:2, 1:4:2, -2:5]),
        ({"beginMask": 1, "endMask": 2}, (2, 1, 0), (2, 2, 5), (1, 1, 2), X[:2, 1:, 0:5:2]),
        ({"shrinkAxisMask": 1}, (-1, 0), (0, 3), (1, 1), X[-1, 0:3]),
        ({"newAxisMask": 1}, (0, 1), (0, 2), (1, 1), X[None, 1:2]),
        ({"ellipsisMask": 1}, (0, 3), (0, 1), (1, -1), X[..., 3:1:-1]),
        ({"ellipsisMask": 2, "shrinkAxisMask": 5}, (1, 0, 2), (0, 0, 0), (1, 1, 1), X[1, ..., 2]),
    ],
)
def test_strided_slice_with_masks(run, masks, begin, end, strides, expected):
    (y,) = apply(run, "StridedSlice", [X, const(*begin), const(*end), const(*strides)], **masks)
    assert np.array_equal(y, expected)


@RUN
def test_slice_points(run):
    parts = apply(run, "Slice", [X], 3, axis=1, slicePoints=[1, 3], sourceType="CAFFE")
    assert [p.shape[1] for p in parts] == [1, 2, 1]
    parts = apply(run, "Slice", [X], 2, axis=-1, slicePoints=[2, -1], sourceType="TORCH")
    assert [p.shape[2] for p in parts] == [2, 3]
    parts = apply(run, "Slice", [X], 2, axis=1, slicePoints=[2], sourceType="TENSORFLOW")
    assert np.array_equal(np.concatenate(parts, 1), X)
    parts = apply(run, "Unpack", [X], 4, axis=1)
    assert np.array_equal(np.stack(parts, 1), X)


@RUN
@pytest.mark.parametrize("mode", ["SYMMETRIC", "REFLECT", "EDGE"])
def test_padding(run, mode):
    (y,) = apply(run, "Padding", [X, const(1, 2, 0, 3, 4, 2)], mode=mode)
    assert np.array_equal(y, np.pad(X, ((1, 2), (0, 3), (4, 2)), mode.lower()))


@RUN
def test_small_operators(run):
    (y,) = apply(run, "SliceTf", [X, const(1, 0, 2), const(2, -1, 2)])
    assert np.array_equal(y, X[1:3, :, 2:4])
    (y,) = apply(run, "Pack", [X, X + 1], axis=2)
    assert np.array_equal(y, np.stack([X, X + 1], 2))
    (y,) = apply(run, "MatrixBandPart", [X, const(1), const(0)])
    assert np.array_equal(y, np.tril(X) - np.tril(X, -2))
    (y,) = apply(run, "LinSpace", [np.float32(1), np.float32(3), const(5)])
    np.testing.assert_allclose(y, np.linspace(1, 3, 5), rtol=1e-6)
    (y,) = apply(run, "Reverse", [X, const(1)])
    assert np.array_equal(y, X[:, ::-1])
    (y,) = apply(run, "Transpose", [X, const(2, 0, 1)])
    assert np.array_equal(y, X.transpose(2, 0, 1))
    (y,) = apply(run, "Rank", [X])
    assert y == 3
    (y,) = apply(run, "ExpandDims", [X], axis=-1)
    assert y.shape == (3, 4, 5, 1)
    (y,) = apply(run, "UnravelIndex", [np.array([7, 59]), const(3, 4, 5)])
    assert np.array_equal(y, np.stack(np.unravel_index([7, 59], (3, 4, 5))))
    (y,) = apply(run, "ScatterNd", [np.array([[1], [1]]), np.ones((2, 2), np.float32), const(3, 2)])
    assert y.tolist() == [[0, 0], [2, 2], [0, 0]]


@RUN
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("ANY", (X > 30).any(1)), ("ALL", (X > -100).all(1)), ("ASUM", np.abs(X).sum(1)), ("SUMSQ", (X * X).sum(1))],
)
def test_reductions(run, kind, expected):
    x = {"ANY": X > 30, "ALL": X > -100}.get(kind, X)
    (y,) = apply(run, "Reduction", [x], operation=kind, dim=[1])
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y, expected)


@RUN
def test_mixed_integers_meet_in_the_wider_one(run):
    (y,) = apply(run, "BinaryOp", [np.array([1, 2]), np.array([3, 4], np.int32)], opType="ADD")
    assert (y.dtype, y.tolist()) == (np.int64, [4, 6])
    (y,) = apply(run, "BinaryOp", [np.array([True, False]), np.array([3, 4], np.int32)], opType="MUL")
    assert (y.dtype, y.tolist()) == (np.int32, [3, 0])


@RUN
@pytest.mark.parametrize(("kind", "fn"), [("MOD", np.fmod), ("FLOORMOD", np.mod), ("FLOORDIV", np.floor_divide)])
def test_divisions_of_floats(run, kind, fn):
    x, y = np.array([7, -7, 7, -7, 5.5], np.float32), np.array([3, 3, -3, -3, 2], np.float32)
    (z,) = apply(run, "BinaryOp", [x, y], opType=kind)
    np.testing.assert_allclose(z, fn(x, y))


@RUN
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tail_of_erfc(run, dtype):
    """Relative to itself, down to the smallest normal number."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-6, 27, 3000), [0.5, np.inf, -np.inf, np.nan, 0.0]]).astype(dtype)
    want = np.vectorize(math.erfc)(x.astype(np.float64))
    (found,) = apply(run, "UnaryOp", [x], opType="ERFC")
    normal = want > np.finfo(dtype).tiny
    assert np.abs(found[normal] / want[normal] - 1).max() < 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(found[~normal], want[~normal], atol=2 * np.finfo(dtype).tiny)


_erf = np.vectorize(math.erf)


@RUN
@pytest.mark.parametrize(
    ("kind", "fn"),
    [
        ("ERFC", np.vectorize(math.erfc)),
        ("BNLL", lambda x: np.log1p(np.exp(x))),
        ("GELU", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ("GELU_STANDARD", lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))),
        ("SILU", lambda x: x / (1 + np.exp(-x))),
        ("HARDSWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6),
        ("SQUARE", lambda x: x**2),
    ],
)
def test_unary_kinds_without_onnx_operator(run, kind, fn):
    x = np.linspace(-4, 4, 41).astype(np.float32)
    (y,) = apply(run, "UnaryOp", [x], opType=kind)
    np.testing.assert_allclose(y, fn(x.astype(np.float64)), rtol=2e-6, atol=3e-7)


@RUN
def test_the_inverse_error_function(run):
    x = np.linspace(-0.99, 0.99, 41).astype(np.float32)
    (y,) = apply(run, "UnaryOp", [x], opType="ERFINV")
    np.testing.assert_allclose(_erf(y.astype(np.float64)), x, atol=1e-6)
    ends = np.array([-1, 1, 0, -2, 2, np.nan], np.float32)
    np.testing.assert_array_equal(
        apply(run, "UnaryOp", [ends], opType="ERFINV")[0], [-np.inf, np.inf, 0, np.nan, np.nan, np.nan]
    )
    (y,) = apply(run, "UnaryOp", [ends.astype(np.float64)], opType="ERFINV")
    np.testing.assert_array_equal(y, [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])
    x = np.concatenate([np.linspace(-0.99, 0.99, 41), 1 - 10.0 ** -np.arange(2, 17)])
    (y,) = apply(run, "UnaryOp", [x], opType="ERFINV")
    np.testing.assert_allclose([math.erfc(abs(v)) for v in y], 1 - np.abs(x), rtol=2e-14)
    np.testing.assert_array_equal(np.sign(y), np.sign(x))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("Reshape", [X, const(7, -1)], {}, "cannot reshape"),
        ("Reshape", [X, const(-1, -1)], {}, "at most one"),
        ("Tile", [X, const(1, 2)], {}, "do not fit"),
        ("Fill", [const(-1), np.float32(0)], {}, "is no shape"),
        ("Fill", [const(*[2**30] * 3), np.float32(0)], {}, "is no shape"),
        ("GatherV2", [np.zeros((2, 2), np.float32), np.array([0.5])], {}, "must be integers"),
        ("UnaryOp", [np.array([1])], {"opType": "SQRT"}, "needs floats"),
        ("UnaryOp", [X], {"opType": "NOPE"}, "is not one of"),
        ("BinaryOp", [X, X[:, :3]], {"opType": "ADD"}, "do not broadcast"),
        ("Concat", [X, X[0]], {"axis": 0}, "cannot concatenate"),
        ("Permute", [X], {"dims": [0, 0, 1]}, "is not a permutation"),
        ("TopKV2", [X, const(9)], {}, "cannot take the first"),
        ("OneHot", [np.array([1]), const(2**40), np.float32(1), np.float32(0)], {}, "counting to"),
        ("Range", [np.array(0), np.array(2**60), np.array(1)], {}, "range of"),
        ("Padding", [X, const(0, 2**30, 0, 0, 0, 0)], {"mode": "EDGE"}, "cannot pad"),
    ],
)
def test_misfits_are_named(op, inputs, attrs, message):
    outputs = 2 if op == "TopKV2" else 1
    with pytest.raises(MNNError, match=f"node.*{message}"):
        apply(run_reference, op, inputs, outputs, **attrs)
