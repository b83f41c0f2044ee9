"""``mnn info`` and ``mnn dump``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import models


def test_info_shows_inputs_outputs_operators(mnn, digits, converted):
    for path in (digits, converted):
        text = mnn("info", path).out
        assert "image: f32 batch x 1 x 8 x 8" in text
        assert "probability: f32 batch x 10" in text
        assert "Convolution" in text
        assert "9,802 numbers" in text
        assert "opsets: ai.onnx 17" in text


def test_info_nodes_name_their_tensors(mnn, tmp_path):
    text = mnn("info", "--nodes", models.chain(tmp_path / "m.onnx")).out
    lines = [line for line in text.splitlines() if "'scale'" in line]
    assert lines == ["BinaryOp 'scale': wave, third -> scaled"]


def test_info_of_names_that_look_like_markup(mnn, tmp_path):
    from onnx import TensorProto, helper

    value = (TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["[red]x"], ["[/]y"], name="[bold]n")
    path = models.save(tmp_path / "[b].onnx", [node], {"[red]x": value}, {"[/]y": value})
    text = mnn("info", "--nodes", path).out
    assert "'[bold]n': [red]x -> [/]y" in text
    assert "[b].onnx" in text.replace("\n", "")  # a long path is wrapped
    assert mnn("run", path, "--random").code == 0
    assert "[/]y" in mnn("compare", path).out
    assert "[b].onnx" in mnn("bench", path, "--runs", 1).out.replace("\n", "")


@pytest.mark.parametrize("options", [[], ["--fp16"], ["--saveExternalData"], ["--optimizeLevel", "0"]])
def test_dump_and_back_is_exact(mnn, digits, options):
    assert mnn("convert", *options, digits, "a.mnn").code == 0
    assert mnn("dump", "a.mnn", "a.json").code == 0
    json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert mnn("convert", "a.json", "b.mnn").code == 0
    assert Path("a.mnn").read_bytes() == Path("b.mnn").read_bytes()


def test_dump_to_the_terminal_is_the_same(mnn, converted):
    printed = mnn("dump", converted)
    assert printed.code == 0
    assert mnn("dump", converted, "a.json").code == 0
    assert Path("a.json").read_text(encoding="utf-8") == printed.out
    assert max(map(len, printed.out.splitlines()[:2])) < 100  # one field a line


def test_dump_over_the_model_itself(refused, converted, tmp_path):
    (tmp_path / "m.mnn").write_bytes(converted.read_bytes())
    assert "would be lost" in refused("dump", "m.mnn", "./m.mnn")
    assert (tmp_path / "m.mnn").read_bytes() == converted.read_bytes()


def test_dump_of_another_kind_of_model(refused, digits):
    assert "mnn dump shows .mnn files" in refused("dump", digits)


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"oplists": 3}', '{"oplists": [{"type": "Nothing"}]}'])
def test_broken_json_is_refused(refused, text):
    Path("a.json").write_text(text, encoding="utf-8")
    assert "a.json" in refused("convert", "a.json", "b.mnn")
    assert not Path("b.mnn").exists()


def test_one_of_a_kind(mnn, tmp_path):
    from onnx import TensorProto, helper

    value = (TensorProto.FLOAT, ["batch", 3, "h", "w"])
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = models.save(tmp_path / "m.onnx", nodes, {"x": value}, {"y": value})
    text = mnn("info", model).out
    assert f"{model}  {model.stat().st_size} B" in text
    assert model.stat().st_size < 1000
    assert "x: f32 batch x 3 x h x w" in text
    assert "1 operator, 0 constants holding 0 numbers" in text
    assert "1 operator became 1" in mnn("convert", model, "a.mnn").out
