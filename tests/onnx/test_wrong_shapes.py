"""Shapes that do not fit are refused: while converting where that is certain then, else when the model runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.converter import convert
from MNN.errors import MNNError, ShapeError
from MNN.frontends.onnx import load
from MNN.frontends.onnx.operands import Operands, tell
from MNN.frontends.onnx.registry import known_operators
from MNN.ops.inference.shape_check import misfits
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.onnx.cases import _plain, node_cases

F = np.float32


def model(
    op: str, inputs: dict[str, tuple[Any, ...]], constants: dict[str, np.ndarray] | None = None, outputs: int = 1,
    opset: int = 17, before: str = "", **attrs: Any,
) -> onnx.ModelProto:  # fmt: skip
    """One node 'n', of whose operands the first goes through the operator ``before`` where that is given."""
    constants = constants or {}
    names = [*inputs, *constants]
    nodes = [helper.make_node(before, [names[0]], ["before"], name="b")] if before else []
    operands = ["before" if before and i == 0 else n for i, n in enumerate(names)]
    made = [f"y{i}" for i in range(outputs)]
    nodes.append(helper.make_node(op, operands, made, name="n", **attrs))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in made],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


CERTAIN = {
    "product": model("MatMul", {"x": (2, 3)}, {"w": ones(4, 5)}),
    "product behind another node": model("MatMul", {"x": ("n", 3)}, {"w": ones(4, 5)}, before="Relu"),
    "product of open sizes": model("MatMul", {"x": ("n", 3), "w": (4, "k")}),
    "batches": model("MatMul", {"x": (2, "n", 3), "w": (5, 3, 4)}),
    "product with a scalar": model("MatMul", {"x": ("n", 3), "w": ()}),
    "Gemm": model("Gemm", {"x": (2, 3)}, {"w": ones(4, 5)}),
    "Gemm turned": model("Gemm", {"x": ("n", 3)}, {"w": ones(3, 5)}, transB=1),
    "Gemm of three axes": model("Gemm", {"x": (2, 2, 3)}, {"w": ones(3, 5)}),
    "bias": model("Gemm", {"x": (2, 3)}, {"w": ones(3, 5), "b": ones(4)}),
    "bias of open rows": model("Gemm", {"x": ("n", 3)}, {"w": ones(3, 5), "b": ones(4)}),
    "sum": model("Add", {"x": (2, 3)}, {"b": ones(4)}),
    "sum of open sizes": model("Add", {"x": ("n", 3), "b": (4,)}),
    "choice": model("Where", {"x": ("n", 3)}, {"a": ones(4), "b": ones(3)}, before="IsNaN"),
    "convolution": model("Conv", {"x": (1, 3, 8, 8)}, {"w": ones(4, 5, 3, 3)}),
    "convolution of open planes": model("Conv", {"x": ("n", 3, "h", "w_")}, {"w": ones(4, 5, 3, 3)}),
    "groups": model("Conv", {"x": ("n", 6, "h", "w_")}, {"w": ones(4, 2, 3, 3)}, group=2),
    "depthwise": model("Conv", {"x": ("n", 6, "h", "w_")}, {"w": ones(4, 1, 3, 3)}, group=4),
    "window larger than its input": model("Conv", {"x": (1, 3, 2, 2)}, {"w": ones(4, 3, 3, 3)}),
    "transposed": model("ConvTranspose", {"x": ("n", 3, 8, 8)}, {"w": ones(4, 5, 3, 3)}),
    "reshape": model("Reshape", {"x": (2, 3)}, {"s": np.array([4, -1])}),
    "joined": model("Concat", {"x": ("n", 3), "b": ("n", 4, 5)}, axis=0),
    "joined sizes": model("Concat", {"x": ("n", 3), "b": ("m", 4)}, axis=0),
    "axis": model("Softmax", {"x": (2, 3)}, axis=5),
    "axis of a norm": model("LayerNormalization", {"x": (2, 3)}, {"w": ones(3)}, axis=2),
    "norm": model("LayerNormalization", {"x": ("n", 3)}, {"w": ones(4)}),
    "norm turned": model("LayerNormalization", {"x": (2, 3, 5)}, {"w": ones(5, 3)}, axis=1),
    "batch norm": model("BatchNormalization", {"x": ("n", 3, "h")}, dict.fromkeys("abcd", ones(4))),
    "pieces": model("Split", {"x": (7, 2)}, {"s": np.array([2, 2])}, outputs=2),
    "equal pieces": model("Split", {"x": (7, 2)}, outputs=2),
    "resize to nothing": model("Resize", {"x": (1, 1, 4, 4)}, {"r": ones(0), "s": ones(0)}),
    "expanded": model("Expand", {"x": (2, 3)}, {"s": np.array([2, 4])}),
    "turned": model("Transpose", {"x": (2, 3)}, perm=[0, 2, 1]),
    "tables of angles": model(
        "RotaryEmbedding",
        {"x": ("n", 4, 3, 8), "c": (50, 4), "s": (50, 5)},
        {"p": np.zeros((2, 3), np.int64)},
        opset=23,
    ),
    "squeezed": model("Squeeze", {"x": (2, 3)}, {"a": np.array([1])}),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_can_never_run_is_refused_while_converting(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "a.onnx", tmp_path / "a.mnn"
    onnx.save(CERTAIN[name], source)
    with pytest.raises(MNNError, match=r"'n(/\w+)?'"):
        convert(source, target)
    assert not target.exists()


def test_all_misfits_are_listed_with_their_shapes() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="first"),
        helper.make_node("Relu", ["p"], ["q"], name="behind"),
        helper.make_node("Add", ["x", "b"], ["r"], name="second"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_empty_tensor_value_info(n) for n in "qr"],
        [numpy_helper.from_array(ones(4, 5), "w"), numpy_helper.from_array(ones(4), "b")],
    )  # fmt: skip
    found = list(misfits(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))))
    assert len(found) == 2
    assert "'first'" in found[0]
    assert "'x' [2, 3]" in found[0]
    assert "'w' [4, 5]" in found[0]
    assert "'second'" in found[1]


def test_what_may_fit_is_converted(tmp_path: Path) -> None:
    fitting = {
        "open": model("MatMul", {"x": ("n", "k")}, {"w": ones(4, 5)}),
        "one": model("Add", {"x": (1, 3), "b": (4, 1)}),
        "claimed": model("MatMul", {"x": (2, 4)}, {"w": ones(4, 5)}, before="Relu"),
    }
    claim = helper.make_tensor_value_info("before", TensorProto.FLOAT, (7, 4))  # a wrong note of the exporter
    fitting["claimed"].graph.value_info.append(claim)
    for name, made in fitting.items():
        onnx.save(made, tmp_path / f"{name}.onnx")
        convert(tmp_path / f"{name}.onnx", tmp_path / f"{name}.mnn")
    (out,) = MNN.load(tmp_path / "claimed.mnn").run({"x": ones(2, 4)}).values()
    assert out.shape == (2, 5)


def test_branches_that_are_never_taken_may_not_fit(tmp_path: Path) -> None:
    out = [helper.make_empty_tensor_value_info("o")]
    wrong = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["o"], name="wrong")], "t", [], out)
    right = helper.make_graph([helper.make_node("Relu", ["x"], ["o"])], "e", [], out)
    node = helper.make_node("If", ["c"], ["y"], name="n", then_branch=wrong, else_branch=right)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(ones(4, 5), "w"), numpy_helper.from_array(np.array(False), "c")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "a.onnx")
    convert(tmp_path / "a.onnx", tmp_path / "a.mnn")
    (out_,) = MNN.load(tmp_path / "a.mnn").run({"x": ones(2, 3)}).values()
    assert out_.shape == (2, 3)


def changed(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """The array with one size, or the number of axes, changed."""
    shape = list(array.shape)
    at = rng.randrange(len(shape))
    kind = rng.choice(["more", "less", "double", "drop", "add", "shuffle"])
    if kind == "more":
        shape[at] += 1
    elif kind == "less":
        shape[at] = max(shape[at] - 1, 1)
    elif kind == "double":
        shape[at] *= 2
    elif kind == "drop":
        shape.pop(at)
    elif kind == "add":
        shape.insert(at, rng.choice([1, 2]))
    else:
        rng.shuffle(shape)
    return np.resize(array, shape)


STRICT = (
    "Add Sub Mul Div Pow Where And Equal MatMul Gemm Conv ConvTranspose Concat Reshape Transpose Gather GatherND "
    "GatherElements ScatterElements ScatterND LayerNormalization BatchNormalization InstanceNormalization Softmax "
    "DeformConv MaxUnpool NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss TopK Trilu GridSample "
    "RoiAlign LSTM Expand Tile Pad Slice Max Min Mean Sum"
).split()
"""Operators of which onnxruntime refuses nothing that has a meaning."""


def _peer(data: bytes, feeds: dict[str, np.ndarray]) -> list[Any] | None:
    """onnxruntime's answer; None when it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return list(onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds))
    except Exception:  # noqa: BLE001 - its own classes, which have no common base
        return None


