"""Every program in ``examples/`` runs on real models and prints the right answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import zoo
from tests.models.media import page, sound
from tests.models.runners import onnxruntime_runner, plain_onnxruntime_runner
from tests.models.tasks.imagenet import CLASSES, prepare
from tests.models.tasks.ppocr import LINES
from tests.models.tasks.silero import probabilities

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.real


def run(program: str, *arguments: object) -> str:
    """What a program prints."""
    command = [sys.executable, str(EXAMPLES / program), *map(str, arguments)]
    here = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")}
    done = subprocess.run(command, env=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """An image of the lines that the recogniser is asked to read."""
    path = tmp_path / "page.png"
    page(LINES).save(path)
    return path


def test_classify(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"name-{k}" for k in range(1000)))
    images = [zoo.path(key) for key in CLASSES]
    text = run("classify.py", zoo.path("efficientnet_lite0"), *images, "--labels", labels)
    best = re.findall(r"^\S+\n +([\d.]+)%  class (\d+)  name-(\d+)$", text, re.MULTILINE)
    assert [int(place) for _, place, _ in best] == list(CLASSES.values())
    assert all(place == name and float(share) > 15 for share, place, name in best)


def test_detect(tmp_path: Path, written: Path) -> None:
    drawn = tmp_path / "boxes.png"
    text = run("detect.py", zoo.path("ppocr_det"), written, "--out", drawn)
    boxes = [[float(n) for n in line.split()] for line in text.splitlines()]
    assert len(boxes) == len(LINES)
    dark = np.asarray(page(LINES).convert("L")) < 128
    for left, top, right, bottom, score in boxes:
        inside = np.s_[int(top) : int(bottom), int(left) : int(right)]
        assert dark[inside].any()
        assert score > 0.5
        dark[inside] = False
    assert not dark.any(), "text outside of the boxes"
    with Image.open(drawn) as image:
        assert image.getpixel((int(boxes[0][0]), int(boxes[0][1]))) == (255, 0, 0)


def test_ocr(written: Path) -> None:
    models = zoo.path("ppocr_det"), zoo.path("ppocr_rec")
    lines = [line.split("  ", 1) for line in run("ocr.py", *models, written).splitlines()]
    assert [text for _, text in lines] == LINES
    assert all(float(sure) > 0.9 for sure, _ in lines)
    assert "segmentation" in run("ocr.py", *models, zoo.path("picture_page"))


def test_train_digits(tmp_path: Path) -> None:
    text = run("train_digits.py", zoo.path("digits"), "--out", tmp_path / "digits.mnn")
    found = re.search(r"held out: ([\d.]+) % right, after ([\d.]+) s", text)
    assert found is not None
    assert float(found[1]) >= 98.5
    read, are = (line.split()[1:] for line in text.splitlines()[-2:])
    assert len(read) == 10
    assert sum(a == b for a, b in zip(read, are, strict=True)) >= 9


def test_vad() -> None:
    text = run("vad.py", zoo.path("silero_vad"), zoo.path("speech_two_cities"))
    spans = [tuple(map(float, found)) for found in re.findall(r"([\d.]+) s to +([\d.]+) s", text)]
    heard = np.array(probabilities(onnxruntime_runner(zoo.path("silero_vad")), sound("speech_two_cities", 16000), True))
    seconds = np.arange(len(heard)) * 0.032
    found = np.any([(seconds >= begin) & (seconds < end) for begin, end in spans], 0)
    assert np.mean(found == (heard > 0.5)) > 0.97
    assert spans[0] == pytest.approx((1.2, 2.9), abs=0.15)


def test_custom_operator(tmp_path: Path) -> None:
    text = run("custom_operator.py", "--out", tmp_path / "model.mnn")
    found = re.search(r"from numpy: (\S+)", text)
    assert found is not None
    assert float(found[1]) < 1e-6
    assert (tmp_path / "model.mnn").stat().st_size > 100


def test_quantized(tmp_path: Path) -> None:
    target = tmp_path / "small.onnx"
    images = [zoo.path(key) for key in CLASSES]
    text = run("quantized.py", zoo.path("efficientnet_lite0"), *images, "--out", target)
    rows = re.findall(r"class (\d+) in floats, (\d+) in bytes; scores differ by ([\d.]+)%", text)
    assert [int(place) for place, _, _ in rows] == list(CLASSES.values())
    # As written: its own products of bytes saturate on processors with AVX2 alone.
    other = plain_onnxruntime_runner(target)
    for key, (_, place, _) in zip(CLASSES, rows, strict=True):  # two cats are within one step of the last rounding
        scores = np.ravel(other({"input": prepare(key)})["logits"])
        assert scores[int(place)] > 0.98 * scores.max()
    assert sum(a == b for a, b, _ in rows) >= 4
    assert 0 < max(float(error) for *_, error in rows) < 15
    assert target.stat().st_size < 0.35 * zoo.path("efficientnet_lite0").stat().st_size


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_every_program_is_short_tested_and_explains_itself(program: Path) -> None:
    assert len(program.read_text(encoding="utf-8").splitlines()) <= 85
    assert f"test_{program.stem}" in globals()
    assert f"python examples/{program.name}" in run(program.name, "--help")
