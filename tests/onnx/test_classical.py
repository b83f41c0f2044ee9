"""Linear models, support vectors and encoders of ONNX-ML against ONNX Runtime and numpy."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import RunError, ShapeError, UnsupportedError
from tests.onnx.classical import (
    FLOAT,
    INT64,
    STRING,
    TRANSFORMS,
    alike,
    like_onnxruntime,
    model,
    numbers,
    run,
)

# -- linear models and support vectors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "transform"),
    # with one target ONNX Runtime leaves the other transforms out
    [*((3, t) for t in TRANSFORMS), (1, "NONE"), (1, "PROBIT")],
)
def test_linear_regressor(targets, transform):
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


@pytest.mark.onnxruntime("1.32")
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


@pytest.mark.onnxruntime("1.32")
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
