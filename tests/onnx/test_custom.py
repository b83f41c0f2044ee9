"""Custom operators: the page in the docs works as printed, and misuse is told plainly."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from MNN.errors import MNNError, RunError
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.onnx import load
from MNN.ops.custom import REQUIRED, CustomOperator, TensorType, register_operator, unregister_operator
from tests.harness import run_reference

PAGE = Path(__file__).parents[2] / "docs" / "custom-operators.md"


def model(node, outputs=("y",)):
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("t", 1)])


@pytest.fixture
def registered():
    """Registers a class for one test."""
    names = []

    def add(cls):
        register_operator(cls)
        names.append((cls.onnx_type or cls.__name__, cls.domain))
        return cls

    yield add
    for name in names:
        unregister_operator(*name)


def test_the_page_runs_as_printed():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    scope: dict = {}
    try:
        exec(compile(code, str(PAGE), "exec"), scope)
        x = np.array([-3, -0.5, 0.25, 1, 9], np.float32)
        counts, positive = run_reference(scope["graph"], {"x": x})
        soft = 2 * np.tanh(x / 2)
        assert counts.tolist() == np.histogram(soft, 4, (-2, 2))[0].tolist()
        np.testing.assert_allclose(positive, soft[soft > 0], rtol=1e-6)
    finally:
        for name in ("SoftClip", "Histogram", "Positive"):
            unregister_operator(name, "com.example")


def test_unregistered_operator_is_listed_with_advice():
    with pytest.raises(UnsupportedModelError, match=r"MyOp \(domain t, opset 1\)[\s\S]*register_operator"):
        load(model(helper.make_node("MyOp", ["x"], ["y"], domain="t", name="the_node")))


def test_attributes_reach_the_class(registered):
    seen = {}

    @registered
    class Everything(CustomOperator):
        domain = "t"
        attributes = {"i": 0, "f": 0.0, "s": "", "ints": [], "t": None, "left_out": 7, "must": REQUIRED}

        def infer(self, attributes, x):
            return x

        def compute(self, attributes, x):
            seen.update(attributes)
            return x

    tensor = helper.make_tensor("t", TensorProto.INT64, [2], [4, 5])
    node = helper.make_node("Everything", ["x"], ["y"], domain="t", i=3, f=0.5, s="text", ints=[1, 2], t=tensor, must=1)
    run_reference(load(model(node)), {"x": np.zeros(3, np.float32)})
    assert (seen["i"], seen["f"], seen["s"], seen["ints"], seen["left_out"]) == (3, 0.5, "text", [1, 2], 7)
    assert seen["t"].tolist() == [4, 5]
    del node.attribute[:]
    with pytest.raises(MNNError, match="attribute 'must' is missing"):
        load(model(node))
    node.attribute.append(helper.make_attribute("must", 1))
    node.attribute.append(helper.make_attribute("strange", 1))
    with pytest.raises(UnsupportedModelError, match="attribute 'strange'"):
        load(model(node))


def test_outputs_that_differ_from_the_promise_and_exceptions_are_errors(registered):
    @registered
    class Liar(CustomOperator):
        domain = "t"
        attributes = {"fail": 0}

        def infer(self, attributes, x):
            return TensorType(x.dtype, (7,))

        def compute(self, attributes, x):
            if attributes["fail"]:
                raise ZeroDivisionError("oh")
            return x

    feeds = {"x": np.zeros(3, np.float32)}
    with pytest.raises(RunError, match="infer promised"):
        run_reference(load(model(helper.make_node("Liar", ["x"], ["y"], domain="t"))), feeds)
    with pytest.raises(RunError, match="ZeroDivisionError: oh"):
        run_reference(load(model(helper.make_node("Liar", ["x"], ["y"], domain="t", fail=1))), feeds)


def test_misuse_of_registration(registered):
    with pytest.raises(MNNError, match="derive a class"):
        register_operator(int)

    class Nothing(CustomOperator):
        domain = "t"

    with pytest.raises(MNNError, match="has no meaning"):
        register_operator(Nothing)

    class Twice(CustomOperator):
        domain = "t"

        def compute(self, attributes, x):
            return x

    registered(Twice)
    with pytest.raises(MNNError, match="registered already"):
        register_operator(Twice)

    class Softmax(CustomOperator):
        def compute(self, attributes, x):
            return x

    with pytest.raises(MNNError, match="built in"):
        register_operator(Softmax)
    with pytest.raises(MNNError, match="no custom operator"):
        unregister_operator("Never", "t")


def test_override_of_a_standard_operator():
    class Relu(CustomOperator):
        def compute(self, attributes, x):
            return x + 100

    register_operator(override=True)(Relu)
    try:
        (y,) = run_reference(load(model(helper.make_node("Relu", ["x"], ["y"]))), {"x": np.zeros(3, np.float32)})
        assert y.tolist() == [100, 100, 100]
    finally:
        unregister_operator("Relu")
