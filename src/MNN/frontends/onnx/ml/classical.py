"""ONNX-ML: features, labels and maps; trees of the newest kind."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.ml.classical_models import one_list
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value
from MNN.ops.classical.scores import TRANSFORMS
from MNN.ops.classical.trees import AGGREGATES

_ML = "ai.onnx.ml"
_FORMS = {"strings": (object, "_Unused"), "int64s": (np.int64, -1), "floats": (np.float32, -0.0)}


@onnx_op("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(ctx: Context, node: OnnxNode) -> Value:
    flat = ctx.op("Reshape", node.input(1), ctx.const(np.array([-1], np.int64)))
    x = node.input(0)
    if ctx.rank(x) == 1:  # one row
        x = ctx.op("Unsqueeze", x, squeezeDims=[0])
    return ctx.op("GatherV2", x, flat, ctx.const(np.asarray(-1, np.int32)))


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
    if not 0 <= transform < len(TRANSFORMS):
        raise node.unsupported(f"post_transform {transform}")
    how = node.int_attr("aggregate_function", 1)
    if not 0 <= how < len(AGGREGATES):
        raise node.unsupported(f"aggregate_function {how}")
    targets, weight = node.ints_or("leaf_targetids", ()), node.tensor_attr("leaf_weights")

    def ends(branch: str) -> np.ndarray:
        ids, leaf = (np.array(node.ints_or(f"nodes_{branch}{kind}", ()), np.int64) for kind in ("nodeids", "leafs"))
        if ids.size != leaf.size or (leaf.size and ids.min() < 0):
            raise FormatError(f"{node.where}: nodes_{branch}nodeids and nodes_{branch}leafs do not fit each other")
        return np.where(leaf != 0, -1 - ids, ids)

    scores = ctx.op(
        "TreeEnsemble", node.input(0), modes=node.tensor_attr("nodes_modes"),
        features=np.array(node.ints_or("nodes_featureids", ()), np.int64), splits=node.tensor_attr("nodes_splits"),
        yes=ends("true"), no=ends("false"),
        missing=np.array(node.ints_or("nodes_missing_value_tracks_true", ()), np.int64),
        roots=np.array(node.ints_or("tree_roots", ()), np.int64),
        members=node.tensor_attr("membership_values", None), leaf=np.arange(len(targets)),
        target=np.array(targets, np.int64), weight=weight, targets=node.int_attr("n_targets"),
        aggregate=AGGREGATES[how],
    )  # fmt: skip
    return ctx.op("PostTransform", scores, transform=TRANSFORMS[transform]) if transform else scores


@onnx_op("ZipMap", domain=_ML)
def zip_map(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("ZipMap", node.input(0), labels=one_list(node, "classlabels_strings", "classlabels_int64s"))


@onnx_op("DictVectorizer", domain=_ML)
def dict_vectorizer(ctx: Context, node: OnnxNode) -> Value:
    known = one_list(node, "string_vocabulary", "int64_vocabulary")
    return ctx.op("DictVectorizer", node.input(0), vocabulary=known)


@onnx_op("CastMap", domain=_ML)
def cast_map(ctx: Context, node: OnnxNode) -> Value:
    kinds = {"TO_FLOAT": "DT_FLOAT", "TO_STRING": "DT_STRING", "TO_INT64": "DT_INT64"}
    dtype, form = (
        node.choice_attr("cast_to", "TO_FLOAT", *kinds),
        node.choice_attr("map_form", "DENSE", "DENSE", "SPARSE"),
    )
    width = node.int_attr("max_map", 1)
    if form == "SPARSE" and width < 1:
        raise FormatError(f"{node.where}: a sparse map of {width} columns")
    return ctx.op("CastMap", node.input(0), outputDataType=kinds[dtype], width=width if form == "SPARSE" else 0)


# -- features ---------------------------------------------------------------------------------------------------------


@onnx_op("Scaler", domain=_ML)
def scaler(ctx: Context, node: OnnxNode) -> Value:
    offset = np.array(node.floats_attr("offset", None) or [0.0], np.float32)
    scale = np.array(node.floats_attr("scale", None) or [1.0], np.float32)
    return ctx.op("Scaler", node.input(0), offset=offset, scale=scale)


@onnx_op("Normalizer", domain=_ML)
def normalizer(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("Normalizer", node.input(0), norm=node.choice_attr("norm", "MAX", "MAX", "L1", "L2"))


@onnx_op("Imputer", domain=_ML)
def imputer(ctx: Context, node: OnnxNode) -> Value:
    floats, integers = node.floats_attr("imputed_value_floats", None), node.ints_attr("imputed_value_int64s", None)
    missing, number = node.float_attr("replaced_value_float", 0.0), node.int_attr("replaced_value_int64", 0)
    if bool(floats) == bool(integers):
        raise FormatError(f"{node.where}: needs either imputed_value_floats or imputed_value_int64s")
    values = np.array(floats, np.float32) if floats else np.array(integers, np.int64)
    return ctx.op("Imputer", node.input(0), values=values, replaced=missing if floats else float(number))


@onnx_op("OneHotEncoder", domain=_ML)
def one_hot_encoder(ctx: Context, node: OnnxNode) -> Value:
    zeros = node.bool_attr("zeros", True)
    return ctx.op("OneHotEncoder", node.input(0), categories=one_list(node, "cats_strings", "cats_int64s"), zeros=zeros)


@onnx_op("CategoryMapper", domain=_ML)
def category_mapper(ctx: Context, node: OnnxNode) -> Value:
    strings, integers = node.strs_attr("cats_strings", None), node.ints_attr("cats_int64s", None)
    return _mapper(ctx, node, strings or [], integers or [])


@onnx_op("LabelEncoder", domain=_ML)
def label_encoder_1(ctx: Context, node: OnnxNode) -> Value:
    strings = node.strs_attr("classes_strings", None) or []
    return _mapper(ctx, node, strings, list(range(len(strings))))


def _mapper(ctx: Context, node: OnnxNode, strings: list[str], integers: list[int]) -> Value:
    return ctx.op(
        "CategoryMapper", node.input(0), strings=np.array(strings, object), integers=np.array(integers, np.int64),
        defaultInt=node.int_attr("default_int64", -1), defaultString=node.str_attr("default_string", "_Unused"),
    )  # fmt: skip


@onnx_op("FeatureVectorizer", domain=_ML)
def feature_vectorizer(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("FeatureVectorizer", *node.inputs, sizes=node.ints_attr("inputdimensions", None))
