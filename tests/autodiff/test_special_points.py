"""Gradients where a part of a function is infinite or has no derivative, though the whole has one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import MNN
from MNN.expr import build
from MNN.expr.fused.settings import lazily
from MNN.frontends import load_graph
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from tests.autodiff.checking import differentiated

F = MNN.expr
FAR = np.array([-1e4, -200, -100, -88.8, -30, -2, 0, 0.5, 20, 89, 100, 1e4], np.float32)
"""From -88.8 on downwards ``exp(-x)`` is infinite in f32."""


def slopes(made, x, times=1):
    """The derivative of a function of single numbers, or of a sum of its results, again and again."""
    var = build.leaf(np.asarray(x, np.float32), op="Trainable")
    with lazily():
        out = made(var)
        for _ in range(times):
            weight = F.const(np.ones(tuple(out.shape), np.float32), list(out.shape))
            (out,) = MNN.optim.Grad().grad([out], [weight], [var])[1]
    return out.read()


def logistic(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("form", ["sigmoid", "silu", "operator", "swish of a normalisation"])
def test_logistic_functions_that_are_saturated(form):
    x, s = FAR.astype(np.float64), logistic(FAR)
    first, second, third = s * (1 - s), s * (1 - s) * (1 - 2 * s), s * (1 - s) * (1 - 6 * s + 6 * s * s)
    wanted = [first, second, third]
    made = F.sigmoid
    if form != "sigmoid":
        wanted = [s + x * first, 2 * first + x * second, 3 * second + x * third]
        made = {"silu": lambda v: v * F.sigmoid(v), "operator": lambda v: build.apply("UnaryOp", v, opType="SILU")}.get(
            form, swish
        )
    for times, want in enumerate(wanted, 1):
        if form.startswith("swish"):
            found = slopes(made, FAR)
            assert np.isfinite(found).all()
            continue
        np.testing.assert_allclose(slopes(made, FAR, times), want, rtol=1e-4, atol=2e-6)


def swish(v):
    """Two groups of two numbers each, scaled so that the logistic function is saturated."""
    ones = F.const(np.full(12, 1e3, np.float32), [12])
    rows = F.reshape(v, [1, 12, 1, 1])
    return build.apply("GroupNorm", rows, ones, ones * 0.0, group=6, epsilon=1e-5, bSwish=1)


@pytest.mark.parametrize("kind", ["OnnxLSTM", "OnnxGRU"])
def test_recurrences_that_are_saturated(kind):
    """Gates of which the exponential is infinite, in second derivatives too."""
    rng, gates = np.random.default_rng(1), 4 if kind == "OnnxLSTM" else 3
    x = 200 * rng.normal(size=(3, 2, 4)).astype(np.float32)
    w, r = (F.const(rng.normal(size=s).astype(np.float32), s) for s in ([1, gates * 3, 4], [1, gates * 3, 3]))

    def made(v):
        return build.apply_all(kind, (v, w, r), 2, hidden_size=3)[0]

    for times in (1, 2):
        assert np.isfinite(slopes(made, x, times)).all()


ROWS = np.array([[0, 0, 0], [3, 4, 0]], np.float32)


def norms():
    def axes(v, op):
        return op(v, [1], True)

    def pooled(name, **attributes):
        return lambda v: build.apply(name, F.reshape(v, [1, 2, 1, 3]), **attributes)

    size = np.array([1.0, 5.0])[:, None]
    cubes = np.array([1.0, 91 ** (1 / 3)])[:, None]
    return {
        "root of squares": (lambda v: F.sqrt(axes(F.square(v), F.reduce_sum)), ROWS / size),
        "root of their mean": (lambda v: F.sqrt(axes(v * v, F.reduce_mean)), ROWS / size / np.sqrt(3)),
        "GlobalLpPool": (pooled("GlobalLpPool", p=2), ROWS / size),
        "GlobalLpPool of cubes": (pooled("GlobalLpPool", p=3), (ROWS / cubes) ** 2),
        "LpPool": (pooled("LpPool", kernel_shape=[1, 3], strides=[1, 1], p=2), ROWS / size),
        "LpPool of cubes": (pooled("LpPool", kernel_shape=[1, 3], strides=[1, 1], p=3), (ROWS / cubes) ** 2),
        "of rows that are normalised": (
            lambda v: F.reduce_sum(v / F.maximum(F.sqrt(axes(F.square(v), F.reduce_sum)), 1e-3), [1]),
            np.array([[1e3] * 3, (1 - 7 * ROWS[1] / 25) / 5]),
        ),
        "deviation": (
            lambda v: F.sqrt(F.moments(v, [1])[1]),
            np.array([[0] * 3, (ROWS[1] - 7 / 3) / 3 / ROWS[1].astype(float).std()]),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", norms())
def test_norms_of_nothing(name):
    """Where all terms are zero the gradient is zero, as torch has it."""
    made, wanted = norms()[name]
    np.testing.assert_allclose(slopes(made, ROWS), wanted, rtol=1e-5, atol=1e-6)


def test_squares_of_windows_have_second_derivatives_at_zero():
    made = norms()["GlobalLpPool"][0]
    matrix = (np.eye(3) - np.outer(ROWS[1], ROWS[1]) / 25) / 5  # the Hessian of a norm
    np.testing.assert_allclose(slopes(made, ROWS, 2)[1], matrix.sum(0), rtol=1e-5, atol=1e-6)


def test_inverse_error_function_in_its_middle():
    found = slopes(F.erfinv, [0.0, -0.5, 0.9])
    np.testing.assert_allclose(found, [0.8862269, 1.1125855, 3.4280386], rtol=1e-5)


KINKS = np.array([-3, -1, -0.0, 0.0, 0.5, 1, 3, 6], np.float32)
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


def kinks():
    """Functions with what torch 2.13 says of their slopes at :data:`KINKS`, the points where they bend among them."""
    below, inside = KINKS <= 0, (KINKS > 0) & (KINKS < 6)

    def rows(v):
        return F.reshape(v, [1, len(KINKS), 1, 1])

    exponential = np.where(below, np.exp(np.minimum(KINKS, 0.0)), 0)
    return {
        "relu": (F.relu, ~below),
        "leaky": (lambda v: F.relu(v, 0.1), np.where(below, 0.1, 1)),
        "prelu": (lambda v: F.prelu(rows(v), [0.25] * len(KINKS)), np.where(below, 0.25, 1)),
        "relu6": (F.relu6, inside),
        "hardtanh": (lambda v: F.relu6(v, -1.0, 1.0), (KINKS > -1) & (KINKS < 1)),
        "elu": (lambda v: F.elu(v, 0.7), np.where(below, 0.7 * exponential, 1)),
        "selu": (lambda v: F.selu(v, SCALE, ALPHA), SCALE * np.where(below, ALPHA * exponential, 1)),
        "hardswish": (
            lambda v: build.apply("UnaryOp", v, opType="HARDSWISH"),
            np.where(KINKS <= -3, 0, np.where(KINKS < 3, KINKS / 3 + 0.5, 1)),
        ),
        "abs": (F.abs, np.sign(KINKS)),
        "maximum": (lambda v: F.maximum(v, v * 1.0), np.ones(len(KINKS))),
        "maximum of two": (lambda v: F.maximum(v, F.square(v)), None),
    }


@pytest.mark.parametrize("name", kinks())
def test_slopes_where_functions_bend(name):
    made, wanted = kinks()[name]
    found = slopes(made, KINKS)
    if wanted is None:  # equal ones share: at 0 (1 + 0) / 2, at 1 (1 + 2) / 2
        wanted = np.where((KINKS < 0) | (KINKS > 1), 2 * KINKS, 1)
        wanted = np.where(KINKS == 0, 0.5, np.where(KINKS == 1, 1.5, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "settings", "wanted"),
    [("Celu", {"alpha": 0.7}, 1.0), ("Softplus", {}, 0.5), ("Mish", {}, np.tanh(np.log(2.0))), ("PRelu", {}, 0.25),
     ("Elu", {"alpha": 0.5}, 0.5), ("LeakyRelu", {"alpha": 0.1}, 0.1), ("Relu", {}, 0.0)],
)  # fmt: skip
def test_slopes_at_zero_from_onnx(operator, settings, wanted, tmp_path):
    """As torch has them, beside those of other numbers and without NaN where a branch that is not taken overflows."""
    x = np.array([-1e38, -100, -1, -1e-3, 0, 0, 1e-3, 1, 100, 1e38], np.float32)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [x.size])]
    if operator == "PRelu":  # slopes that are computed
        inputs.append(helper.make_tensor_value_info("slope", TensorProto.FLOAT, [1]))
    node = helper.make_node(operator, [v.name for v in inputs], ["y"], **settings)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [x.size])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), tmp_path / "m.onnx")
    found = load_graph(tmp_path / "m.onnx")
    feeds = {"x": x, "slope": np.array([0.25], np.float32)}
    _, taken, made = differentiated(found, feeds)
    (weight,) = (v.array() for n in found.nodes for v in n.inputs if v is not None and v.name == "weight0")
    result = dict(zip(taken, Executor(found, Config()).run({v: feeds[v.name] for v in taken}, made), strict=True))
    slopes = np.asarray(result[taken[0]]) / weight
    assert np.isfinite(slopes).all()
    np.testing.assert_allclose(slopes[4:6], wanted, rtol=1e-5, atol=1e-7)
    above = wanted if operator in ("Softplus", "Mish") else 1.0
    np.testing.assert_allclose(slopes[[3, 6]], [wanted, above], atol=2e-3)
    assert abs(slopes[-1] - 1) < 1e-5
