"""Ensembles of decision trees against ONNX Runtime, and against a walk from node to node."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from MNN.errors import MNNError
from tests.onnx.classical import (
    DOUBLE,
    FLOAT,
    INT64,
    STRING,
    TRANSFORMS,
    like_onnxruntime,
    model,
    numbers,
    run,
)


class Drawn:
    """A random forest: unbalanced trees with numbers of nodes in no order, and its meaning, node by node."""

    def __init__(self, seed, trees, features, outputs, depth, modes=("BRANCH_LEQ",), only=None, positive=False):
        rng = np.random.default_rng(seed)
        self.rows, self.weights, self.outputs, self.trees = [], [], outputs, trees
        for tree in range(trees):
            first, said = len(self.rows), len(self.weights)

            def grow(level, tree=tree, first=first):
                number = len(self.rows) - first
                row = [tree, number, "LEAF", 0, 0.0, 0, 0, 0]
                self.rows.append(row)
                if level == depth or (level and rng.random() < 0.3):
                    targets = range(outputs) if only is None else [only]
                    for target in targets:
                        weight = float(np.float32(rng.random() if positive else rng.normal()))
                        self.weights.append((tree, number, target, weight / trees if positive else weight))
                    return number
                row[2], row[3] = str(rng.choice(modes)), int(rng.integers(features))
                row[4], row[7] = float(np.float32(np.round(rng.normal(), 1))), int(rng.integers(2))
                row[5], row[6] = grow(level + 1), grow(level + 1)
                return number

            grow(0)
            names = rng.permutation(len(self.rows) - first).tolist()
            for row in self.rows[first:]:
                row[1], row[5], row[6] = (names[row[i]] for i in (1, 5, 6))
            self.weights[said:] = [(tree, names[node], *rest) for _, node, *rest in self.weights[said:]]

    def attrs(self, stem):
        columns = list(zip(*self.rows, strict=True))
        keys = "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true".split()
        given = {f"nodes_{k}": list(c) for k, c in zip(keys, columns, strict=True)}
        tree, node, target, weight = (list(c) for c in zip(*self.weights, strict=True))
        return {
            **given,
            f"{stem}_treeids": tree,
            f"{stem}_nodeids": node,
            f"{stem}_ids": target,
            f"{stem}_weights": weight,
        }

    def leaves(self, x):
        """The weights by target of the leaf of each tree, ``[rows][trees]`` of dicts."""
        nodes = {(r[0], r[1]): r for r in self.rows}
        children = {(r[0], c) for r in self.rows if r[2] != "LEAF" for c in r[5:7]}
        roots = [(r[0], r[1]) for r in self.rows if (r[0], r[1]) not in children]
        given = {}
        for tree, node, target, weight in self.weights:
            given.setdefault((tree, node), {})[target] = weight
        tests = {
            "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
            "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
        }  # fmt: skip
        result = []
        for row in x:
            line = []
            for root in roots:
                at = nodes[root]
                while at[2] != "LEAF":
                    value = row[at[3]]
                    yes = tests[at[2]](value, np.float32(at[4])) or (np.isnan(value) and at[7])
                    at = nodes[at[0], at[5] if yes else at[6]]
                line.append(given.get((at[0], at[1]), {}))
            result.append(line)
        return result


ALL = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def queries(rows, features, missing=True):
    x = np.round(numbers(rows, features, seed=9), 1)
    if missing:
        x[::5, 1] = np.nan
    return x


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("targets", "modes"), [(1, ALL[:1]), (1, ALL), (3, ALL[1:2]), (2, ALL)])
def test_forests_of_numbers(how, targets, modes):
    forest, x = Drawn(targets, 7, 4, targets, 5, modes), queries(33, 4)
    base = [0.5, -1.0, 2.0][:targets]
    attrs = {**forest.attrs("target"), "n_targets": targets, "aggregate_function": how, "base_values": base}
    (found,) = like_onnxruntime("TreeEnsembleRegressor", [FLOAT], x, **attrs)
    join = {"SUM": sum, "AVERAGE": lambda w: sum(w) / 7, "MIN": min, "MAX": max}[how]
    wanted = [[join([tree[t] for tree in row]) + base[t] for t in range(targets)] for row in forest.leaves(x)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_forests_and_what_follows_them(transform):
    forest, x = Drawn(3, 5, 4, 3, 4, positive=True), queries(20, 4)
    attrs = {**forest.attrs("target"), "n_targets": 3, "post_transform": transform}
    like_onnxruntime("TreeEnsembleRegressor", [FLOAT], x, **attrs)
    like_onnxruntime(
        "TreeEnsembleClassifier", [INT64, FLOAT], x, **forest.attrs("class"), post_transform=transform,
        classlabels_int64s=[7, 3, 5], base_values=[0.1, 0.05, 0.15],
    )  # fmt: skip


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [-1, 1]}, {"classlabels_strings": ["no", "yes"]}])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.1]}])
def test_forests_that_choose_of_two(labels, positive, transform, base):
    forest, x = Drawn(5, 6, 4, 2, 4, only=0, positive=positive), queries(40, 4)
    kind = INT64 if "classlabels_int64s" in labels else STRING
    found = like_onnxruntime(
        "TreeEnsembleClassifier", [kind, FLOAT], x, **forest.attrs("class"), **labels, post_transform=transform, **base
    )
    assert len(set(found[0].tolist())) == 2
    sums = np.array([sum(t[0] for t in row) for row in forest.leaves(x)]) + sum(base.get("base_values", []))
    names = next(iter(labels.values()))
    assert found[0].tolist() == [names[int(s > (0.5 if positive else 0))] for s in sums]


def test_doubles_are_compared_as_doubles():
    forest, x = Drawn(8, 4, 3, 1, 4), queries(50, 3, missing=False).astype(np.float64)
    attrs = forest.attrs("target")
    for key in ("nodes_values", "target_weights"):
        values = attrs.pop(key)
        attrs[f"{key}_as_tensor"] = helper.make_tensor(key, DOUBLE, [len(values)], values)
    x += 1e-12  # lost in single precision, and decides where a number equals a split
    (found,) = like_onnxruntime("TreeEnsembleRegressor", [FLOAT], x, n_targets=1, **attrs)
    (single,) = like_onnxruntime(
        "TreeEnsembleRegressor", [FLOAT], x.astype(np.float32), n_targets=1, **forest.attrs("target")
    )
    assert (found != single).any()


def test_very_deep_trees_are_walked_by_the_host():
    depth, x = 60, np.arange(64, dtype=np.float32)[:, None]
    rows = {
        "treeids": [],
        "nodeids": [],
        "modes": [],
        "featureids": [],
        "values": [],
        "truenodeids": [],
        "falsenodeids": [],
    }
    for i in range(depth):  # a list: each node splits one number off
        line = (0, 2 * i, "BRANCH_LEQ", 0, float(i), 2 * i + 1, 2 * i + 2), (0, 2 * i + 1, "LEAF", 0, 0.0, 0, 0)
        for row in line:
            for key, value in zip(rows, row, strict=True):
                rows[key].append(value)
    for key, value in zip(rows, (0, 2 * depth, "LEAF", 0, 0.0, 0, 0), strict=True):
        rows[key].append(value)
    leaves = [2 * i + 1 for i in range(depth)] + [2 * depth]
    (found,) = like_onnxruntime(
        "TreeEnsembleRegressor", [FLOAT], x, n_targets=1, **{f"nodes_{k}": v for k, v in rows.items()},
        target_treeids=[0] * len(leaves), target_nodeids=leaves, target_ids=[0] * len(leaves),
        target_weights=[float(v) for v in range(len(leaves))],
    )  # fmt: skip
    assert found[:, 0].tolist() == [min(i, depth) for i in range(64)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes_modes": ["BRANCH_SOMETIMES"] * 3}, "mode 'BRANCH_SOMETIMES'"),
        ({"nodes_nodeids": [0, 1, 1]}, "two nodes with the number 1"),
        ({"nodes_truenodeids": [0, 0, 0]}, "has no root"),
        ({"nodes_treeids": [0, 0, 0, 0], "nodes_nodeids": [0, 1, 2, 3]}, "differ in length"),
        ({"nodes_truenodeids": [2, 0, 0]}, "has two roots"),
        ({"nodes_falsenodeids": [9, 0, 0]}, "has no node 9"),
        ({"nodes_featureids": [3, 0, 0]}, "features beyond"),
        ({"nodes_values": [1.0]}, "differ in length"),
        ({"target_ids": [0, 4]}, "do not fit 1 targets"),
        ({"target_ids": [0]}, "differ in length"),
        ({"base_values": [1.0, 2.0]}, "2 base values for 1 targets"),
    ],
)
def test_damaged_forests_are_refused(change, words):
    attrs = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0], "n_targets": 1,
    }  # fmt: skip
    x = numbers(4, 2)
    with pytest.raises(MNNError, match=words):
        run(model("TreeEnsembleRegressor", [FLOAT], x, **{**attrs, **change}), x)
