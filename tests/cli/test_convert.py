"""``mnn convert``: options, listings, and files that appear whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.schema import read_net
from tests.cli import models


def _answer(path: Path) -> np.ndarray:
    image = np.linspace(0, 1, 3 * 64, dtype=np.float32).reshape(3, 1, 8, 8)
    return MNN.load(path).run({"image": image})["probability"]


def _files() -> list[str]:
    return sorted(os.listdir())


def test_says_what_it_did(mnn, digits):
    result = mnn("convert", digits, "a.mnn")
    assert result.code == 0
    assert f"{digits} -> a.mnn" in result.out
    assert "operators became" in result.out
    assert "passes:" in result.out
    assert _files() == ["a.mnn"]
    np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_gives_the_same_answer(mnn, digits, level):
    result = mnn("convert", "--optimizeLevel", level, digits, "a.mnn")
    assert result.code == 0
    assert ("passes:" in result.out) == (level > 0)
    np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)


def test_half_precision_is_half_the_size_and_near(mnn, digits):
    assert mnn("convert", digits, "a.mnn").code == 0
    assert mnn("convert", "--fp16", digits, "h.mnn").code == 0
    weights = 9802 * 4
    assert Path("a.mnn").stat().st_size - Path("h.mnn").stat().st_size > 0.4 * weights
    np.testing.assert_allclose(_answer(Path("h.mnn")), _answer(digits), atol=2e-3)


def test_external_weights_go_to_a_second_file(mnn, digits):
    result = mnn("convert", "--saveExternalData", digits, "a.mnn")
    assert result.code == 0
    assert "a.mnn.weight" in result.out
    assert _files() == ["a.mnn", "a.mnn.weight"]
    assert Path("a.mnn.weight").stat().st_size > 25_000
    np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)
    Path("a.mnn.weight").unlink()
    with pytest.raises(MNN.MNNError, match=r"a\.mnn\.weight"):
        MNN.load("a.mnn")


def test_official_way_to_write_switches(mnn, digits):
    assert mnn("convert", "--saveExternalData=1", "--fp16=false", "--keepInputFormat=1", digits, "a.mnn").code == 0
    assert mnn("convert", "--saveExternalData", digits, "b.mnn").code == 0
    assert Path("a.mnn.weight").read_bytes() == Path("b.mnn.weight").read_bytes()


def test_batch_fixes_the_open_size(mnn, digits):
    assert mnn("convert", "--batch", 3, digits, "a.mnn").code == 0
    shapes = {i.name: i.shape for i in MNN.load("a.mnn").inputs.values()}
    assert shapes == {"image": (3, 1, 8, 8)}
    np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)


def test_input_format(mnn, digits):
    def layout(*options: str) -> str:
        assert mnn("convert", *options, digits, "a.mnn").code == 0
        (op,) = (o for o in read_net("a.mnn").oplists if o.type == "Input")
        np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)
        return str(op.main.dformat)

    assert layout() == layout("--keepInputFormat") == "NCHW"
    assert layout("--no-keepInputFormat") == layout("--keepInputFormat=0") == "NC4HW4"


def test_label_is_stored(mnn, digits):
    assert mnn("convert", "--bizCode", "shop", digits, "a.mnn").code == 0
    assert "bizCode: shop" in mnn("info", "a.mnn").out


def test_disabled_passes_do_not_run(mnn, digits):
    assert "activation-folding" in mnn("convert", digits, "a.mnn").out
    off = mnn("convert", "--disable-pass", "activation-folding,dead-code", "--disable-pass", "silu", digits, "b.mnn")
    assert off.code == 0
    assert "activation-folding" not in off.out
    np.testing.assert_allclose(_answer(Path("b.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)


def test_unknown_pass_lists_the_known_ones(refused, digits):
    message = refused("convert", "--disable-pass", "no-such-pass", digits, "a.mnn")
    assert "no-such-pass" in message
    assert "constant-folding" in message
    assert "activation-folding" in message
    assert _files() == []


def test_all_unsupported_operators_are_listed_at_once(refused, tmp_path):
    message = refused("convert", models.unsupported(tmp_path / "m.onnx"), "a.mnn")
    assert "3 unsupported nodes" in message
    for text in ("NoSuchOperator", "first, third", "ai.onnx", "opset 17", "Vendor", "second", "com.example", "opset 3"):
        assert text in message
    assert message.count("what to do:") == 2
    assert "register_operator" in message
    assert "fine" not in message
    assert _files() == ["m.onnx"]


def test_a_failed_conversion_keeps_the_old_file(refused, tmp_path):
    Path("a.mnn").write_bytes(b"old")
    refused("convert", models.unsupported(tmp_path / "m.onnx"), "a.mnn")
    assert Path("a.mnn").read_bytes() == b"old"


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_interrupted_writing_leaves_nothing(mnn, digits, monkeypatch, moment, external):
    own, plain = threading.get_ident(), getattr(os, moment)

    def interrupt(*arguments: Any) -> None:
        if threading.get_ident() != own:  # what is stored in the background is another matter
            return plain(*arguments)
        raise KeyboardInterrupt

    options = ["--saveExternalData"] if external else []
    with monkeypatch.context() as patch:
        patch.setattr(f"MNN.schema.files.os.{moment}", interrupt)
        assert mnn("convert", *options, digits, "a.mnn").code != 0
    assert _files() == []


def test_full_disk_leaves_both_old_files(mnn, refused, digits, monkeypatch):
    assert mnn("convert", "--saveExternalData", digits, "a.mnn").code == 0
    before = {n: Path(n).read_bytes() for n in _files()}

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("MNN.schema.writer._Writer.save", full)
    message = refused("convert", "--saveExternalData", "--fp16", digits, "a.mnn")
    assert "No space left on device" in message
    assert {n: Path(n).read_bytes() for n in _files()} == before


def test_mnn_files_are_optimised_again(mnn, digits):
    assert mnn("convert", "--optimizeLevel", 0, digits, "a.mnn").code == 0
    result = mnn("convert", "--fp16", "a.mnn", "b.mnn")
    assert result.code == 0
    assert "activation-folding" in result.out
    np.testing.assert_allclose(_answer(Path("b.mnn")), _answer(digits), atol=2e-3)


def test_onto_itself(mnn, digits):
    assert mnn("convert", "--saveExternalData", digits, "a.mnn").code == 0
    assert mnn("convert", "--saveExternalData", "a.mnn", "a.mnn").code == 0
    np.testing.assert_allclose(_answer(Path("a.mnn")), _answer(digits), rtol=1e-5, atol=1e-7)
