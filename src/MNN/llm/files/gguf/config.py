"""The metadata of a GGUF file as a Hugging Face config."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf.architectures import ARCHITECTURES
from MNN.llm.files.gguf.families import OWN
from MNN.llm.files.gguf.gemma import LAYERWISE
from MNN.llm.files.gguf.naming import Architecture, rounded
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.gguf.recurrent import WITHOUT_ATTENTION

_NUMBERS: dict[str, tuple[str, type]] = {
    "context_length": ("max_position_embeddings", int),
    "embedding_length": ("hidden_size", int),
    "block_count": ("num_hidden_layers", int),
    "attention.head_count": ("num_attention_heads", int),
    "attention.head_count_kv": ("num_key_value_heads", int),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", float),
    "attention.layer_norm_epsilon": ("layer_norm_eps", float),
    "attention.sliding_window": ("sliding_window", int),
    "rope.freq_base": ("rope_theta", float),
    "rope.freq_base_swa": ("rope_local_base_freq", float),
    "expert_used_count": ("num_experts_per_tok", int),
    "expert_feed_forward_length": ("moe_intermediate_size", int),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size", int),
    "expert_shared_count": ("n_shared_experts", int),
    "expert_group_count": ("n_group", int),
    "expert_group_used_count": ("topk_group", int),
    "expert_weights_scale": ("routed_scaling_factor", float),
    "leading_dense_block_count": ("first_k_dense_replace", int),
    "attention.q_lora_rank": ("q_lora_rank", int),
    "attention.kv_lora_rank": ("kv_lora_rank", int),
    "attn_logit_softcapping": ("attn_logit_softcapping", float),
    "final_logit_softcapping": ("final_logit_softcapping", float),
    "embedding_scale": ("scale_emb", float),
    "use_parallel_residual": ("use_parallel_residual", bool),
    "expert_weights_norm": ("norm_topk_prob", bool),
    "interleave_moe_layer_step": ("moe_layer_interval", int),
}
"""Metadata after the architecture's name: what the config calls it."""

_LAYERWISE = ("num_key_value_heads",)
"""What files may have for each layer."""
_LOCAL = ("mixtral", "gpt_oss", "phimoe", "granitemoeshared", "granitemoehybrid", "llama4_text", "minimax")
_ROUTED = ("deepseek_v2", "deepseek_v32", "glm_moe_dsa", "nemotron_h", "mimo_v2_flash")
_EXPERTS = dict.fromkeys(_LOCAL, "num_local_experts") | dict.fromkeys(_ROUTED, "n_routed_experts")
_LATENT = ("deepseek_v2", "deepseek_v32", "glm_moe_dsa", "minicpm3", "kimi_linear", "bailing_hybrid")
_SCALED = ("none", "linear", "yarn", "longrope")
_TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}


def architecture_of(file: GGUF) -> tuple[str, Architecture]:
    """The architecture's name in the file, and how its files are read. UnsupportedError for unknown ones."""
    name = file.get("general.architecture", str)
    if name is None:
        raise FormatError(f"{file.path} has no general.architecture; it holds no language model")
    key = "mixtral" if name == "llama" and file.get("llama.expert_count", int, 0) else name
    if key not in ARCHITECTURES:
        raise UnsupportedError(
            f"{file.path}: models of architecture {name!r} cannot be read; those that can are "
            f"{', '.join(ARCHITECTURES)}. A Hugging Face folder of the same model may do"
        )
    return name, ARCHITECTURES[key]


def config_of(file: GGUF) -> dict[str, Any]:
    """The config, with the names that Hugging Face's ``config.json`` has for this ``model_type``."""
    name, architecture = architecture_of(file)
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": [architecture.class_name],
        **architecture.config,
    }
    differ = architecture.model_type in (*LAYERWISE, "mimo_v2_flash")
    for key, (ours, kind) in _NUMBERS.items():
        value = _by_layer(file, f"{name}.{key}", differ) if ours in _LAYERWISE else file.get(f"{name}.{key}", kind)
        if value is not None:
            config[ours] = rounded(value) if kind is float else value
    heads = () if architecture.model_type in WITHOUT_ATTENTION else ("num_attention_heads",)
    for key in ("hidden_size", "num_hidden_layers", *heads):
        if config.get(key, 0) < 1:
            raise FormatError(f"{file.path}: the metadata has no {key} of one or more")
    if heads:
        config.setdefault("num_key_value_heads", config["num_attention_heads"])
    config["intermediate_size"] = _intermediate_size(file, name, differ or architecture.model_type == "nemotron_h")
    config["vocab_size"] = _vocab_size(file, name, architecture)
    config["tie_word_embeddings"] = "output.weight" not in file.tensors
    experts = file.get(f"{name}.expert_count", int)
    if experts:
        config[_EXPERTS.get(architecture.model_type, "num_experts")] = experts
    for token, ours in _TOKENS.items():
        value = file.get(f"tokenizer.ggml.{token}_token_id", int)
        if value is not None:
            config[ours] = value
    if heads:
        _head_sizes(file, name, config)
    scaling = _rope_scaling(file, name, config)
    if scaling:
        config["rope_scaling"] = scaling
    own = OWN.get(architecture.model_type)
    if own is not None:
        own(file, config)
    return config


