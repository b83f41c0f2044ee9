"""``mnn compare --bisect``: a fault planted in each step is found there."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu import backend
from MNN.backends.cpu.codegen import library
from MNN.backends.cpu.math import scalar_code
from MNN.backends.cpu.targets.base import host_target
from MNN.frontends.mnn import write
from MNN.ir.graph import Graph
from MNN.ops.elementwise import unary
from MNN.passes import manager
from MNN.passes.manager import Pass
from tests.cli import models


@pytest.fixture
def model(tmp_path):
    return models.chain(tmp_path / "m.onnx")


def test_a_right_model(mnn, digits, converted):
    result = mnn("compare", "--bisect", digits, converted)
    assert result.code == 0, result
    assert "every step agrees with onnxruntime" in result.out


def test_a_wrong_file(mnn, model, tmp_path):
    wrong = models.chain(tmp_path / "wrong.onnx", third=3.1)
    assert mnn("convert", "--optimizeLevel", 0, wrong, "wrong.mnn").code == 0
    result = mnn("compare", "--bisect", model, "wrong.mnn")
    assert result.code == 1
    assert "wrong.mnn is wrong from node 'scale' (BinaryOp) on: tensor 'scaled'" in result.out


def test_rounding_is_called_so(mnn, digits):
    result = mnn("compare", "--bisect", digits, "--tolerance", "0")
    assert result.code == 1
    assert "rounding of fp32" in result.out


def test_a_wrong_meaning(mnn, model, monkeypatch):
    monkeypatch.setitem(unary._UNARY, "SIN", unary._UNARY["COS"])
    result = mnn("compare", "--bisect", model)
    assert result.code == 1
    assert "node 'sine' (UnaryOp) was read or understood wrongly: its tensor 'wave'" in result.out


def test_a_wrong_kernel(mnn, model, monkeypatch):
    monkeypatch.setitem(scalar_code._MATH, "sin", scalar_code._MATH["cos"])
    monkeypatch.setattr(library, "_LOADED", {})  # so that kernels are made anew
    monkeypatch.setattr(backend, "shared_library", lambda cache: library.Library(host_target()))
    result = mnn("compare", "--bisect", model)
    assert result.code == 1
    assert "the kernel for node 'sine' (UnaryOp) is wrong: its tensor 'wave'" in result.out


def _spoil(graph: Graph) -> int:
    changed = 0
    for node in graph.nodes:
        data = node.inputs[1].data if node.name == "scale" and node.inputs[1] is not None else None
        if isinstance(data, np.ndarray) and data.flat[0] == 3:
            node.inputs[1].data = data * 2
            changed += 1
    return changed


def test_a_wrong_pass(mnn, model, monkeypatch):
    known = dict(manager.passes())
    known["spoiler"] = Pass("spoiler", _spoil, rank=500)
    monkeypatch.setattr(manager, "passes", lambda: known)
    result = mnn("compare", "--bisect", model)
    assert result.code == 1
    assert "pass spoiler made it wrong: tensor 'scaled' of node 'scale'" in result.out
    assert "--disable-pass spoiler" in result.out


def test_a_wrong_writer(mnn, model, monkeypatch):
    kept = write.blob_of
    monkeypatch.setattr(
        write, "blob_of", lambda array, fp16=False: kept(array + 1 if array.dtype == np.float32 else array)
    )
    result = mnn("compare", "--bisect", model)
    assert result.code == 1
    assert "writing the file or reading it back changed node" in result.out


def test_without_onnxruntime_the_meaning_is_the_reference(mnn, model):
    result = mnn("compare", "--bisect", "--no-onnxruntime", model)
    assert result.code == 0
    assert "agrees with the reference implementation" in result.out
