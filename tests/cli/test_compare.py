"""``mnn compare``: agreement, and the node where a wrong model parts from the right one."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.comparison import NUMPY, compare, error_of
from tests.cli import models


@pytest.mark.parametrize("options", [[], ["--no-onnxruntime"]])
def test_a_converted_model_agrees(mnn, digits, converted, options):
    result = mnn("compare", digits, converted, *options)
    assert result.code == 0, result.out
    assert "tensors agree within 0.0005" in result.out
    assert (NUMPY if options else "compared with onnxruntime") in result.out
    assert "probability" in result.out


def test_one_model_against_its_own_meaning(mnn, converted):
    result = mnn("compare", converted)
    assert result.code == 0
    assert NUMPY in result.out


@pytest.mark.parametrize("options", [[], ["--no-onnxruntime"]])
def test_the_node_where_the_error_begins(mnn, tmp_path, options):
    right, wrong = models.chain(tmp_path / "right.onnx"), models.chain(tmp_path / "wrong.onnx", third=3.1)
    assert mnn("convert", "--optimizeLevel", 0, wrong, "wrong.mnn").code == 0
    result = mnn("compare", right, "wrong.mnn", "--shape", "x=5x4", *options)
    assert result.code == 1
    assert "the error begins at node 'scale' (BinaryOp): its tensor 'scaled'" in result.out
    assert "3 of 5 tensors differ by more than 0.0005" in result.out
    loose = mnn("compare", right, "wrong.mnn", "--tolerance", 0.5, *options)
    assert loose.code == 0


def test_own_inputs_and_limits_of_the_table(mnn, tmp_path):
    model = models.chain(tmp_path / "m.onnx")
    np.save("x.npy", np.float32([[0, 1, 2, 3]]))
    result = mnn("compare", model, "--input", "x.npy", "--show", 2)
    assert result.code == 0
    assert result.out.count("1x4") == 2
    assert "all 5 tensors agree" in result.out


def test_models_that_share_nothing(refused, digits, tmp_path):
    message = refused("compare", digits, models.chain(tmp_path / "m.onnx"))
    assert "share no tensor name" in message


def test_what_onnxruntime_refuses_is_compared_with_numpy(mnn, tmp_path, monkeypatch):
    import onnxruntime

    def refuse(*arguments: object, **named: object) -> None:
        raise onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented("no such kernel")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    result = mnn("compare", models.chain(tmp_path / "m.onnx"))
    assert result.code == 0
    assert "onnxruntime cannot run" in result.out
    assert NUMPY in result.out


def test_order_and_first_error(tmp_path):
    right, wrong = models.chain(tmp_path / "right.onnx"), models.chain(tmp_path / "wrong.onnx", third=3.1)
    result = compare(right, wrong, {"x": np.float32([[1, 2, 3, 4]])})
    assert [d.tensor for d in result.differences] == ["doubled", "wave", "scaled", "less", "y"]
    assert result.first is not None
    assert (result.first.node, result.first.shape) == ("scale", (1, 4))
    assert result.first.error == pytest.approx(0.1 / 3, rel=1e-3)


def test_errors_of_arrays():
    a = np.float32([1, -4])
    assert error_of(a, a) == 0
    assert error_of(np.float32([1, -3]), a) == pytest.approx(0.25)
    assert error_of(a, np.zeros(2, np.float32)) == 4
    assert error_of(a, a[:1]) == np.inf
    nan, inf = np.float32([1, np.nan]), np.float32([1, np.inf])
    assert error_of(nan, nan) == 0
    assert error_of(inf, inf) == 0
    assert error_of(nan, a) == error_of(a, nan) == error_of(inf, nan) == np.inf
    assert error_of(np.array(["a"], object), np.array(["a"], object)) == 0
    assert error_of(np.array(["a"], object), np.array(["b"], object)) == np.inf
    assert error_of(np.zeros(0), np.zeros(0)) == 0
