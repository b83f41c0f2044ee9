"""``mnn convert --check --report --optimize-report``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.conversion_report import Outline, Step, fusions
from MNN.passes import manager
from MNN.passes.manager import Pass
from tests.cli import models


def test_a_checked_conversion(mnn, digits):
    result = mnn("convert", digits, "a.mnn", "--check", "1e-4", "--shape", "image=2x1x8x8")
    assert result.code == 0, result
    assert "checked against onnxruntime" in result.out
    assert sorted(os.listdir()) == ["a.mnn"]


def test_external_weights_survive_the_check(mnn, digits):
    result = mnn("convert", digits, "a.mnn", "--check", "1e-4", "--saveExternalData")
    assert result.code == 0, result
    assert sorted(os.listdir()) == ["a.mnn", "a.mnn.weight"]
    assert mnn("run", "a.mnn", "--random").code == 0


def _spoil(graph):
    for node in graph.nodes:
        if node.name == "scale" and node.inputs[1].data is not None and node.inputs[1].data.flat[0] == 3:
            node.inputs[1].data = node.inputs[1].data * 2
            return 1
    return 0


def test_nothing_is_written_when_the_check_fails(mnn, refused, tmp_path, monkeypatch):
    model = models.chain(tmp_path / "m.onnx")
    known = {**manager.passes(), "spoiler": Pass("spoiler", _spoil, rank=500)}
    monkeypatch.setattr(manager, "passes", lambda: known)
    Path("a.mnn").write_text("kept")
    message = refused("convert", model, "a.mnn", "--check", "1e-3", "--shape", "x=2x4")
    assert "differs from onnxruntime by more than 0.001: 'y' is off by" in message
    assert "it begins at 'scaled' of node 'scale'" in message
    assert "mnn compare --bisect" in message
    assert Path("a.mnn").read_text() == "kept"
    assert sorted(os.listdir()) == ["a.mnn", "m.onnx"]


def test_the_report_as_data(mnn, digits):
    result = mnn("convert", digits, "a.mnn", "--report", "r.json")
    assert result.code == 0, result
    data = json.loads(Path("r.json").read_text())
    assert data["source"]["bytes"] == digits.stat().st_size
    assert data["files"] == {"a.mnn": Path("a.mnn").stat().st_size}
    assert sum(data["before"]["operators"].values()) >= sum(data["after"]["operators"].values())
    assert data["after"]["inputs"] == {"image": "f32 batch x 1 x 8 x 8"}
    assert data["after"]["parameters"] > 9000
    assert data["needs_this_engine"] == {}
    assert data["check"]["reference"] == "onnxruntime"
    assert data["check"]["largest_error"] < 1e-5
    assert any(count for count in data["passes"].values())
    runs = {entry["operator"]: entry for entry in data["operators"]}
    assert runs["Convolution"] == {
        "operator": "Convolution", "count": data["after"]["operators"]["Convolution"], "this_engine": "kernel",
        "official_engine": "native",
    }  # fmt: skip


def test_the_report_as_a_page(mnn, digits):
    assert mnn("convert", digits, "a.mnn", "--report", "r.html").code == 0
    page = Path("r.html").read_text()
    for words in (
        "Check against onnxruntime",
        "Where it runs",
        "both run every operator",
        "Inputs and outputs",
        "Operators",
        "Passes",
        "probability",
    ):
        assert words in page
    left = page.replace("http://www.w3.org/2000/svg", "")
    assert "http:" not in left
    assert "https:" not in left


def test_the_drawings(mnn, digits):
    assert mnn("convert", digits, "a.mnn", "--optimize-report", "g.svg").code == 0
    for part in ("before", "after"):
        root = ElementTree.fromstring(Path(f"g-{part}.svg").read_text())
        titles = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}title")]
        assert any("Convolution" in t for t in titles)
    assert mnn("convert", digits, "a.mnn", "--optimize-report", "g.html").code == 0
    assert Path("g.html").read_text().count("<svg") == 2


def test_files_that_need_this_engine_say_so(mnn, tmp_path):
    model = models.strings(tmp_path / "s.onnx")
    result = mnn("convert", model, "s.mnn")
    assert result.code == 0, result
    assert "this file needs this engine; the official one does not have StringConcat (1: " in result.out


def test_the_report_says_what_the_official_engine_lacks_and_what_to_do(mnn, tmp_path):
    model = models.strings(tmp_path / "s.onnx")
    assert mnn("convert", model, "s.mnn", "--report", "r.json").code == 0
    (entry,) = [e for e in json.loads(Path("r.json").read_text())["operators"] if e["operator"] == "StringConcat"]
    assert entry["official_engine"] == "needs this engine"
    assert entry["this_engine"] == "host call"
    assert "in front of the model" in entry["advice"]
    assert len(entry["nodes"]) == entry["count"] == 1
    assert mnn("convert", model, "s.mnn", "--report", "r.html").code == 0
    page = Path("r.html").read_text()
    assert "cannot run it" in page
    assert "in front of the model" in page


def test_open_sizes_are_told_not_guessed(mnn, refused, tmp_path):
    model = models.pictures(tmp_path / "p.onnx")
    result = mnn("convert", model, "p.mnn", "--report", "r.json")
    assert result.code == 0, result
    assert "not checked" in result.out
    assert "--shape x=" in refused("convert", model, "p.mnn", "--check", "1e-3")


@pytest.mark.parametrize("option", ["--report", "--optimize-report"])
def test_other_kinds_of_report_are_refused(refused, digits, option):
    assert "a report is a .html or" in refused("convert", digits, "a.mnn", option, "r.pdf")


def test_what_was_fused_is_said(mnn, digits):
    assert mnn("convert", digits, "a.mnn", "--report", "r.json").code == 0
    assert mnn("convert", digits, "b.mnn", "--report", "r.html").code == 0
    found = json.loads(Path("r.json").read_text())["fused"]
    assert any(" + ReLU" in what and what.endswith("→ Convolution") and count for what, count in found.items()), found
    page = Path("r.html").read_text()
    assert "What was fused" in page
    assert found.keys()
    assert next(iter(found)).split(" → ")[0] in page


def test_fusions_are_what_lies_between_kept_tensors():
    def part(*steps: Step) -> Outline:
        return Outline({"x": "f32 4"}, {"y": "f32 4"}, steps, {}, 0, 0)

    before = part(
        Step("MatMul", "m", ("x",), ("a",)),
        Step("BinaryOp", "b", ("a",), ("b",), "ADD"),
        Step("Shape", "s", ("x",), ("s",)),
        Step("Reshape", "r", ("b", "s"), ("r",)),
        Step("ReLU", "y", ("r",), ("y",)),
    )
    after = part(
        Step("MatMul", "m", ("x",), ("b",)),
        Step("Reshape", "r", ("b",), ("r",)),
        Step("ReLU", "y", ("r",), ("y",)),
    )
    assert fusions(before, after) == {"MatMul + BinaryOp ADD → MatMul": 1, "Shape + Reshape → Reshape": 1}
    assert fusions(before, before) == {}


def test_made_up_integers_stay_inside_of_small_tables(mnn, tmp_path):
    """A table of two rows, as those of token types."""
    node = helper.make_node("Gather", ["table", "ids"], ["y"], name="pick")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, (1, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 64, 3))],
        [numpy_helper.from_array(np.ones((2, 3), np.float32), "table")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "t.onnx")
    result = mnn("convert", "t.onnx", "t.mnn", "--report", "r.json", "--check", "1e-4")
    assert result.code == 0, result
    assert json.loads(Path("r.json").read_text())["check"]["tensors"]
