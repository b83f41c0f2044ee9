"""Of checkpoints of models that also see or hear, the half for text has the names of models of text alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from MNN.llm.files import open_weights, read_config
from MNN.llm.files.adapters import read_adapter
from tests.llm.files.writing import safetensors

PLAIN = ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "lm_head.weight")
NAMES = {
    "model.language_model.": ("model.language_model.embed_tokens.weight", PLAIN[2]),
    "language_model.model.": ("language_model.model.embed_tokens.weight", f"language_model.{PLAIN[2]}"),
}


@pytest.mark.parametrize("prefix", NAMES)
def test_names(prefix: str, tmp_path: Path) -> None:
    """Those of newer checkpoints, and of older ones; adapters are of the same layers."""
    rng = np.random.default_rng(1)
    arrays = {name: rng.standard_normal((4, 4)).astype(np.float32) for name in PLAIN}
    query = f"{prefix}layers.0.self_attn.q_proj"
    held = dict(zip((NAMES[prefix][0], f"{query}.weight", NAMES[prefix][1]), arrays.values(), strict=True))
    held["model.vision_tower.layers.0.weight"] = np.zeros((2, 2), np.float32)
    (tmp_path / "model.safetensors").write_bytes(safetensors(held))
    told = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 4}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    weights = open_weights(tmp_path)
    assert {name for name in weights if "vision" not in name} == set(PLAIN)
    for name, array in arrays.items():
        np.testing.assert_array_equal(weights[name].numpy(), array)
    assert read_config(tmp_path)["text_config"]["hidden_size"] == 4
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    parts = {f"base_model.model.{query}.lora_{letter}.weight": np.ones(shape, np.float32)
             for letter, shape in (("A", (2, 4)), ("B", (4, 2)))}  # fmt: skip
    (adapter / "adapter_model.safetensors").write_bytes(safetensors(parts))
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    assert list(read_adapter(weights, adapter)) == [PLAIN[1].removesuffix(".weight")]


def test_names_that_would_be_the_same_stay(tmp_path: Path) -> None:
    held = {name: np.zeros((2, 2), np.float32) for name in ("language_model.model.a.weight", "model.a.weight")}
    (tmp_path / "model.safetensors").write_bytes(safetensors(held))
    assert set(open_weights(tmp_path)) == set(held)
