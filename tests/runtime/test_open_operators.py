"""Operators whose work depends on sizes in more than one way, on images of open sizes, against ONNX Runtime.

Each is run at sizes of many residues. Whether it has one plan for them or one for each is its own matter; what it gives
must not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import MNN

Rng = np.random.Generator
Made = tuple[list[NodeProto], dict[str, np.ndarray]]
"""Nodes from ``x`` to ``y``, and constants."""
CHANNELS = 4


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def alone(op: str, **attributes: Callable[[Rng], Any]) -> Callable[[Rng], Made]:
    """One operator with drawn attributes."""
    return lambda rng: ([node(op, "x", **{name: draw(rng) for name, draw in attributes.items()})], {})


def flag(rng: Rng) -> int:
    return int(rng.integers(0, 2))


def later_axis(rng: Rng) -> int:
    return int(rng.integers(1, 4))


def padded(rng: Rng) -> Made:
    amounts = rng.integers(-3, 4, 4)
    modes = ["constant"] if amounts.min() < 0 else ["constant", "reflect", "edge", "wrap"]
    pads = ints(0, 0, *amounts[:2], 0, 0, *amounts[2:])
    return [node("Pad", "x pads", mode=str(rng.choice(modes)))], {"pads": pads}


def sliced(rng: Rng) -> Made:
    step = int(rng.integers(1, 4))
    end = int(rng.choice([-1, -2, -5, 9, 1000, 2**40]))
    bounds = {"start": ints(int(rng.integers(-6, 6))), "end": ints(end), "axis": ints(2), "step": ints(step)}
    return [node("Slice", "x start end axis step")], bounds


def backwards(rng: Rng) -> Made:
    end = int(rng.choice([2, 5, -1000]))
    bounds = {
        "start": ints(-int(rng.integers(1, 6))), "end": ints(end), "axis": ints(2), "step": ints(-flag(rng) - 1),
    }  # fmt: skip
    return [node("Slice", "x start end axis step")], bounds


def thirds(rng: Rng) -> Made:
    return [node("Split", "x", "a b c", axis=2, num_outputs=3), node("Concat", "b a c", axis=2)], {}


def first_half(rng: Rng) -> Made:
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape two", "height", axis=0), node("Div", "height two", "half"),
        node("Slice", "x zero half two"),
    ]  # fmt: skip
    return nodes, {"two": ints(2), "zero": ints(0)}


def whole_blocks(rng: Rng) -> Made:
    """Padding to a multiple, as windowed attention has it."""
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape axis", "height", axis=0),
        node("Mod", "height block", "rest"),
        node("Sub", "block rest", "lacks"), node("Mod", "lacks block", "more"),
        node("Concat", "before more after", "pads", axis=0), node("Pad", "x pads"),
    ]  # fmt: skip
    block = ints(int(rng.integers(2, 9)))
    return nodes, {"axis": ints(2), "block": block, "before": ints(0, 0, 0, 0, 0, 0), "after": ints(0)}


def centre(rng: Rng) -> Made:
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape two", "height", axis=0),
        node("Sub", "height side", "beyond"),
        node("Div", "beyond two", "start"), node("Add", "start side", "end"), node("Slice", "x start end two"),
    ]  # fmt: skip
    return nodes, {"two": ints(2), "side": ints(32)}


def rolled(rng: Rng) -> Made:
    nodes = [
        node("Slice", "x by far axis", "tail"), node("Slice", "x zero by axis", "head"),
        node("Concat", "tail head", axis=2),
    ]  # fmt: skip
    return nodes, {"by": ints(int(rng.integers(1, 6))), "far": ints(2**40), "zero": ints(0), "axis": ints(2)}


def doubled_back(rng: Rng) -> Made:
    """Half the size and back to it, as in networks with a way down and a way up."""
    nodes = [
        node("MaxPool", "x", "small", kernel_shape=[2, 2], strides=[2, 2]), node("Shape", "x", "shape"),
        helper.make_node("Resize", ["small", "", "", "shape"], ["large"], mode="nearest"), node("Add", "large x"),
    ]  # fmt: skip
    return nodes, {}


TRANSFORMS = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"]
"""Of the last one and scales that make no whole sizes, ONNX's own reference and ONNX Runtime are of two opinions."""


def scaled(rng: Rng) -> Made:
    """Resized by scales whose results are formulas, and by one whose is not."""
    mode = str(rng.choice(["linear", "cubic"]))
    scales = np.array([1, 1, *rng.choice([0.5, 0.75, 1.5, 2, 3, 1.3], 2)], np.float32)
    how = {"mode": mode, "coordinate_transformation_mode": str(rng.choice(TRANSFORMS[:3]))}
    return [helper.make_node("Resize", ["x", "", "scales"], ["y"], **how)], {"scales": scales}