def _ours(data: bytes, feeds: dict[str, np.ndarray]) -> list[Any] | None:
    """This engine's answer; None when it refuses. Nothing but an MNNError may come out."""
    try:
        graph = load(data)
        if list(misfits(graph)):
            return None
        optimize(graph)
        return list(Session(graph, Config(precision="high", reference=True)).run(feeds).values())
    except MNNError:
        return None


EQUAL_PIECES = {(1, 2): [1, 0], (4, 3): [2, 2, 0], (7, 4): [2, 2, 2, 1], (2, 4): None, (5, 4): None, (0, 2): [0, 0]}
"""Sizes of so many equal pieces of an axis: only the last may be smaller (onnxruntime before 1.32 has no empty one)."""


@pytest.mark.parametrize(("size", "count"), EQUAL_PIECES)
def test_only_the_last_of_equal_pieces_may_be_smaller(size: int, count: int) -> None:
    made = model("Split", {"x": ("n", 2)}, outputs=count, opset=18, num_outputs=count)
    got, wanted = _ours(made.SerializeToString(), {"x": ones(size, 2)}), EQUAL_PIECES[size, count]
    assert (got and [a.shape[0] for a in got]) == wanted


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("seed", range(6))
def test_changed_shapes_are_refused_like_onnxruntime_does(seed: int) -> None:
    """onnx's own cases with the shape of one operand changed: refused where onnxruntime refuses, the same answer where
    it gives one, and never another exception."""
    rng = random.Random(seed)
    refused = agreed = 0
    cases = [c for c in node_cases().values() if not c.name.endswith("_expanded") and c.data_sets]
    for case in rng.sample(cases, 400):
        made = onnx.ModelProto.FromString(case.model.SerializeToString())
        opset = max(o.version for o in made.opset_import)
        given = [v for v in made.graph.input if v.type.WhichOneof("value") == "tensor_type"]
        if len(given) != len(made.graph.input) or len(given) != len(case.data_sets[0][0]) or opset > 24:
            continue
        feeds = {v.name: _plain(a) for v, a in zip(given, case.data_sets[0][0], strict=True)}
        value = rng.choice(given)
        old = feeds[value.name]
        if not isinstance(old, np.ndarray) or not old.ndim or not old.size or old.dtype.kind not in "fiub":
            continue
        if _peer(made.SerializeToString(), feeds) is None:  # a form that it does not have
            continue
        feeds[value.name] = changed(old, rng)
        if old.dtype.kind == "i" and np.squeeze(feeds[value.name]).shape == np.squeeze(old).shape:
            continue  # a number or a list of one, which is the same
        value.type.CopyFrom(helper.make_tensor_type_proto(value.type.tensor_type.elem_type, feeds[value.name].shape))
        for out in made.graph.output:
            out.type.tensor_type.ClearField("shape")
        data = made.SerializeToString()
        got, wanted = _ours(data, feeds), _peer(data, feeds)
        what = f"{case.name}: {value.name} {old.shape} became {feeds[value.name].shape}"
        if made.graph.node[0].op_type not in STRICT or len(made.graph.node) > 1:
            continue
        if wanted is None:
            assert got is None, f"{what}: an answer of shape {np.shape(got[0])} where there is none"
            refused += 1
        elif got is not None:
            for a, b in zip(got, wanted, strict=True):
                assert np.shape(a) == np.shape(b), what
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=what)
            agreed += 1
    assert refused > 20
    assert agreed > 10


def test_an_error_at_run_time_names_the_node() -> None:
    """Sizes that are open may turn out wrong."""
    session = Session(load(model("MatMul", {"x": ("n", "k")}, {"w": ones(4, 5)}).SerializeToString()))
    with pytest.raises(ShapeError, match=r"'n'.*\[2, 3\].*\[4, 5\]"):
        session.run({"x": ones(2, 3)})


def test_operands_are_told_once() -> None:
    assert ("", "Reshape") in known_operators()
    with pytest.raises(ValueError, match="the operands of ONNX operator Reshape are told twice"):
        tell("Reshape", Operands(lists=(1,)))
