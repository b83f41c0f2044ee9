"""Adapters that are trained: losses as torch's, and what is saved is merged to the same model. The whole of SmolLM2:
``python -m tests.llm.lora``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.engine.opening import open_model, open_tensors
from MNN.llm.files import open_weights
from MNN.llm.files.adapters import merged
from MNN.llm.models.adapted.trained import TrainedAdapter
from MNN.llm.tuning import AdaptedModel
from MNN.runtime.config import Config
from tests import zoo
from tests.llm import cases, lora
from tests.llm.check import Arrays
from tests.llm.files.writing import safetensors
from tests.llm.test_families import RECORDED, expected

SMALL = lora.Size(layers=1, steps=5, batch=2, length=12, threads=1)


@pytest.mark.real
def test_losses_are_those_of_torch_and_the_adapter_is_merged(tmp_path: Path) -> None:
    net = lora.model(SMALL)
    theirs = np.array(lora.by_torch(net, SMALL, tmp_path))
    own = np.array(lora.trained(net, SMALL))
    assert np.abs(own / theirs - 1).max() < 1e-4
    text = lora.tokens(SMALL)[0]
    assert float(MNN.nn.loss.softmax_cross_entropy(net(text[:, :-1]), text[:, 1:]).read()) < 0.95 * own[0]
    net.save_adapter(tmp_path / "adapter")
    path = zoo.path("smollm2_gguf")
    config = {**open_tensors(path).config, "num_hidden_layers": SMALL.layers}
    weights = LoadedWeights(merged(open_weights(path), tmp_path / "adapter"))
    again = AdaptedModel(config, weights, TrainedAdapter(1, 1.0, ("q_proj",)), 0)
    wanted = net(text).read()
    assert np.abs(again(text).read() - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["gemma2", "phi3", "chatglm", "qwen2_moe", "deepseek_v2"])
def test_other_families_begin_as_they_were_and_learn(name: str) -> None:
    """Windows and capped scores, positions that depend on the length, neighbours that are turned, experts, latents."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == name)
    layers = ("q_proj", "v_proj", "qkv_proj", "query_key_value", "q_b_proj", "kv_b_proj")
    net = AdaptedModel(
        notes["config"], Arrays(cases.weights(notes["shapes"], notes["seed"])), TrainedAdapter(2, 4.0, layers), 0
    )
    text = np.array([notes["prompt"][: net.longest]], np.int32)
    wanted = expected(notes).logits[: text.size]
    assert np.abs(net(text).read()[0] - wanted).max() < 1e-4 * np.abs(wanted).max()
    optimizer, losses = MNN.optim.SGD(net, 0.1), []
    for _ in range(2):
        loss = MNN.nn.loss.softmax_cross_entropy(net(text[:, :-1]), text[:, 1:])
        optimizer.step(loss)
        losses.append(float(loss.read()))
    assert losses[1] < losses[0]


def test_a_saved_adapter_lies_beside_the_model(tmp_path: Path) -> None:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "qwen3")
    (tmp_path / "model.safetensors").write_bytes(safetensors(cases.weights(notes["shapes"], notes["seed"])))
    (tmp_path / "config.json").write_text(json.dumps(notes["config"]))
    net, text = MNN.llm.load_adapted(tmp_path, 2, 4.0), np.array([cases.tokens(3, 20)], np.int32)
    before, optimizer = net(text).read()[0], MNN.optim.SGD(net, 1.0)
    for _ in range(3):
        optimizer.step(MNN.nn.loss.softmax_cross_entropy(net(text[:, :-1]), text[:, 1:]))
    net.save_adapter(tmp_path / "adapter")
    beside = {"own": tmp_path / "adapter"}
    decoder = open_model(tmp_path).decoder(Config(precision="high", cache=False), kv_bits=32, adapters=beside)
    wanted = net(text).read()[0]
    largest = np.abs(wanted).max()
    assert np.abs(wanted - before).max() > 0.01 * largest
    for name, logits in (("own", wanted), ("", before)):
        found = decoder.feed(decoder.text(name), text[0].tolist(), every=True)
        assert np.abs(found - logits).max() < 1e-4 * largest


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rank": "x"}, "the rank is a whole number, found 'x'"),
        ({"rank": 2.5}, "the rank is a whole number, found 2.5"),
        ({"alpha": "much"}, "alpha is a finite number, found 'much'"),
        ({"alpha": float("nan")}, "alpha is a finite number, found nan"),
        ({"layers": "q_proj"}, r"layers is a list of names, such as \['q_proj', 'v_proj'\], found 'q_proj'"),
        ({"layers": [1]}, r"layers is a list of names, .* found \[1\]"),
        ({"seed": -1}, "a seed must not be negative, found -1"),
        ({"seed": None}, "the seed is a whole number, found None"),
    ],
)
def test_settings_that_are_none(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(MNNError, match=said):
        MNN.llm.load_adapted("no file is opened", **wrong)


@pytest.mark.real
def test_bad_use() -> None:
    opened = open_tensors(zoo.path("smollm2_gguf"))
    config = {**opened.config, "num_hidden_layers": 1}
    with pytest.raises(MNNError, match="no layers called query to put an adapter beside"):
        AdaptedModel(config, opened.weights(), TrainedAdapter(8, 16.0, ("query",)), 0)
    with pytest.raises(MNNError, match="a rank of at least 1"):
        MNN.llm.load_adapted(zoo.path("smollm2_gguf"), rank=0)
    net = AdaptedModel(config, opened.weights(), TrainedAdapter(8, 16.0, ("q_proj",)), 0)
    for tokens, text in (
        ([1, 2, 3], r"tokens are \[batch, length\]"),
        ([[0] * 9000], "9000 tokens; the model was made"),
    ):
        with pytest.raises(MNNError, match=text):
            net(tokens)
