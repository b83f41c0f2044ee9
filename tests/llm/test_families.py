"""Every family of models against what transformers computed for small random ones (``tests/llm/record.py``)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.models.families import build, families
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, Encoded, Expected, check, check_briefly, check_encoder, decoder_of

HERE = Path(__file__).parent
ALL = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
RECORDED = [notes for notes in ALL if not notes.get("encoder")]
COUNT = int(os.environ.get("MNN_LLM_CASES", "1"))
"""Of the recorded models of each family, how many are tried; 2 are there."""
ALIKE = {*cases.SAVED, "mimo", "bailing_moe"} - {"mamba", "nemotron_h", "phimoe"}
"""Families whose caches and positions are those of others: of these, less is tried unless more is asked for."""
BRIEF = {
    "hy_v3", "afmoe", "mellum", "flex_olmo", "cohere2_moe", "dbrx", "granitemoe_swa", "granite_swa", "sarvam_mla",
    "sarvam_moe", "hyperclovax", "iquestcoder", "bitnet", "jais2", "nanochat",
    "deepseek_v32", "glm_moe_dsa", "longcat_flash",
}  # fmt: skip
"""Families that are nothing but calls of what others call, too: of these, every logit of a text in two pieces."""


def expected(notes: dict[str, object]) -> Expected:
    name = f"{notes['config']['model_type']}-{notes['seed']}"  # type: ignore[index]
    with np.load(HERE / "recorded.npz") as file:
        padded = [file[f"{name}.padded{i}"] for i in range(3)]
        return Expected(**notes, logits=file[f"{name}.logits"], padded=padded)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "notes", [n for n in RECORDED if n["seed"] < COUNT], ids=lambda n: f"{n['config']['model_type']}-{n['seed']}"
)
def test_like_transformers(notes: dict[str, object]) -> None:
    family = notes["config"]["model_type"]  # type: ignore[index]
    if family in BRIEF and COUNT == 1:
        check_briefly(expected(notes))
    else:
        check(expected(notes), whole=family not in ALIKE or COUNT > 1)


@pytest.mark.parametrize(
    "notes", [n for n in ALL if n.get("encoder")], ids=lambda n: f"{n['config']['model_type']}-{n['seed']}"
)
def test_vectors_like_transformers(notes: dict[str, Any]) -> None:
    name = f"{notes['config']['model_type']}-{notes['seed']}"
    with np.load(HERE / "recorded.npz") as file:
        vectors = [file[f"{name}.vectors{i}"] for i in range(3)]
    check_encoder(Encoded(notes["config"], notes["shapes"], notes["seed"], vectors))


def test_every_family_is_recorded() -> None:
    recorded = {notes["config"]["model_type"] for notes in RECORDED}
    assert set(families()) - recorded == {
        "gemma3",
        "gemma3n",
        "gemma4",
        "llama4",
        "qwen3_5",
        "qwen3_5_moe",
    }  # their texts' halves are recorded
    assert recorded == set(cases.FAMILIES)


def _small() -> tuple[dict[str, object], Arrays]:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "llama")
    return dict(notes["config"]), Arrays(cases.weights(notes["shapes"], notes["seed"]))


def test_texts_go_back_and_on() -> None:
    config, weights = _small()
    decoder = decoder_of(config, weights, Config(cache=False, precision="high"), max_length=40)
    prompt = cases.tokens(5, 30)
    whole, text = decoder.feed(decoder.text(), prompt, every=True), decoder.text()
    decoder.feed(text, prompt[:20])
    other = [*prompt[:12], 7, 8, 9]
    assert decoder.resume(text, other) == [7, 8, 9]
    decoder.feed(text, [7, 8, 9])
    assert text.tokens == other
    assert decoder.resume(text, prompt[:15]) == prompt[12:15]
    np.testing.assert_allclose(decoder.feed(text, prompt[12:15])[-1], whole[14], atol=1e-5)
    assert decoder.resume(text, prompt[:15]) == prompt[14:15]  # a logit needs a token
    with pytest.raises(MNNError, match="45 tokens; the model was loaded for 40"):
        decoder.feed(text, [*prompt, 1])
    assert text.tokens == prompt[:14]
    np.testing.assert_allclose(decoder.feed(text, prompt[14:])[-1], whole[-1], atol=1e-5)
    with pytest.raises(MNNError, match="no tokens"):
        decoder.feed(text, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "qwen9"}, "models that write text of the kind 'qwen9' are not known; the nearest .*qwen2"),
        ({"model_type": "zzz"}, "models that write text of the kind 'zzz' are not known; known are .*llama"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0"),
        ({"num_attention_heads": "four"}, "num_attention_heads = 'four'"),
        ({"num_key_value_heads": 3}, "cannot share 3"),
        ({"hidden_act": "softsign"}, "'softsign' is none of"),
        ({"partial_rotary_factor": float("inf")}, "partial_rotary_factor = inf; expected is a number"),
        ({"partial_rotary_factor": 7.0}, "turns 7 of each head; expected is 0 to 1"),
        ({"rope_parameters": {"rope_type": "spiral"}}, "scaled by 'spiral'"),
        ({"rope_parameters": {"rope_type": "linear"}}, "lack a number 'factor'"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0]}}, "has 1 numbers"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], message: str) -> None:
    config, weights = _small()
    with pytest.raises((FormatError, UnsupportedError), match=message):
        build({**config, **change}, weights)


def test_attention_to_both_sides_writes_nothing() -> None:
    """EmbeddingGemma has Gemma 3's name, and is no decoder."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "gemma3_text")
    weights = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    with pytest.raises(UnsupportedError, match="before and behind a token"):
        build({**notes["config"], "use_bidirectional_attention": True}, weights)
