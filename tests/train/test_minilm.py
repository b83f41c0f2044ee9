"""A trained network from a file is tuned as torch tunes it; for more steps ``python -m tests.train.minilm``."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from tests.train import minilm

pytestmark = pytest.mark.real
F = MNN.expr
SIZE = minilm.Size(steps=8, batch=8, length=16, threads=1)


def test_losses_are_those_of_torch_and_what_is_exported_is_the_network(tmp_path):
    own, theirs, model = minilm.curves(SIZE, tmp_path)
    assert np.abs(own / theirs - 1).max() < 1e-3
    whole = [F.placeholder([1, SIZE.length], dtype=F.int) for _ in range(2)]
    MNN.train.export(model, tmp_path / "tuned.mnn", *whole, names=["words", "mask", "scores"])
    words, mask, _ = (a[:1] for a in minilm.sentences(SIZE))
    model.train(False)
    wanted = model([F.const(a, list(a.shape), dtype=F.int) for a in (words, mask)]).read()
    found = MNN.load(str(tmp_path / "tuned.mnn")).run({"words": words, "mask": mask})["scores"]
    assert np.abs(found - wanted).max() < 1e-4
