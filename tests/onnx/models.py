"""Small models that tests of the loader build on."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def value(name, shape=(3,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs=("x",), outputs=("y",), initializers=(), opset=18, functions=(), **domains):
    """A model of float vectors; ``initializers`` are (name, array) pairs."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [v if isinstance(v, onnx.ValueInfoProto) else value(v) for v in inputs],
        [v if isinstance(v, onnx.ValueInfoProto) else value(v, None) for v in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in initializers],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in domains.items())]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def conv_net():
    """A convolution, normalisation, activation, pooling and a product."""
    rng = np.random.default_rng(0)
    weights = [
        ("w", rng.normal(size=(8, 3, 3, 3)).astype(np.float32)),
        ("b", rng.normal(size=8).astype(np.float32)),
        ("m", rng.normal(size=(8, 5)).astype(np.float32)),
        ("shape", np.array([0, -1])),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"], axis=-1),
    ]
    return model(nodes, [value("x", ["n", 3, 8, 8])], ["y"], weights)


def control_net():
    """A branch and a loop that use values from outside."""
    double = helper.make_graph([helper.make_node("Add", ["x", "x"], ["t"])], "then", [], [value("t")])
    minus = helper.make_graph([helper.make_node("Sub", ["x", "one"], ["e"])], "else", [], [value("e")])
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "x"], ["v2"]),
            helper.make_node("ReduceSum", ["v2"], ["s"], keepdims=0),
            helper.make_node("Less", ["s", "limit"], ["go"]),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")],
        [value("go", (), TensorProto.BOOL), value("v2"), value("s", ())],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "limit"], ["big"]),
        helper.make_node("If", ["big"], ["start"], then_branch=double, else_branch=minus),
        helper.make_node("Loop", ["", "", "start"], ["y", "sums"], body=body),
    ]
    scalars = [("one", np.float32(1)), ("limit", np.float32(10))]
    return model(nodes, ["x"], ["y", "sums"], scalars)


def function_net():
    """Calls of model-local functions: nested, with attributes, defaults and optional inputs."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    scale = helper.make_function(
        "own",
        "Scale",
        ["x"],
        ["y"],
        [_constant("value_float", "factor"), helper.make_node("Mul", ["x", "k"], ["y"])],
        opsets,
        [],
        [helper.make_attribute("factor", 3.0)],
    )
    twice = helper.make_function(
        "own",
        "Twice",
        ["a", "b"],
        ["z"],
        [
            helper.make_node("Scale", ["a"], ["h"], domain="own"),
            helper.make_node("Scale", ["h"], ["h2"], domain="own", factor=0.5),
            helper.make_node("Clip", ["h2", "b"], ["z"]),
        ],
        opsets,
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="own", name="first"),
        helper.make_node("Twice", ["h", "low"], ["y"], domain="own", name="second"),
    ]
    return model(nodes, ["x"], ["y"], [("low", np.float32(-1))], functions=[scale, twice], own=1)


def _constant(kind, attribute):
    node = helper.make_node("Constant", [], ["k"])
    reference = onnx.AttributeProto(name=kind, type=onnx.AttributeProto.FLOAT, ref_attr_name=attribute)
    node.attribute.append(reference)
    return node
