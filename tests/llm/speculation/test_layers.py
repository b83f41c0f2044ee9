"""Models with some of their layers, read from a folder, against those layers at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation import skipping
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.files.writing import safetensors
from tests.llm.speculation.writing import small, written
from tests.llm.test_families import RECORDED


def _folder(place: Path, family: str) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    arrays = cases.weights(notes["shapes"], notes["seed"])
    (place / "model.safetensors").write_bytes(safetensors(arrays))
    (place / "config.json").write_text(json.dumps(notes["config"]))
    return notes["config"], arrays


@pytest.mark.parametrize("family", ["smollm3", "gemma3_text"])
def test_some_layers(family: str, tmp_path: Path) -> None:
    config, arrays = _folder(tmp_path, family)
    kept = [0, int(str(config["num_hidden_layers"])) - 1]
    fewer = {**config, "num_hidden_layers": 2}
    for name in ("layer_types", "no_rope_layers"):
        told = config.get(name)
        if isinstance(told, list):
            fewer[name] = [told[i] for i in kept]
    own = {}
    for name, data in arrays.items():
        found = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name)
        if found is None:
            own[name] = data
        elif int(found[1]) in kept:
            own[f"model.layers.{kept.index(int(found[1]))}.{found[2]}"] = data
    decoder = decoder_of(fewer, Arrays(own), Config(cache=False), bits=16)
    prompt = cases.tokens(4, 10)
    wanted = written(decoder, prompt, 7).tokens
    drafter = skipping(tmp_path, kept, 1)
    assert drafter.propose(prompt, 7, SamplingOptions(temperature=0)).tokens == wanted
    full = small(family, bits=16)
    assert written(full, prompt, 40, drafter).tokens == written(full, prompt, 40).tokens


def test_layers_that_are_not_there(tmp_path: Path) -> None:
    config, _ = _folder(tmp_path, "llama")
    last = int(str(config["num_hidden_layers"])) - 1
    for layers in ([], [last + 1], [-1, 0]):
        with pytest.raises(MNNError, match=f"has the layers 0 to {last}"):
            skipping(tmp_path, layers, 1)
