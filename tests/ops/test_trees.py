"""Ensembles of trees against ONNX Runtime, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from MNN.errors import MNNError
from MNN.frontends.onnx import load
from MNN.runtime.session import Session


def ensemble(trees: int, depth: int, features: int, targets: int, seed: int, **attrs: object) -> onnx.ModelProto:
    """Full binary trees with random questions and leaves."""
    rng = np.random.default_rng(seed)
    inner, leaves = 2**depth - 1, 2**depth
    count = trees * inner

    def end(side: int) -> tuple[list[int], list[int]]:
        ids, leaf = [], []
        for tree in range(trees):
            for node in range(inner):
                child = 2 * node + 1 + side
                leaf.append(int(child >= inner))
                ids.append(tree * leaves + child - inner if child >= inner else tree * inner + child)
        return ids, leaf

    (yes, yes_leaf), (no, no_leaf) = end(0), end(1)
    given = {
        "nodes_featureids": rng.integers(0, features, count).tolist(),
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [count], rng.integers(0, 6, count).tolist()),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [count], rng.normal(size=count).round(1)),
        "nodes_truenodeids": yes,
        "nodes_trueleafs": yes_leaf,
        "nodes_falsenodeids": no,
        "nodes_falseleafs": no_leaf,
        "nodes_missing_value_tracks_true": rng.integers(0, 2, count).tolist(),
        "tree_roots": [t * inner for t in range(trees)],
        "leaf_targetids": rng.integers(0, targets, trees * leaves).tolist(),
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [trees * leaves], rng.normal(size=trees * leaves)),
        "n_targets": targets,
        **attrs,
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **given)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", targets])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
@pytest.mark.parametrize(("trees", "depth", "targets"), [(1, 1, 1), (3, 4, 2), (20, 6, 3)])
def test_like_onnxruntime(trees: int, depth: int, targets: int, aggregate: int) -> None:
    model = ensemble(trees, depth, 5, targets, seed=trees, aggregate_function=aggregate)
    x = np.random.default_rng(1).normal(size=(64, 5)).astype(np.float32).round(1)
    x[::7, 2] = np.nan
    data = model.SerializeToString()
    want = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = Session(load(data)).run({"x": x})["y"]
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes_truenodeids": [0] * 3, "nodes_trueleafs": [0] * 3}, "circle"),
        ({"nodes_falsenodeids": [9] * 3, "nodes_falseleafs": [0] * 3}, "lead outside"),
        ({"nodes_featureids": [7] * 3}, "features beyond"),
        ({"leaf_targetids": [5] * 4}, "do not fit 1 targets"),
        ({"nodes_featureids": [0]}, "differ in length"),
    ],
)
def test_damaged_trees_are_refused(change: dict[str, object], words: str) -> None:
    always = {"nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [3], [0, 0, 0])}
    splits = {"nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [3], [9.0, 9.0, 9.0])}
    model = ensemble(1, 2, 2, 1, seed=0, **always, **splits, **change)
    with pytest.raises(MNNError, match=words):
        Session(load(model.SerializeToString())).run({"x": np.zeros((2, 2), np.float32)})