def _by_layer(file: GGUF, key: str, differ: bool) -> int | None:
    """A number, or one for each layer, which is the same in all that have one, unless they may ``differ``."""
    value = file.metadata.get(key)
    if not isinstance(value, np.ndarray):
        found: int | None = file.get(key, int)
        return found
    told = {int(n) for n in value.reshape(-1)} - {0}
    if len(told) > 1 and not differ:
        raise UnsupportedError(f"{file.path}: layers of different {key} cannot be read")
    return max(told, default=None)


def _intermediate_size(file: GGUF, name: str, differ: bool) -> int | list[int]:
    value = file.metadata.get(f"{name}.feed_forward_length", 0)
    if isinstance(value, np.ndarray):  # one for each layer
        if differ:
            return [int(n) for n in value.reshape(-1)]
        if value.size == 0 or (value != value[0]).any():
            raise UnsupportedError(f"{file.path}: layers of different {name}.feed_forward_length cannot be read")
        value = int(value[0])
    if not isinstance(value, int):
        raise FormatError(f"{file.path}: {name}.feed_forward_length is no number")
    return value


def _vocab_size(file: GGUF, name: str, architecture: Architecture) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is not None:
        return embedding.shape[0]
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    size = file.get(f"{name}.vocab_size", int, len(tokens) if isinstance(tokens, list) else 0)
    return int(size)


def _head_sizes(file: GGUF, name: str, config: dict[str, Any]) -> None:
    plain = config["hidden_size"] // config["num_attention_heads"]
    head = file.get(f"{name}.attention.key_length", int, plain)
    rotated = file.get(f"{name}.rope.dimension_count", int, head)
    if config["model_type"] in _LATENT:
        value = file.get(f"{name}.attention.value_length", int, head)
        head = file.get(f"{name}.attention.key_length_mla", int, head)
        value = file.get(f"{name}.attention.value_length_mla", int, value)
        config |= {"qk_rope_head_dim": rotated, "qk_nope_head_dim": head - rotated, "v_head_dim": value}
        config.setdefault("q_lora_rank", None)
        return
    config["head_dim"] = head
    if 0 < rotated < head:
        config["partial_rotary_factor"] = rotated / head


def _rope_scaling(file: GGUF, name: str, config: dict[str, Any]) -> dict[str, Any] | None:
    """``rope_scaling``: from the metadata, or from factors that lie among the tensors."""
    kind = file.get(f"{name}.rope.scaling.type", str, "none")
    factor = file.get(f"{name}.rope.scaling.factor", float)
    original = file.get(f"{name}.rope.scaling.original_context_length", int)
    if kind not in _SCALED:
        raise UnsupportedError(f"{file.path}: positions are scaled by {kind!r:.60}; known are {', '.join(_SCALED)}")
    factors = {part: _factors(file, f"rope_factors_{part}.weight") for part in ("short", "long")}
    if factors["long"] is not None and factors["short"] is not None:
        config["original_max_position_embeddings"] = original
        found: dict[str, Any] = {"rope_type": "longrope"}
        found |= {f"{part}_factor": f.tolist() for part, f in factors.items() if f is not None}
        attention = file.get(f"{name}.rope.scaling.attn_factor", float)
        return found if attention is None else found | {"attention_factor": float(f"{attention:.7g}")}
    frequencies = _factors(file, "rope_freqs.weight")
    if frequencies is not None and (frequencies != 1).any():
        return _llama3(frequencies, config)
    if kind == "linear" and factor:
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn" and factor:
        found = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
        multiplier = file.get(f"{name}.rope.scaling.yarn_log_multiplier", float)
        if multiplier:  # DeepSeek: a tenth of its mscale_all_dim
            found["mscale"] = found["mscale_all_dim"] = float(f"{multiplier * 10:.6g}")
        return found
    return None


def _factors(file: GGUF, name: str) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    tensor = file.tensors.get(name)
    if tensor is None:
        return None
    return tensor.float32().reshape(-1)


def _llama3(factors: np.ndarray[Any, np.dtype[np.float32]], config: dict[str, Any]) -> dict[str, Any]:
    """The rule of Llama 3.1 if the factors follow it; else the factors themselves, as a longrope of one kind."""
    theta, n = config.get("rope_theta", 10000.0), len(factors)
    wavelength = 2 * math.pi * theta ** (np.arange(n) / n)
    factor, low, high, original = float(factors.max()), 1.0, 4.0, 8192
    smooth = np.clip((original / wavelength - low) / (high - low), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    if np.allclose(factors, expected, rtol=1e-4):
        return {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }
    same = factors.tolist()
    return {"rope_type": "longrope", "short_factor": same, "long_factor": same, "attention_factor": 1.0}
