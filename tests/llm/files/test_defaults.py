"""What configurations leave out is what transformers takes."""

from __future__ import annotations

import json
from pathlib import Path

from MNN.llm.files import read_config
from MNN.llm.files.defaults import DEFAULTS, completed
from MNN.llm.models.config import Config
from MNN.llm.models.families import families


def test_gemma3_tells_little(tmp_path: Path) -> None:
    """The configuration of the model with 4 billion parameters says no more of its text half."""
    inner = {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    }  # fmt: skip
    told = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "model.safetensors").write_bytes(b"")
    config = Config(read_config(tmp_path))
    heads = config.heads()
    assert (heads.count, heads.groups, heads.size, config.window, config.longest) == (8, 4, 256, 1024, 131072)
    assert config.activation == "gelu_pytorch_tanh"
    assert config.number("query_pre_attn_scalar", 0) == 256
    assert config.flag("tie_word_embeddings")


def test_what_is_said_stays() -> None:
    told = {"model_type": "mistral", "sliding_window": None, "num_key_value_heads": 2, "rope_theta": 5.0}
    assert completed(told) == told | {"max_position_embeddings": 131072}
    said = completed({"model_type": "mixtral", "rope_parameters": {"rope_theta": 7.0}})
    assert "rope_theta" not in said
    assert completed({"model_type": "mixtral"})["rope_theta"] == 1e6
    assert completed({"model_type": "gemma2", "hidden_act": "relu"}).get("hidden_activation") is None
    assert completed({"model_type": "nothing known"}) == {"model_type": "nothing known"}


def test_only_families_that_are_there() -> None:
    assert set(families()) >= set(DEFAULTS)
