"""``mnn demo``: pictures of digits, with what the network says of each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import resources

import numpy as np

import MNN
from MNN.cli.demo import SHADES, SHOWN


def test_the_digits_that_are_drawn_are_the_ones_that_are_named(mnn):
    """The picture is read back from its drawing, and classified: it is what is said below it."""
    result = mnn("demo")
    assert result.code == 0, result
    lines = result.out.splitlines()
    answers = [(int(n), int(sure)) for n, sure in re.findall(r"it is a (\d) \((\d+)%\)", lines[8])]
    assert [n for n, _ in answers] == list(SHOWN)
    assert len({*SHOWN}) == len(SHOWN) > 1
    model = MNN.load(str(resources.files("MNN") / "assets" / "digits.onnx"))
    samples = np.load(str(resources.files("MNN") / "assets" / "digits_samples.npz"))
    for i, (digit, sure) in enumerate(answers):
        drawn = [line.ljust(80)[1 + 18 * i : 17 + 18 * i : 2] for line in lines[:8]]
        picture = np.float32([[SHADES.index(c) / (len(SHADES) - 1) for c in row] for row in drawn])
        near = samples["images"].astype(np.float32) / 16
        which = int(np.abs(near - picture).sum(axis=(1, 2)).argmin())
        assert samples["labels"][which] == digit
        chances = model.run({"image": near[which][None, None]})["probability"][0]
        assert chances.argmax() == digit
        assert round(float(chances.max()) * 100) == sure


def test_python_m_mnn(tmp_path):
    command = [sys.executable, "-m", "MNN", "--version"]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(MNN.__file__))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, f"MNN in Python {MNN.__version__}\n")
    done = subprocess.run(
        [*command[:-1], "run"], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: mnn run ")
