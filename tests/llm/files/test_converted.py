"""GGUF files as llama.cpp's converter writes them are what the checkpoints are that it read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.engine.opening import Opened, open_model
from MNN.llm.files import open_weights, read_config
from MNN.llm.files.adapters import merged, read_adapter
from MNN.llm.models.families import build
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.files.converted import CASES, case, recorded, told_of, written
from tests.llm.files.modules import LAYER, modules
from tests.llm.files.test_gguf import RECORDED as KNOWN
from tests.llm.files.writing import gguf, safetensors
from tests.llm.test_families import COUNT, RECORDED, expected

FILES = recorded()
HIGH = Config(precision="high", cache=False)


def _file(family: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The metadata and tensors of a family's file."""
    told = FILES[family]
    kind, theirs = told["architecture"], KNOWN["names"][told["architecture"]]
    names = {module: theirs[module] or own for own, module in modules(kind).items()}
    metadata = {key: _of_kind(value) for key, value in told["metadata"].items()}
    return {"general.architecture": kind} | metadata, written(case(family, RECORDED), names)


def _of_kind(value: Any) -> Any:
    """Lists of numbers as arrays."""
    if not isinstance(value, list) or isinstance(value[0], bool):
        return value
    return np.array(value, "f4" if isinstance(value[0], float) else "i4")


RUN = {"qwen3_5_text", "nemotron_h", "gemma4_text", "deepseek_v3", "falcon_h1", "glm_moe_dsa"}
RUN |= set(CASES) if COUNT > 1 else set()
"""Families whose files are run; of others, the network is built of what the file has."""
SCALED = ("falcon_h1",)
"""Families whose files have factors of the configuration in the weights."""


@pytest.mark.parametrize("family", CASES)
def test_like_the_checkpoint(tmp_path: Path, family: str) -> None:
    """The tensors are those of the converter's own file, number by number; the logits those that transformers has, or
    this engine where the checkpoint was changed to what files can say."""
    metadata, tensors = _file(family)
    found = {name: [list(array.shape), told_of(name, array)] for name, array in tensors.items()}
    assert found == FILES[family]["tensors"]
    file = tmp_path / "small.gguf"
    file.write_bytes(gguf(metadata, tensors))
    opened, notes = open_model(file), case(family, RECORDED)
    assert isinstance(opened, Opened)
    checkpoint = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    held = open_weights(file)
    same = [name for name in held if name in checkpoint and family not in SCALED]
    for name in same:  # as adapters find them, which are made for the checkpoint
        np.testing.assert_allclose(held[name].float32().reshape(-1), checkpoint[name].reshape(-1), 1e-5, 1e-6)
    assert len(same) >= 10 or family in SCALED
    if family not in RUN:
        build(opened.config, opened.weights())
        return
    decoder = opened.decoder(HIGH, max_length=64, kv_bits=32)
    logits = decoder.feed(decoder.text(), notes["prompt"], every=True)
    if not CASES[family]:
        wanted = expected(notes).logits
    else:
        folder = decoder_of(notes["config"], checkpoint, HIGH, max_length=64)
        wanted = folder.feed(folder.text(), notes["prompt"], every=True)
    assert np.abs(logits - wanted).max() <= 1e-4 * np.abs(wanted).max()


