"""ONNX-ML: decision trees and the operators around them."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.trees import AGGREGATES

_ML = "ai.onnx.ml"
_FORMS = {"strings": (object, "_Unused"), "int64s": (np.int64, -1), "floats": (np.float32, -0.0)}


@onnx_op("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(ctx: Context, node: OnnxNode) -> Value:
    flat = ctx.op("Reshape", node.input(1), ctx.const(np.array([-1], np.int64)))
    return ctx.op("GatherV2", node.input(0), flat, ctx.const(np.asarray(-1, np.int32)))


@onnx_op("Binarizer", domain=_ML)
def binarizer(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    above = ctx.op("BinaryOp", x, ctx.const_like(node.float_attr("threshold", 0.0), x), opType="GREATER")
    return ctx.op("CastLike", above, x)


@onnx_op("LabelEncoder", domain=_ML, since=2)
def label_encoder(ctx: Context, node: OnnxNode) -> Value:
    keys, _ = _labels(node, "keys")
    values, form = _labels(node, "values")
    return ctx.op("LabelEncoder", node.input(0), keys=keys, values=values, default=_default(node, form, values.dtype))


def _labels(node: OnnxNode, stem: str) -> tuple[np.ndarray, str]:
    """Keys or values, in whichever of the four attributes they are, and which."""
    found = [form for form in (*_FORMS, "tensor") if node.has(f"{stem}_{form}")]
    if len(found) != 1:
        raise FormatError(f"{node.where}: needs one list of {stem}, found {', '.join(found) or 'none'}")
    form = found[0]
    if form == "tensor":
        tensor = node.tensor_attr(f"{stem}_tensor")
        assert tensor is not None
        return tensor.reshape(-1), form
    return np.array(node.any_attr(f"{stem}_{form}"), _FORMS[form][0]), form


def _default(node: OnnxNode, form: str, dtype: np.dtype[np.generic]) -> np.ndarray:
    node.ignore("default_string", "default_int64", "default_float", "default_tensor")
    if form == "tensor":
        given = node.tensor_attr("default_tensor", None)
        fallback: object = "_Unused" if dtype.kind == "O" else 0 if dtype.kind == "f" else -1
        return np.array([fallback], dtype) if given is None else given.reshape(-1)
    kind, usual = _FORMS[form]
    key = f"default_{form[:-1]}"
    return np.array([node.any_attr(key) if node.has(key) else usual], kind)


@onnx_op("TreeEnsemble", domain=_ML, since=5)
def tree_ensemble(ctx: Context, node: OnnxNode) -> Value:
    node.ignore("nodes_hitrates")
    transform = node.int_attr("post_transform", 0)
    if transform:
        raise node.unsupported(f"post_transform {transform}", "apply it behind the ensemble")
    how = node.int_attr("aggregate_function", 1)
    if not 0 <= how < len(AGGREGATES):
        raise node.unsupported(f"aggregate_function {how}")
    targets, weight = node.ints_or("leaf_targetids", ()), node.tensor_attr("leaf_weights")

    def ends(side: str) -> np.ndarray:
        ids, leaf = (np.array(node.ints_or(f"nodes_{side}{kind}", ()), np.int64) for kind in ("nodeids", "leafs"))
        if ids.size != leaf.size or (leaf.size and ids.min() < 0):
            raise FormatError(f"{node.where}: nodes_{side}nodeids and nodes_{side}leafs do not fit each other")
        return np.where(leaf != 0, -1 - ids, ids)

    return ctx.op(
        "TreeEnsemble", node.input(0), modes=node.tensor_attr("nodes_modes"),
        features=np.array(node.ints_or("nodes_featureids", ()), np.int64), splits=node.tensor_attr("nodes_splits"),
        yes=ends("true"), no=ends("false"),
        missing=np.array(node.ints_or("nodes_missing_value_tracks_true", ()), np.int64),
        roots=np.array(node.ints_or("tree_roots", ()), np.int64),
        members=node.tensor_attr("membership_values", None), leaf=np.arange(len(targets)),
        target=np.array(targets, np.int64), weight=weight, targets=node.int_attr("n_targets"),
        aggregate=AGGREGATES[how],
    )  # fmt: skip
