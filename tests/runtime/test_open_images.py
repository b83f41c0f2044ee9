"""Networks of convolutions over images whose height and width are open: one plan for a range, right at all sizes in it.

Answers are compared with ONNX Runtime's, at sizes of all kinds, in memory that is poisoned where CI asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.base.candidates import restricted
from MNN.runtime.open_plans import OFTEN
from MNN.runtime.range_planner import RangePlanner

pytestmark = pytest.mark.usefixtures("without_tiles")  # convolutions on AMX are planned for every size
TOLERANCE = {"high": 1e-4, "normal": 1e-3, "low": 0.15}


class Network:
    """Convolutions that follow each other, with random parameters: some halve images, some add what went in before."""

    def __init__(self, seed: int, unit: bool = False) -> None:
        """With ``unit`` halves are put together again, which only multiples of 4 allow."""
        self._rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self.channels = 8
        at = self._conv("x", 3, 1)
        before = at
        for _ in range(2):
            at = self._block(at, int(self._rng.choice([3, 3, 5])), int(self._rng.integers(1, 3)) if not unit else 2)
        if unit:
            for _ in range(2):
                w = self._rng.standard_normal((self.channels, self.channels, 2, 2)).astype(np.float32)
                at = self._node("ConvTranspose", [at, self._constant(w / 6)], strides=[2, 2])
            at = self._node("Add", [at, before])
        self._nodes.append(helper.make_node("Identity", [at], ["y"]))

    def source(self) -> bytes:
        """The ONNX file."""
        info = helper.make_tensor_value_info
        given = info("x", TensorProto.FLOAT, [1, self.channels, "height", "width"])
        graph = helper.make_graph(self._nodes, "images", [given], [info("y", TensorProto.FLOAT, None)], self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        text: bytes = model.SerializeToString()
        return text

    def _constant(self, array: np.ndarray) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def _node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _conv(self, x: str, kernel: int, stride: int) -> str:
        shape = (self.channels, self.channels, kernel, kernel)
        scale = np.float32(1 / np.sqrt(self.channels * kernel * kernel))
        w = self._constant(self._rng.standard_normal(shape).astype(np.float32) * scale)
        return self._node("Conv", [x, w], strides=[stride] * 2, pads=[kernel // 2] * 4)

    def _block(self, x: str, kernel: int, stride: int) -> str:
        found = self._node("Relu", [self._conv(x, kernel, stride)])
        return self._node("Add", [found, self._conv(found, 3, 1)])


@pytest.fixture(params=["Winograd", "any"])
def algorithm(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small networks would not choose Winograd's method by themselves."""
    if request.param == "any":
        yield request.param
    else:
        with restricted(request.param):
            yield request.param


@pytest.mark.parametrize("precision", ["high", "normal", "low"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("algorithm")
def test_answers_of_one_plan_at_random_sizes(seed: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(Network(seed), precision, seed, 1, 1, monkeypatch)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("algorithm")
def test_images_that_must_be_multiples(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only sizes that are multiples of 32 seem to be wanted, and others would be refused."""
    _check(Network(7, unit=True), "normal", 7, 32, threads, monkeypatch)


def _check(
    network: Network, precision: str, seed: int, unit: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ort = pytest.importorskip("onnxruntime")
    planned, plan = [], RangePlanner.plan
    monkeypatch.setattr(RangePlanner, "plan", lambda *given: planned.append(plan(*given)) or planned[-1])
    source = network.source()
    reference = ort.InferenceSession(source)
    model = MNN.load(source, precision=precision, threads=threads)
    rng = np.random.default_rng([seed, 1])
    sizes = rng.integers(140, 280, (8, 2)) if unit == 1 else rng.integers(4, 9, (8, 2)) * unit
    sizes[:2] = [[160, 192], [192, 256]]
    for height, width in sizes.tolist():
        x = rng.standard_normal((1, network.channels, height, width)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        found = model.run({"x": x})["y"]
        assert found.shape == wanted.shape, (height, width)
        assert np.abs(found - wanted).max() <= TOLERANCE[precision] * np.abs(wanted).max(), (height, width)
    assert len(planned) == 1


def inverted_residual(rng: np.random.Generator) -> bytes:
    """A depthwise convolution between 1x1 ones, as mobile networks have them."""
    shapes = [(96, 16, 1, 1), (96, 1, 3, 3), (24, 96, 1, 1)]
    scales = [np.float32(1 / np.sqrt(np.prod(s[1:]))) for s in shapes]
    weights = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) * scale, f"w{i}")
        for i, (s, scale) in enumerate(zip(shapes, scales, strict=True))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], group=96, pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    given = info("x", TensorProto.FLOAT, [1, 16, "height", "width"])
    graph = helper.make_graph(nodes, "mobile", [given], [info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    text: bytes = model.SerializeToString()
    return text


@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_that_come_often_have_the_faster_plan_of_their_own(threads: int, tmp_path: Path) -> None:
    """Chains know their lines: a plan for a range goes without, until a size comes again and again."""
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(5)
    source = inverted_residual(rng)
    (tmp_path / "m.onnx").write_bytes(source)
    reference, model = ort.InferenceSession(source), MNN.load(tmp_path / "m.onnx", threads=threads)

    def ranged(height: int, width: int) -> bool:
        x = rng.standard_normal((1, 16, height, width)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        np.testing.assert_allclose(model.run({"x": x})["y"], wanted, atol=1e-3)
        (plan,) = model.plans_used()
        return plan.bound.program.open_sizes is not None

    assert not ranged(160, 200)
    assert ranged(192, 250)
    (plan,) = model.plans_used()
    assert plan.bound.program.alone_is_faster
    assert all(ranged(*size) for size in rng.integers(128, 280, (6, 2)).tolist())
    again = [ranged(222, 233) for _ in range(OFTEN + 2)]
    assert again[:3] == [True] * 3
    assert again[-2:] == [False] * 2
    assert ranged(211, 199)
    assert not ranged(222, 233)
