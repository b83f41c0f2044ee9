"""Texts cut into words, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from MNN.errors import UnsupportedError
from MNN.frontends.onnx import load
from tests.harness import run_file

TEXTS = np.array(["the cat sat, on the mat", "", "a-b  c", "dogs' 42 x_y", "aab"], object)


def model(texts=TEXTS, **attrs):
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **attrs)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, list(texts.shape))
    y = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize(
    "attrs",
    [
        {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 2},
        {"tokenexp": "[a-z]|[a-z][a-z]", "mincharnum": 1},
        {"separators": [" ", ","], "mincharnum": 1},
        {"separators": ["[ ,]+"], "mincharnum": 2},
        {"separators": [""], "mincharnum": 1},
    ],
)
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("shape", [(5,), (1, 5)])
def test_like_onnxruntime(attrs, mark, shape):
    texts = TEXTS.reshape(shape)
    made = model(texts, mark=mark, pad_value="#", **attrs).SerializeToString()
    (wanted,) = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, {"x": texts})
    (found,) = run_file(load(made), {"x": texts})
    assert found.tolist() == wanted.tolist()


def test_what_is_refused():
    with pytest.raises(UnsupportedError, match="groupref"):
        load(model(tokenexp=r"(a)\1", mark=0, pad_value="").SerializeToString())
    with pytest.raises(UnsupportedError, match="either tokenexp or separators"):
        load(model(mark=0, pad_value="").SerializeToString())