def nearest(rng: Rng) -> Made:
    scales = np.array([1, 1, *rng.choice([0.25, 0.5, 2, 4], 2)], np.float32)
    rounding = str(rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    how = {"nearest_mode": rounding, "coordinate_transformation_mode": str(rng.choice(TRANSFORMS[:2]))}
    return [helper.make_node("Resize", ["x", "", "scales"], ["y"], **how)], {"scales": scales}


def back_to_size(rng: Rng) -> Made:
    """Pooled, and interpolated to the size before, as pyramids do."""
    padding, stride = int(rng.integers(0, 2)), int(rng.integers(2, 5))
    pooling = {"kernel_shape": [3, 3], "strides": [stride] * 2, "pads": [padding] * 4, "ceil_mode": flag(rng)}
    how = {"mode": str(rng.choice(["linear", "cubic"])), "coordinate_transformation_mode": str(rng.choice(TRANSFORMS))}
    nodes = [
        node(str(rng.choice(["AveragePool", "MaxPool"])), "x", "small", **pooling), node("Shape", "x", "shape"),
        helper.make_node("Resize", ["small", "", "", "shape"], ["large"], **how), node("Add", "large x"),
    ]  # fmt: skip
    return nodes, {}


def windows(rng: Rng) -> Made:
    """Strided windows in a chain, each with a border of its own."""
    nodes, weights, last = [], {}, "x"
    for i in range(3):
        kernel = int(rng.integers(2, 4))
        weights[f"w{i}"] = (rng.standard_normal((CHANNELS, CHANNELS, kernel, kernel)) / 4).astype(np.float32)
        pads, strides = rng.integers(0, 2, 4).tolist(), [int(rng.integers(1, 3))] * 2
        nodes.append(node("Conv", f"{last} w{i}", f"c{i}", strides=strides, pads=pads))
        last = f"c{i}"
    nodes.append(node("MaxPool", last, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=flag(rng)))
    return nodes, weights


def same_windows(rng: Rng) -> Made:
    kernel, mode = int(rng.integers(1, 6)), str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
    weight = rng.standard_normal((5, CHANNELS, kernel, kernel)).astype(np.float32)
    return [node("Conv", "x w", auto_pad=mode, strides=[int(rng.integers(1, 4))] * 2)], {"w": weight}


CASES: dict[str, Callable[[Rng], Made]] = {
    "padded": padded, "sliced": sliced, "backwards": backwards, "thirds": thirds, "first_half": first_half,
    "whole_blocks": whole_blocks, "centre": centre, "rolled": rolled, "doubled_back": doubled_back, "windows": windows,
    "same_windows": same_windows, "scaled": scaled, "nearest": nearest, "back_to_size": back_to_size,
    "upper": alone("Trilu", upper=flag), "flat": alone("Flatten", axis=later_axis),
    "softmax": alone("Softmax", axis=later_axis), "mean": alone("ReduceMean", keepdims=flag),
    "norms": alone("LpPool", kernel_shape=lambda _: [3, 3], strides=lambda rng: [int(rng.integers(1, 4))] * 2),
    "averages": alone(
        "AveragePool", auto_pad=lambda rng: str(rng.choice(["SAME_UPPER", "SAME_LOWER"])),
        strides=lambda rng: [int(rng.integers(1, 4))] * 2, kernel_shape=lambda rng: [int(rng.integers(3, 6))] * 2,
    ),
}  # fmt: skip


def model(name: str, made: Made) -> bytes:
    """A file with these nodes, for images of any size."""
    nodes, constants = made
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*nodes, node("Relu", "y", "z")], name,
        [info("x", TensorProto.FLOAT, [1, CHANNELS, "height", "width"])], [info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, given) for given, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_answers_at_many_sizes(name: str, seed: int) -> None:
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng([seed, list(CASES).index(name)])
    source = model(name, CASES[name](rng))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    reference, ours = ort.InferenceSession(source, options), MNN.load(source)
    both = bool(rng.integers(0, 2))
    for height, width in [(40, 40), (42, 43), *rng.integers(33, 100, (8, 2)).tolist()]:
        x = rng.standard_normal((1, CHANNELS, height, width if both else 40)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        found = ours.run({"x": x})["z"]
        assert found.shape == wanted.shape, x.shape
        np.testing.assert_allclose(
            found, wanted, atol=1e-4 * max(1.0, float(np.abs(wanted).max(initial=0))), err_msg=str(x.shape)
        )


@pytest.mark.parametrize("like", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_is_in_ranges(mode: str, transform: str, like: bool) -> None:
    """And gives what a plan for the size alone gives, but for the order in which axes are resized."""
    how = {"mode": mode, "coordinate_transformation_mode": transform}
    made: Made
    if like:
        nodes = [node("MaxPool", "x", "small", kernel_shape=[3, 3], strides=[2, 2]), node("Shape", "x", "shape")]
        made = [*nodes, helper.make_node("Resize", ["small", "", "", "shape"], ["y"], **how)], {}
    else:
        scales = np.array([1, 1, 2, 0.5], np.float32)
        made = [helper.make_node("Resize", ["x", "", "scales"], ["y"], **how)], {"scales": scales}
    source = model("resized", made)
    ours, rng = MNN.load(source), np.random.default_rng(3)
    for number, (height, width) in enumerate([(40, 41), (50, 43), (77, 64), (101, 38)]):
        x = rng.standard_normal((1, CHANNELS, height, width)).astype(np.float32)
        found = ours.run({"x": x})["z"]
        assert (ours.plans_used()[0].bound.program.open_sizes is not None) == (number > 0)
        alone = MNN.load(source).run({"x": x})["z"]
        np.testing.assert_allclose(found, alone, rtol=0, atol=0 if mode == "nearest" else 4e-6)
