"""``mnn train``: from nothing, from a trained model, from a teacher; going on exactly, and what is refused."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import MNN
from MNN.errors import MNNError
from MNN.train import classification
from tests import zoo
from tests.cli.conftest import run_command
from tests.interop import official
from tests.train.classification.pictures import write_crops, write_digits

SMALL = 'data = "digits"\noutput = "digits.mnn"\nsize = 8\nchannels = 1\nbatch = 16\nrate = 3e-3\nwidth = 8\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Three classes of 40 digits each."""
    found = tmp_path_factory.mktemp("digits")
    write_digits(found / "digits", 3, 40)
    return found


def settings(few, text, output):
    """Those of a file of these lines, beside the pictures ``few``."""
    kept = [line for line in SMALL.splitlines() if line.partition(" ")[0] not in (*text.split(), "output")]
    (few / "digits.toml").write_text("\n".join([*kept, f'output = "{output}"', text]))
    return classification.read(few / "digits.toml")


def test_digits_from_nothing(folder):
    write_digits(folder / "digits", 10, 200)
    Path("digits.toml").write_text(SMALL.replace("width = 8", "width = 24").replace("16", "32") + "epochs = 12\n")
    result = run_command("train", "digits.toml")
    assert result.code == 0, result
    held = sum(max(1, round(0.2 * len(list(p.iterdir())))) for p in Path("digits").iterdir())
    right = int(result.out.partition("it finds ")[2].partition(" ")[0])
    assert right >= 0.97 * held
    assert Path("digits.txt").read_text().split() == [str(i) for i in range(10)]
    assert Path("digits.svg").read_text().startswith("<svg")
    model = MNN.load("digits.mnn")
    assert not any("Norm" in node.op or "Dropout" in node.op for node in model.graph.nodes)
    image = np.asarray(Image.open("digits/7/3.png"), np.float32)[None, None] / 255
    (theirs,) = official.run("digits.mnn", {"image": image}, ["scores"])
    assert np.abs(theirs - model.run(image)["scores"]).max() < 1e-4
    assert theirs.argmax() == 7


@pytest.mark.real
def test_transfer_of_a_trained_model(folder):
    write_crops(folder, 12)
    text = (
        f'data = "training"\nvalidation = "testing"\nmodel = "{zoo.path("efficientnet_lite0")}"\noutput = "two.mnn"\n'
    )
    Path("two.toml").write_text(f'{text}train = "head"\nmean = 127\nnorm = 0.0078125\nepochs = 10\n')
    result = run_command("train", "two.toml")
    assert result.code == 0, result
    assert "of the 24 pictures held out it finds 24 right" in result.out
    found = run_command(
        "run", "two.mnn", "-i", "testing/coffee/1.png", "--mean", 127, "--norm", 0.0078125, "--labels", "two.txt"
    )
    assert found.code == 0, found
    assert "coffee" in found.out


def test_all_of_a_model_and_a_teacher(few, folder):
    first = classification.train(settings(few, "epochs = 15", folder / "first.mnn"), progress=False)
    model = f'model = "{folder / "first.mnn"}"\n'
    tuned = settings(few, f"{model}epochs = 15\ncrop = true\nthreads = 2", folder / "b.mnn")
    second = classification.train(tuned, progress=False)
    taught = settings(few, f'teacher = "{folder / "first.mnn"}"\nepochs = 8', folder / "c.mnn")
    third = classification.train(taught, progress=False)
    assert [r.right / r.held >= 0.9 for r in (first, second, third)] == [True] * 3
    assert third.history.best.validation["accuracy"] == third.right / third.held


def test_an_interruption_goes_on_exactly(few, folder, monkeypatch):
    drawn = "epochs = 4\nflip = true\ncrop = true\nthreads = 2"
    whole = classification.train(settings(few, drawn, folder / "whole.mnn"), progress=False)
    steps, step = [0], MNN.optim.Optimizer.step_on

    def counted(self, captured, arrays):
        steps[0] += 1
        if steps[0] == 9:  # of six in an epoch
            signal.raise_signal(signal.SIGINT)
        return step(self, captured, arrays)

    monkeypatch.setattr(MNN.optim.Optimizer, "step_on", counted)
    with pytest.raises(KeyboardInterrupt):
        classification.train(settings(few, drawn, folder / "part.mnn"), progress=False)
    assert (folder / "part.checkpoint.npz").exists()
    assert not (folder / "part.mnn").exists()
    later = classification.train(settings(few, drawn, folder / "part.mnn"), progress=False)
    assert later.history.losses == whole.history.losses
    assert (folder / "part.mnn").read_bytes() == (folder / "whole.mnn").read_bytes()
    with pytest.raises(MNNError, match=r"with batch = 16, now it is 8"):
        classification.train(settings(few, drawn + "\nbatch = 8", folder / "part.mnn"), progress=False)


BAD = {
    "epoch = 3": "there is no key 'epoch'; epochs is one",
    "epochs = 2.5": "epochs = 2.5: a whole number is expected",
    "epochs = 0": "epochs = 0: it must be more than 0",
    "flip = 1": "flip = 1: true or false is expected",
    "size = [1, 2, 3]": r"size = \[1, 2, 3\]: a whole number or \[height, width\] is expected",
    'optimizer = "addam"': "it is one of sgd, adam",
    "validation = 1.5": "a share between 0 and 1",
    'validation = "nowhere"': "nowhere is no folder",
    'train = "head"': "train would change nothing without a model",
    'model = "none.onnx"': "none.onnx",
    "norm = [1, 2, 3]": "one per channel",
    'output = "digits.onnx"': "what is written is a .mnn model",
    "rate = nan": "rate = nan: a number is expected",
    "mean = [0, inf, 0]": "a number or one per channel is expected",
    "seed = 99999999999999999999": "seed has at most 63 bits, found 9999",
    "epochs = ": "is no TOML file",
}  # fmt: skip


@pytest.mark.parametrize("line", BAD)
def test_bad_settings(line, few, folder):
    key = line.partition(" ")[0]
    lines = [text for text in SMALL.splitlines() if not text.startswith(key)]
    (few / "bad.toml").write_text("\n".join([*lines, line]))
    result = run_command("train", few / "bad.toml")
    assert result.code == 2, result
    assert re.search(BAD[line], result.err.replace("\n", " ")), result.err


def test_bad_pictures(few, folder):
    (folder / "one" / "a").mkdir(parents=True)
    given = settings(few, "epochs = 1", folder / "x.mnn")
    for make, text in (
        (lambda: None, "holds 1 folders"),
        (lambda: (folder / "one" / "b").mkdir(), "holds no pictures"),
        (lambda: [Image.new("L", (9, 9)).save(folder / "one" / c / "1.png") for c in "ab"], "1 of which would be held"),
        (lambda: [Image.new("L", (9, 9)).save(folder / "one" / c / "2.png") for c in "ab"], None),
        (lambda: (folder / "one" / "b" / "1.png").write_bytes(b"none"), "1.png"),
    ):
        make()
        changed = classification.Settings(**{**vars(given), "data": folder / "one"})
        if text is None:
            assert classification.train(changed, progress=False).held == 2
            (folder / "x.checkpoint.npz").unlink()
            continue
        with pytest.raises(MNNError, match=text):
            classification.train(changed, progress=False)
