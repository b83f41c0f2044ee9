"""Every size that onnx's own shape inference knows is known here too, without running anything."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.shape_inference
import pytest
from onnx import ModelProto, TypeProto, helper, numpy_helper

from MNN.errors import MNNError
from MNN.frontends.onnx import load
from MNN.passes.arranging import shape_propagation
from tests.onnx.cases import node_cases
from tests.onnx.model_cases import model_cases

UNKNOWN = {
    "Loop": "what a body collects has the sizes of one turn, which may differ in the next",
    "Scan": "as of Loop: only the size along the axis follows from outside of the body",
    "LinearAttention": "is a Scan",
    "CastLike": "of states of a Scan",
    "SequenceAt": "items of a sequence need not have one shape",
    "ConcatFromSequence": "items of a sequence need not have one shape",
    "OptionalGetElement": "types of optionals are not kept",
}
"""Operators whose results may be less known, and why."""


def bare(model: ModelProto) -> ModelProto:
    """The model without what it says of its own intermediate and final shapes."""
    out = ModelProto.FromString(model.SerializeToString())
    del out.graph.value_info[:]
    for value in out.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    return out


def lacking(model: ModelProto) -> Iterator[str]:
    """Sizes that onnx knows and this engine does not, or not as onnx does."""
    try:
        wanted = onnx.shape_inference.infer_shapes(bare(model), data_prop=True).graph
        graph = load(bare(model).SerializeToString())
    except (onnx.shape_inference.InferenceError, RuntimeError, MNNError):
        return
    shape_propagation.run(graph)
    found = {v.name: v.shape for v in graph.values()}
    makers = {o: n.op_type for n in model.graph.node for o in n.output}
    for value in (*wanted.value_info, *wanted.output):
        kind: TypeProto.Tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape") or value.name not in found:
            continue
        theirs = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
        ours = found[value.name]
        same = ours is not None and len(ours) == len(theirs)
        same = same and all(a == b for a, b in zip(ours or (), theirs, strict=True) if isinstance(b, int))
        if not same:
            yield f"{makers.get(value.name, '?')} '{value.name}': {ours}, onnx says {theirs}"


def test_all_sizes_of_onnx_cases() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [(name, case.model) for name, case in node_cases().items()]
        models += [(name, onnx.load(case.model)) for name, case in model_cases().items()]
    assert len(models) > 1900
    wrong = [f"{name}: {said}" for name, model in models for said in lacking(model) if said.split()[0] not in UNKNOWN]
    assert not wrong, f"{len(wrong)} sizes, such as {wrong[:20]}"


@pytest.mark.parametrize("exact", [0, 1])
def test_a_list_of_sizes_may_serve_two_reshapes(exact: int) -> None:
    """The size that is left out differs between them."""
    nodes = [
        helper.make_node("Shape", ["x"], ["front"], start=0, end=2),
        helper.make_node("Concat", ["front", "rest"], ["sizes"], axis=0),
        helper.make_node("MatMul", ["x", "many"], ["a"]),
        helper.make_node("MatMul", ["x", "few"], ["b"]),
        helper.make_node("Reshape", ["a", "sizes"], ["c"], allowzero=exact),
        helper.make_node("Reshape", ["b", "sizes"], ["d"], allowzero=exact),
    ]
    constants = {"rest": np.array([-1, 8]), "many": np.ones((32, 32), np.float32), "few": np.ones((32, 16), np.float32)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", "rows", 32])],
        [helper.make_empty_tensor_value_info(n) for n in "cd"],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    found = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [v.shape for v in found.outputs] == [("n", "rows", 4, 8), ("n", "rows", 2, 8)]
