"""ONNX-ML: classifiers and regressors."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.classical.machines import KERNELS
from MNN.ops.classical.scores import TRANSFORMS
from MNN.ops.classical.trees import AGGREGATES, MODES

_ML = "ai.onnx.ml"
_LEAF = "LEAF"


def one_list(node: OnnxNode, strings: str, integers: str) -> np.ndarray:
    """The list of strings or the list of integers, whichever the node has."""
    texts, numbers = node.strs_attr(strings, None) or [], node.ints_attr(integers, None) or []
    if bool(texts) == bool(numbers):
        raise FormatError(f"{node.where}: needs either {strings} or {integers}")
    return np.array(texts, object) if texts else np.array(numbers, np.int64)


def _transform(node: OnnxNode) -> str:
    return node.choice_attr("post_transform", "NONE", *TRANSFORMS)


def _floats(node: OnnxNode, key: str) -> np.ndarray:
    """Floats as a list, or, since version 3, as a tensor that may hold doubles."""
    tensor = node.tensor_attr(f"{key}_as_tensor", None)
    listed = node.floats_attr(key, None)
    return np.array(listed or [], np.float32) if tensor is None else tensor.reshape(-1)


def _ints(node: OnnxNode, key: str) -> np.ndarray:
    return np.array(node.ints_or(key, ()), np.int64)


# -- trees ------------------------------------------------------------------------------------------------------------


def _forest(node: OnnxNode) -> tuple[dict[str, object], dict[tuple[int, int], int]]:
    """The attributes of ``TreeEnsemble`` that describe the nodes, and the number of each leaf by tree and node."""
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    trees, ids = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    modes, count = node.strs_attr("nodes_modes", None) or [], len(trees)
    features, splits = _ints(node, "nodes_featureids"), _floats(node, "nodes_values")
    yes, no = _ints(node, "nodes_truenodeids"), _ints(node, "nodes_falsenodeids")
    missing = _ints(node, "nodes_missing_value_tracks_true")
    sizes = {len(ids), len(modes), len(features), len(splits), len(yes), len(no), len(missing) or count}
    if sizes != {count} or not count:
        raise FormatError(f"{node.where}: the lists that describe its {count} nodes differ in length")
    known = {f"BRANCH_{mode}": number for number, mode in enumerate(MODES[:6])}
    wrong = [m for m in modes if m not in known and m != _LEAF]
    if wrong:
        raise node.unsupported(f"a node of mode '{wrong[0][:40]}'", f"use one of {', '.join(known)}, {_LEAF}")
    inner = 0
    leaves: dict[tuple[int, int], int] = {}
    position: dict[tuple[int, int], int] = {}
    for tree, number, mode in zip(trees.tolist(), ids.tolist(), modes, strict=True):
        if (tree, number) in position:
            raise FormatError(f"{node.where}: tree {tree} has two nodes with the number {number}")
        if mode == _LEAF:
            leaves[tree, number] = len(leaves)
            position[tree, number] = -len(leaves)
        else:
            position[tree, number] = inner
            inner += 1
    kept = np.array([m != _LEAF for m in modes])

    def ends(branch: np.ndarray) -> np.ndarray:
        try:
            return np.array(
                [position[key] for key in zip(trees[kept].tolist(), branch[kept].tolist(), strict=True)], np.int64
            )
        except KeyError as error:
            raise FormatError(f"{node.where}: tree {error.args[0][0]} has no node {error.args[0][1]}") from error

    to_yes, to_no = ends(yes), ends(no)
    led = set(to_yes.tolist()) | set(to_no.tolist())
    roots: dict[int, int] = {}
    for (tree, _), place in position.items():
        if place not in led:
            if tree in roots:
                raise FormatError(f"{node.where}: tree {tree} has two roots: no node leads to them")
            roots[tree] = place
    asking = set(trees[kept].tolist())
    if len(roots) != len(set(trees.tolist())) or any(roots[tree] < 0 for tree in asking):
        raise FormatError(f"{node.where}: a tree has no root: its nodes lead in a circle")
    attrs: dict[str, object] = {
        "modes": np.array([known[m] for m in modes if m != _LEAF], np.int64),
        "features": features[kept],
        "splits": splits[kept],
        "yes": to_yes,
        "no": to_no,
        "missing": missing[kept] if missing.size else None,
        "roots": np.array(list(roots.values()), np.int64),
    }
    return attrs, leaves


def _leaves(node: OnnxNode, stem: str, found: dict[tuple[int, int], int]) -> dict[str, object]:
    """The leaf, target and weight of every contribution."""
    trees, ids, targets = (_ints(node, f"{stem}_{key}") for key in ("treeids", "nodeids", "ids"))
    weights = _floats(node, f"{stem}_weights")
    if len({trees.size, ids.size, targets.size, weights.size}) != 1:
        raise FormatError(f"{node.where}: the lists of its weights differ in length")
    keys = list(zip(trees.tolist(), ids.tolist(), strict=True))
    kept = np.array([key in found for key in keys], bool)  # weights of inner nodes count for nothing
    leaf = np.array([found[key] for key in keys if key in found], np.int64)
    return {"leaf": leaf, "target": targets[kept], "weight": weights[kept]}


@onnx_op("TreeEnsembleRegressor", domain=_ML)
def tree_regressor(ctx: Context, node: OnnxNode) -> Value:
    attrs, found = _forest(node)
    base, how = _floats(node, "base_values"), node.choice_attr("aggregate_function", "SUM", *AGGREGATES)
    leaves, targets = _leaves(node, "target", found), node.int_attr("n_targets", 1)
    scores = ctx.op("TreeEnsemble", node.input(0), **attrs, **leaves, base=base, targets=targets, aggregate=how)
    return ctx.op("PostTransform", ctx.op("Cast", scores, dstT="DT_FLOAT"), transform=_transform(node))


@onnx_op("TreeEnsembleClassifier", domain=_ML)
def tree_classifier(ctx: Context, node: OnnxNode) -> list[Value]:
    labels = one_list(node, "classlabels_strings", "classlabels_int64s")
    attrs, found = _forest(node)
    leaves, base, how = _leaves(node, "class", found), _floats(node, "base_values"), _transform(node)
    said, weights = np.unique(np.asarray(leaves["target"])), np.asarray(leaves["weight"])
    classes, decision = labels.size, dict[str, object]()
    if classes == 2 and said.size == 1:  # the score of one class decides between two
        positive = bool((weights >= 0).all())
        decision = {"threshold": 0.5 if positive else 0.0, "decide": int(said[0])}
        if said[0] == 0 and base.size < 2:
            plain = "one" if positive else "negative"
            classes, decision["complement"] = 1, "logistic" if how == "LOGISTIC" else plain
            decision["decide"] = 0
    elif classes == 1:
        raise node.unsupported("a classifier of one class", "give it two labels")
    scores = ctx.op("TreeEnsemble", node.input(0), **attrs, **leaves, base=base, targets=classes)
    scores = ctx.op("Cast", scores, dstT="DT_FLOAT")
    return ctx.emit("Classify", [scores], 2, labels=labels, transform=how, **decision)


# -- linear models and support vectors --------------------------------------------------------------------------------


@onnx_op("LinearRegressor", domain=_ML)
def linear_regressor(ctx: Context, node: OnnxNode) -> Value:
    coefficients, bias = _floats(node, "coefficients"), _floats(node, "intercepts")
    targets = node.int_attr("targets", 1)
    if targets < 1 or coefficients.size % targets or bias.size not in (0, targets):
        raise FormatError(f"{node.where}: its coefficients and intercepts do not fit {targets} targets")
    scores = ctx.op("LinearScores", node.input(0), coefficients=coefficients, intercepts=bias)
    return ctx.op("PostTransform", scores, transform=_transform(node))


@onnx_op("LinearClassifier", domain=_ML)
def linear_classifier(ctx: Context, node: OnnxNode) -> list[Value]:
    node.ignore("multi_class")  # how it was trained
    labels, how = one_list(node, "classlabels_strings", "classlabels_ints"), _transform(node)
    coefficients, bias = _floats(node, "coefficients"), _floats(node, "intercepts")
    scores = ctx.op("LinearScores", node.input(0), coefficients=coefficients, intercepts=bias)
    alone = "logistic" if how == "LOGISTIC" else "one"
    return ctx.emit("Classify", [scores], 2, labels=labels, transform=how, complement=alone)


def _kernel(node: OnnxNode) -> dict[str, object]:
    params = _floats(node, "kernel_params")
    if params.size not in (0, 3):
        raise FormatError(f"{node.where}: kernel_params are gamma, coef0 and degree, found {params.size} numbers")
    return {"kernel": node.choice_attr("kernel_type", "LINEAR", *KERNELS), "params": params if params.size else None}


@onnx_op("SVMRegressor", domain=_ML)
def svm_regressor(ctx: Context, node: OnnxNode) -> Value:
    node.choice_attr("post_transform", "NONE", "NONE")
    vectors, count = _floats(node, "support_vectors"), node.int_attr("n_supports", 0)
    coefficients, rho = _floats(node, "coefficients"), _floats(node, "rho")
    kernel, one = _kernel(node), node.bool_attr("one_class", False)
    kept = vectors if count else None  # without support vectors the coefficients are a plane
    return ctx.op(
        "SVMRegressor", node.input(0), vectors=kept, coefficients=coefficients, rho=rho, oneClass=one, **kernel
    )


@onnx_op("SVMClassifier", domain=_ML)
def svm_classifier(ctx: Context, node: OnnxNode) -> list[Value]:
    labels, how = one_list(node, "classlabels_strings", "classlabels_ints"), _transform(node)
    per, vectors = node.ints_or("vectors_per_class", ()), _floats(node, "support_vectors")
    coefficients, rho = _floats(node, "coefficients"), _floats(node, "rho")
    a, c, kernel = _floats(node, "prob_a"), _floats(node, "prob_b"), _kernel(node)
    if not per:  # planes, one a class
        bias = rho[:1]
        scores = ctx.op("LinearScores", node.input(0), coefficients=coefficients, intercepts=bias)
        return ctx.emit("Classify", [scores], 2, labels=labels, transform=how)
    if how == "PROBIT" and labels.size == 2 and not a.size:
        raise node.unsupported("post_transform PROBIT of one score", "apply it behind the classifier")
    return ctx.emit(
        "SVMClassifier", [node.input(0)], 2, vectors=vectors, coefficients=coefficients, rho=rho, perClass=per,
        labels=labels, probA=a if a.size else None, probB=c if c.size else None, transform=how, **kernel,
    )  # fmt: skip
