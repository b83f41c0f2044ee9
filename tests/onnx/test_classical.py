"""The operators of ONNX-ML against ONNX Runtime, and against their meaning written down again with numpy."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from MNN.errors import MNNError, RunError, ShapeError, UnsupportedError
from MNN.frontends.onnx import load
from tests.harness import run_file, run_reference

FLOAT, INT64, STRING, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.DOUBLE
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(object): STRING, np.dtype(np.float64): DOUBLE}


def model(op, outputs, *arrays, version=3, **attrs):
    """One node of ONNX-ML; ``outputs`` are element types."""
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TYPES[a.dtype], [None, *a.shape[1:]]) for i, a in enumerate(arrays)
    ]
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, [v.name for v in inputs], names, domain="ai.onnx.ml", **attrs)
    results = [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(names, outputs, strict=True)]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def run(data, *arrays):
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    found = run_file(load(data), feeds)
    for got, meant in zip(found, run_reference(load(data), feeds), strict=True):
        alike(got, meant, 1e-5)
    return found


def alike(got, wanted, tolerance=2e-5):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    else:
        assert got.tolist() == wanted.tolist()


def like_onnxruntime(op, outputs, *arrays, tolerance=2e-5, **attrs):
    data = model(op, outputs, *arrays, **attrs)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})
    found = run(data, *arrays)
    for got, expected in zip(found, wanted, strict=True):
        alike(got, expected, tolerance)
    return found


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# -- forests ----------------------------------------------------------------------------------------------------------


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


# -- linear models and support vectors --------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(transform, targets):
    if targets == 1 and transform not in ("NONE", "PROBIT"):
        pytest.skip("ONNX Runtime leaves these out for one target")
    x = np.abs(numbers(9, 4)) / 10
    weights = np.abs(numbers(targets, 4, seed=1)) / 3
    attrs = {"coefficients": weights.reshape(-1).tolist(), "intercepts": [0.1] * targets, "targets": targets}
    (found,) = like_onnxruntime("LinearRegressor", [FLOAT], x, post_transform=transform, tolerance=2e-4, **attrs)
    if transform == "NONE":
        np.testing.assert_allclose(found, x @ weights.T + 0.1, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("labels", [{"classlabels_ints": [4, 2, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float64])
def test_linear_classifier(transform, labels, kind):
    x, weights = (np.abs(numbers(15, 4)) * (10 if kind is np.int64 else 1)).astype(kind), numbers(3, 4, seed=1) / 50
    attrs = {"coefficients": weights.reshape(-1).tolist(), "intercepts": [0.3, 0.4, 0.35], "post_transform": transform}
    outputs = [INT64 if "classlabels_ints" in labels else STRING, FLOAT]
    found = like_onnxruntime("LinearClassifier", outputs, x, tolerance=2e-4, **attrs, **labels)
    best = (x.astype(np.float32) @ weights.T + attrs["intercepts"]).argmax(1)
    assert found[0].tolist() == [next(iter(labels.values()))[i] for i in best]


@pytest.mark.parametrize("transform", TRANSFORMS[1:3])
def test_linear_classifier_of_one_score_after_a_transform(transform):
    x, attrs = numbers(15, 4), {"coefficients": [0.5, -1.0, 2.0, 0.1], "intercepts": [0.2]}
    attrs["post_transform"] = transform
    like_onnxruntime("LinearClassifier", [INT64, FLOAT], x, classlabels_ints=[5, 6], **attrs)


def test_linear_classifier_of_one_score():
    x, attrs = numbers(15, 4), {"coefficients": [0.5, -1.0, 2.0, 0.1], "intercepts": [0.2]}
    labels, scores = like_onnxruntime("LinearClassifier", [INT64, FLOAT], x, classlabels_ints=[5, 6], **attrs)
    s = x @ np.array(attrs["coefficients"], np.float32) + 0.2
    assert labels.tolist() == [6 if v > 0 else 5 for v in s]
    np.testing.assert_allclose(scores, np.stack([1 - s, s], 1), rtol=1e-5, atol=1e-5)


KERNELS = [
    ("LINEAR", [0.0, 0.0, 0.0]),
    ("POLY", [0.3, 1.0, 3.0]),
    ("RBF", [0.4, 0.0, 0.0]),
    ("SIGMOID", [0.2, 0.1, 0.0]),
]


def kernel(kind, params, x, vectors):
    gamma, shift, degree = params
    if kind == "RBF":
        return np.exp(-gamma * ((x[:, None] - vectors[None]) ** 2).sum(2))
    dot = x @ vectors.T
    return {"LINEAR": dot, "POLY": (gamma * dot + shift) ** degree, "SIGMOID": np.tanh(gamma * dot + shift)}[kind]


@pytest.mark.parametrize(("kind", "params"), KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kind, params, one_class):
    x, vectors, weights = numbers(11, 3), numbers(7, 3, seed=1), numbers(7, seed=2)
    attrs = {"kernel_type": kind, "kernel_params": params, "support_vectors": vectors.reshape(-1).tolist()}
    attrs |= {"coefficients": weights.tolist(), "rho": [0.3], "n_supports": 7, "one_class": one_class}
    (found,) = like_onnxruntime("SVMRegressor", [FLOAT], x, tolerance=1e-4, **attrs)
    wanted = kernel(kind, params, x.astype(np.float64), vectors) @ weights + 0.3
    np.testing.assert_allclose(found[:, 0], np.where(wanted > 0, 1, -1) if one_class else wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("kind", "params"), KERNELS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_svm_classifier(kind, params, classes, probabilities, transform):
    per = [2, 3, 1, 4][:classes]
    x, vectors, pairs = numbers(21, 3), numbers(sum(per), 3, seed=1), classes * (classes - 1) // 2
    weights, rho = numbers(classes - 1, sum(per), seed=2), numbers(pairs, seed=3)
    given = {"prob_a": [-1.0] * pairs, "prob_b": [0.1] * pairs} if probabilities else {}
    like_onnxruntime(
        "SVMClassifier", [INT64, FLOAT], x, kernel_type=kind, kernel_params=params, post_transform=transform,
        support_vectors=vectors.reshape(-1).tolist(), coefficients=weights.reshape(-1).tolist(), rho=rho.tolist(),
        vectors_per_class=per, classlabels_ints=[3, 1, 8, 5][:classes], tolerance=2e-4, **given,
    )  # fmt: skip


def test_svm_that_does_not_fit():
    x, attrs = numbers(4, 3), {"coefficients": [1.0, 2.0], "rho": [0.0], "classlabels_ints": [0, 1]}
    with pytest.raises(ShapeError, match="do not fit"):
        run(model("SVMClassifier", [INT64, FLOAT], x, vectors_per_class=[1, 2], support_vectors=[0.0] * 6, **attrs), x)
    with pytest.raises(UnsupportedError, match="kernel_type='CUBIC'"):
        run(model("SVMRegressor", [FLOAT], x, kernel_type="CUBIC", coefficients=[1.0] * 3, rho=[0.0]), x)


# -- features ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float64])
def test_scaler(kind):
    x = (numbers(6, 3) * 10).astype(kind)
    like_onnxruntime("Scaler", [FLOAT], x, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
    like_onnxruntime("Scaler", [FLOAT], x, offset=[1.0], scale=[0.5])
    with pytest.raises(ShapeError, match="2 offsets do not fit 3 columns"):
        run(model("Scaler", [FLOAT], x, offset=[1.0, 2.0], scale=[0.5]), x)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_normalizer(norm, kind):
    x = (numbers(6, 3) * 10).astype(kind)
    x[2] = 0
    like_onnxruntime("Normalizer", [FLOAT], x, norm=norm)


def test_imputer():
    x = numbers(6, 3)
    x[::2, 1] = np.nan
    like_onnxruntime("Imputer", [FLOAT], x, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    like_onnxruntime("Imputer", [FLOAT], x, imputed_value_floats=[7.0], replaced_value_float=float(x[1, 1]))
    whole = np.array([[1, 0], [0, 5]])
    like_onnxruntime("Imputer", [INT64], whole, imputed_value_int64s=[8, 9], replaced_value_int64=0)


def test_one_hot_encoder():
    words = np.array([["a", "c"], ["b", "?"]], object)
    like_onnxruntime("OneHotEncoder", [FLOAT], words, cats_strings=["a", "b", "c"], zeros=1)
    for x in (np.array([1, 4, 9]), np.array([[1.0, 9.0]], np.float32)):
        like_onnxruntime("OneHotEncoder", [FLOAT], x, cats_int64s=[9, 1, 2], zeros=1)
    with pytest.raises(RunError, match="4 is none of its 3 categories"):
        run(model("OneHotEncoder", [FLOAT], np.array([1, 4]), cats_int64s=[9, 1, 2], zeros=0), np.array([1, 4]))
    with pytest.raises(ShapeError, match="its categories are str, its input i64"):
        run(model("OneHotEncoder", [FLOAT], np.array([1, 4]), cats_strings=["a"]), np.array([1, 4]))


def test_category_mapper_and_the_first_label_encoder():
    words, integers = np.array([["a", "?"], ["b", "a"]], object), np.array([3, 5, 4])
    pairs = {"cats_strings": ["a", "b"], "cats_int64s": [3, 4]}
    like_onnxruntime("CategoryMapper", [INT64], words, default_int64=-7, **pairs)
    like_onnxruntime("CategoryMapper", [STRING], integers, default_string="?", **pairs)
    like_onnxruntime("LabelEncoder", [INT64], words, version=1, classes_strings=["b", "a"])
    like_onnxruntime("LabelEncoder", [STRING], np.array([0, 1, 2]), version=1, classes_strings=["b", "a"])


def test_feature_vectorizer():
    a, b = numbers(4, 2), numbers(4, 3, seed=1)
    (found,) = run(model("FeatureVectorizer", [FLOAT], a, b, inputdimensions=[3, 2]), a, b)
    alike(found, np.concatenate([a, np.zeros((4, 1), np.float32), b[:, :2]], 1))
    like_onnxruntime("FeatureVectorizer", [FLOAT], a, b, inputdimensions=[2, 3])


def test_binarizer_and_extractor():
    x = numbers(4, 3)
    like_onnxruntime("Binarizer", [FLOAT], x, threshold=0.2)
    like_onnxruntime("ArrayFeatureExtractor", [FLOAT], x, np.array([[2, 0]]))