def _changed(family: str, metadata: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    known, made = _file(family)
    kept = {name: value for name, value in (known | metadata).items() if value is not None}
    return gguf(kept, {name: array for name, array in (made | tensors).items() if array.size})


@pytest.mark.parametrize(
    ("family", "metadata", "tensors", "message"),
    [
        ("apertus", {"xielu.beta": None}, {}, "xielu.beta is None; expected is a number for each layer"),
        ("apertus", {"xielu.eps": np.ones(3, "f4")}, {}, "xielu.eps is .* a number for each layer"),
        ("apertus", {"xielu.alpha_n": "much"}, {}, "xielu.alpha_n is 'much'; expected is a number for each layer"),
        ("deepseek_v3", {}, {"blk.0.attn_v_b.weight": np.zeros((5, 10, 12), "f4")}, "of layer 0 do not fit"),
        ("deepseek_v3", {}, {"blk.1.attn_k_b.weight": np.zeros(0, "f4")}, r"of layer 1 have the shapes \[\[6, 10, 12"),
        ("gemma3n_text", {"gemma3n.attention.sliding_window_pattern": [True]}, {}, "has 1 entries for 5 layers"),
        ("gemma3n_text", {"gemma3n.activation_sparsity_scale": np.ones(2, "f4")}, {}, "no number for each layer"),
        ("gemma4_text", {"gemma4.attention.head_count_kv": np.arange(1, 6, dtype="i4")}, {}, "layers of one kind have"),
        ("jamba", {"jamba.ssm.inner_size": 0}, {}, "ssm.inner_size is 0; expected is a number above 0"),
        ("qwen3_next", {"qwen3next.ssm.time_step_rank": None}, {}, "time_step_rank is None; expected"),
        ("mimo_v2_flash", {"mimo2.attention.sliding_window_pattern": None}, {}, "windows of 0 layers of 3"),
        ("granite_swa", {"granite_swa.attention.rope_pattern": [True]}, {}, "positions of 1 layers of 3"),
        ("afmoe", {"afmoe.attention.sliding_window_pattern": [True]}, {}, "windows of 1 layers of 3"),
        ("kimi_linear", {"kimi-linear.kda.head_dim": 0}, {}, "kda.head_dim is 0; expected is a number above 0"),
        ("kimi_linear", {"kimi-linear.expert_gating_func": 1}, {}, "experts of kimi-linear that share one score"),
        ("deepseek_v32", {"deepseek32.expert_gating_func": 1}, {}, "experts of deepseek32 that share one score"),
        ("bailing_hybrid", {"bailingmoe3.swiglu_clamp_exp": np.ones(3, "f4")}, {}, "experts whose gates are limited"),
        ("mimo_v2_flash", {"mimo2.attention.head_count_kv": None}, {}, "other than twice the heads of keys"),
    ],
)
def test_what_does_not_fit(
    tmp_path: Path, family: str, metadata: dict[str, Any], tensors: dict[str, np.ndarray], message: str
) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(_changed(family, metadata, tensors))
    with pytest.raises((FormatError, UnsupportedError), match=message):
        open_weights(file)


@pytest.mark.parametrize(
    ("family", "heads", "module", "fits"),
    [
        ("falcon_h1", {}, "model.layers.0.self_attn.v_proj", False),
        ("qwen3_5_text", {"time_step_rank": 4, "group_count": 2}, "model.layers.1.linear_attn.out_proj", False),
        ("qwen3_5_text", {"time_step_rank": 4, "group_count": 2}, "model.layers.0.mlp.up_proj", True),
        ("qwen3_5_text", {"time_step_rank": 2, "group_count": 2}, "model.layers.1.linear_attn.out_proj", True),
    ],
)
def test_adapters_are_for_the_checkpoint(
    tmp_path: Path, family: str, heads: dict[str, int], module: str, fits: bool
) -> None:
    """Where the file has a layer with factors in it, or heads in another order, what they add would be wrong."""
    (tmp_path / "small.gguf").write_bytes(_changed(family, {f"qwen35.ssm.{k}": n for k, n in heads.items()}, {}))
    held = open_weights(tmp_path / "small.gguf")
    out, taken = held[f"{module}.weight"].shape
    pair = {"A": np.zeros((2, taken), "f4"), "B": np.zeros((out, 2), "f4")}
    parts = {f"base_model.model.{module}.lora_{part}.weight": data for part, data in pair.items()}
    (tmp_path / "adapter_model.safetensors").write_bytes(safetensors(parts))
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 2}')
    if fits:
        assert list(read_adapter(held, tmp_path)) == [module]
        return
    with pytest.raises(UnsupportedError, match=f"the layer '{module}', which .* take the Hugging Face folder"):
        merged(held, tmp_path)


def test_what_metadata_leaves_out(tmp_path: Path) -> None:
    """A number that all models of a kind have is taken, one that sizes follow from is asked for in a sentence."""
    file = tmp_path / "small.gguf"
    file.write_bytes(_changed("nemotron_h", {"nemotron_h_moe.attention.layer_norm_rms_epsilon": None}, {}))
    assert read_config(file)["layer_norm_epsilon"] == 1e-5
    file.write_bytes(_changed("gemma3n_text", {"gemma3n.embedding_length_per_layer_input": None}, {}))
    opened = open_model(file)
    assert isinstance(opened, Opened)
    with pytest.raises(FormatError, match="hidden_size_per_layer_input is missing"):
        build(opened.config, opened.weights())


def test_ternary_weights_of_1bitllm(tmp_path: Path) -> None:
    """The converter rounds BitNet's weights, so that its file is none of a random checkpoint: the same network is read
    from a file whose tensors have the architecture's names, with SiLU and one table for both ends."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "bitnet")
    told = notes["config"] | {"hidden_act": "silu", "tie_word_embeddings": True}
    drawn = cases.weights({k: s for k, s in notes["shapes"].items() if k != "lm_head.weight"}, notes["seed"])
    names = {module: name for name, module in modules("bitnet").items()}
    tensors = {}
    for name, array in drawn.items():
        module, _, kind = re.sub(r"layers\.\d+\.", f"layers.{LAYER}.", name).rpartition(".")
        block = re.search(r"layers\.(\d+)\.", name)
        own = names[module].replace(f"blk.{LAYER}.", f"blk.{block[1]}." if block else "")
        tensors[f"{own}.{kind}"] = array
    metadata = {
        "block_count": told["num_hidden_layers"], "embedding_length": told["hidden_size"],
        "attention.head_count": told["num_attention_heads"], "rope.scaling.type": "linear", "rope.scaling.factor": 1.0,
        "attention.head_count_kv": told["num_key_value_heads"], "rope.freq_base": 10000.0,
        "feed_forward_length": told["intermediate_size"], "attention.layer_norm_rms_epsilon": told["rms_norm_eps"],
    }  # fmt: skip
    file = tmp_path / "small.gguf"
    metadata = {"general.architecture": "bitnet"} | {f"bitnet.{key}": value for key, value in metadata.items()}
    file.write_bytes(gguf(metadata, tensors))
    opened = open_model(file)
    assert isinstance(opened, Opened)
    decoders = opened.decoder(HIGH, max_length=64, kv_bits=32), decoder_of(told, Arrays(drawn), HIGH, max_length=64)
    logits, wanted = (one.feed(one.text(), notes["prompt"], every=True) for one in decoders)
    assert np.abs(logits - wanted).max() <= 1e-4 * np.abs(wanted).max()
