"""Windows over images whose height and width are open: every residue of a stride, against ONNX Runtime.

Where a window ends depends on what a size leaves when it is divided by the stride, so sizes of all residues are run on
one plan, and a plan must not be made for those alone that were tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.base import poison
from MNN.compiler.open.errors import NotOpenError
from MNN.compiler.open.guards import check_comparisons
from MNN.ir.traced import Trace
from MNN.runtime.range_planner import RangePlanner

KINDS = ("Conv", "MaxPool", "AveragePool", "ConvTranspose")


def same_network(rng: np.random.Generator, kind: str, kernel: int, stride: int, mode: str) -> bytes:
    """A window whose padding is nothing at some of its open sizes."""
    window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": mode}
    weight = rng.standard_normal((8, 4, kernel, kernel)).astype(np.float32)
    found = [numpy_helper.from_array(weight, "w")] if kind == "Conv" else []
    node = helper.make_node(kind, ["x", *(["w"] if found else [])], ["y"], **window)
    info = helper.make_tensor_value_info
    x, y = info("x", TensorProto.FLOAT, [1, 4, "height", "width"]), info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "same", [x], [y], found)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    text: bytes = model.SerializeToString()
    return text


def network(rng: np.random.Generator, kind: str) -> bytes:
    """A window with random parameters and what follows it, on images of open sizes."""
    kernel, stride = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    before, after = rng.integers(0, kernel, 2).tolist()
    channels, found = int(rng.choice([3, 8, 20])), []
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [before] * 2 + [after] * 2,
    }  # fmt: skip
    if kind in ("Conv", "ConvTranspose"):
        shape = (16, channels) if kind == "Conv" else (channels, 16)
        found = [numpy_helper.from_array(rng.standard_normal((*shape, kernel, kernel)).astype(np.float32), "w")]
        attributes["dilations"] = [int(rng.integers(1, 3))] * 2
    else:
        attributes["ceil_mode"] = int(rng.integers(0, 2))
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(rng.integers(0, 2))
    nodes = [helper.make_node(kind, ["x", *(["w"] if found else [])], ["y"], **attributes)]
    nodes.append(helper.make_node("Relu", ["y"], ["z"]))
    info = helper.make_tensor_value_info
    x = info("x", TensorProto.FLOAT, [1, channels, "height", "width"])
    graph = helper.make_graph(nodes, "windows", [x], [info("z", TensorProto.FLOAT, None)], found)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    text: bytes = model.SerializeToString()
    return text


@pytest.mark.parametrize(
    ("kind", "kernel", "stride"),
    [("Conv", 2, 2), ("Conv", 2, 3), ("Conv", 3, 3), ("Conv", 5, 3), ("MaxPool", 2, 2), ("AveragePool", 3, 3)],
)
def test_same_padding_that_is_nothing_at_some_sizes(
    kind: str, kernel: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is in a range, which holds for all of them."""
    monkeypatch.setenv(poison.VARIABLE, "1")
    rng = np.random.default_rng([kernel, stride])
    source = same_network(rng, kind, kernel, stride, ("SAME_UPPER", "SAME_LOWER")[kernel % 2])
    reference, model = ort.InferenceSession(source), MNN.load(source)
    ranged = 0
    for height, width in [(40, 44), (41, 45), *rng.integers(32, 127, (8, 2)).tolist(), (42, 42), (36, 36)]:
        x = rng.standard_normal((1, 4, height, width)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        found = model.run({"x": x})["y"]
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max(), (height, width)
        ranged += model.plans_used()[0].bound.program.open_sizes is not None
    assert ranged == 11


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_answers_at_every_residue(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    source = network(rng, kind)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    reference, model = ort.InferenceSession(source, options), MNN.load(source)
    channels = model.inputs["x"].shape[1]
    first = np.array([[40, 44], [41, 45]])
    for height, width in np.concatenate([first, rng.integers(32, 60, (10, 2))]).tolist():
        x = rng.standard_normal((1, channels, height, width)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        found = model.run({"x": x})["z"]
        assert found.shape == wanted.shape, (height, width)
        np.testing.assert_allclose(found, wanted, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("kind", ["Conv", "MaxPool", "AveragePool"])
def test_they_have_a_plan_for_a_range(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    plan = RangePlanner.plan
    monkeypatch.setattr(RangePlanner, "plan", lambda *given: planned.append(plan(*given)) or planned[-1])
    rng = np.random.default_rng(3)
    model = MNN.load(network(rng, kind))
    channels = model.inputs["x"].shape[1]
    for size in (40, 42, 57):
        model.run({"x": rng.standard_normal((1, channels, size, 44)).astype(np.float32)})
    assert len(planned) == 1


def test_what_has_no_plan_for_a_range_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, plan = [], RangePlanner.plan

    def counted(*given: Any) -> Any:
        tried.append(given)
        return plan(*given)

    monkeypatch.setattr(RangePlanner, "plan", counted)
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Transpose", ["at"], ["y"])]
    given, found = info("x", TensorProto.FLOAT, ["n", 4]), info("y", TensorProto.INT64, None)
    graph = helper.make_graph(nodes, "places", [given], [found])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model = MNN.load(made.SerializeToString())
    for size in (40, 42, 44, 57, 61):
        x = (np.arange(size * 4).reshape(size, 4) % 3 > 0).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], np.argwhere(x))
    assert len(tried) <= 1


def test_branches_that_other_sizes_would_take() -> None:
    """A number that is the same at all sizes tried, and would be another at others, is found out."""
    traces = [Trace({"n": n}, {"n": 64}) for n in (7, 31, 61)]
    for trace in traces:
        assert trace.size("n") >= 7
        assert trace.size("n") % 2 != 0
    with pytest.raises(NotOpenError, match="not at"):
        check_comparisons(traces, [(7, 61)])
    same = [Trace(t.numbers, t.rooms) for t in traces]
    for trace in same:
        assert trace.size("n") > 3
        assert trace.size("n") // 2 < 40
    check_comparisons(same, [(7, 61)])


def test_comparisons_with_other_numbers_than_ints() -> None:
    size = Trace({"n": 5}, {"n": 8}).size("n")
    assert size < 5.5
    assert size <= 5.0
    assert size > np.float32(4.5)
    assert size == np.int64(5)
    assert size != np.int64(6)
    assert size != "5"
    assert not size.trace.compared  # type: ignore[attr-defined]


def test_branches_that_the_tried_sizes_take_differently_are_compared_elsewhere() -> None:
    traces = [Trace({"n": n}, {"n": 64}) for n in (7, 31)]
    assert [t.size("n") < 20 for t in traces] == [True, False]
    check_comparisons(traces, [(7, 61)])
