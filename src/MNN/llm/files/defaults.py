"""What configurations leave out: Hugging Face's ``config.json`` need not say what the code of a family takes by default
(that of Gemma 3 with 4 billion parameters says neither its heads nor their size)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TIED: dict[str, Any] = {"tie_word_embeddings": True}
_GEMMA = _TIED | {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "rms_norm_eps": 1e-6}
_GEMMA2 = _GEMMA | {
    "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 26, "hidden_size": 2304,
    "intermediate_size": 9216, "sliding_window": 4096, "query_pre_attn_scalar": 256,
}  # fmt: skip
_GLM = {
    "rms_norm_eps": 1.5625e-07, "head_dim": 128, "num_key_value_heads": 2, "max_position_embeddings": 131072,
    "partial_rotary_factor": 0.5,
}  # fmt: skip
_QWEN2 = {"max_position_embeddings": 32768, "num_key_value_heads": 32, "max_window_layers": 28}
_FEW = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_LATENT = _FEW | {"q_lora_rank": 1536}
_KIMI = _FEW | {"num_experts_per_token": 8}
DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072},
    "mixtral": {
        "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "max_position_embeddings": 131072,
        "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "qwen2": _QWEN2,
    "qwen3": _QWEN2 | {"head_dim": 128},
    "qwen2_moe": _QWEN2 | {
        "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
    },
    "qwen3_moe": {
        "max_position_embeddings": 32768, "num_key_value_heads": 4, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "gemma": _GEMMA | {"num_key_value_heads": 16, "max_position_embeddings": 8192},
    "gemma2": _GEMMA2 | {
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "max_position_embeddings": 8192
    },
    "gemma3_text": _GEMMA2 | {"max_position_embeddings": 131072, "rope_theta": 1e6, "vocab_size": 262208},
    "phi3": {"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096},
    "smollm3": _TIED | {"num_key_value_heads": 4, "rope_theta": 2e6, "max_position_embeddings": 32768},
    "olmo2": {"rms_norm_eps": 1e-5},
    "olmoe": {"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8},
    "starcoder2": _TIED | {
        "hidden_act": "gelu_pytorch_tanh", "num_key_value_heads": 2, "max_position_embeddings": 4096
    },
    "glm": _GLM,
    "glm4": _GLM,
    "granitemoe": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "deepseek_v2": _LATENT | {"n_routed_experts": 64, "n_shared_experts": 2, "moe_intermediate_size": 1407},
    "deepseek_v3": _LATENT | {
        "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
        "max_position_embeddings": 4096,
    },
    "deepseek_v32": _LATENT | {
        "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 8, "topk_group": 4,
        "routed_scaling_factor": 2.5, "max_position_embeddings": 163840,
    },
    "glm_moe_dsa": _FEW | {
        "q_lora_rank": 2048, "qk_nope_head_dim": 192, "v_head_dim": 256, "n_routed_experts": 256, "rms_norm_eps": 1e-5,
        "num_experts_per_tok": 8, "n_shared_experts": 1, "routed_scaling_factor": 2.5,
        "max_position_embeddings": 202752,
    },
    "longcat_flash": _LATENT | {
        "max_position_embeddings": 131072, "moe_topk": 12, "n_routed_experts": 512, "zero_expert_num": 256
    },
    "glm4_moe": {
        "rms_norm_eps": 1e-5, "num_key_value_heads": 8, "max_position_embeddings": 131072, "n_routed_experts": 128,
        "num_experts_per_tok": 8, "partial_rotary_factor": 0.5, "moe_intermediate_size": 1408,
    },
    "gpt_oss": {
        "rms_norm_eps": 1e-5, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
        "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "rope_theta": 150000.0,
    },
    "cohere": _TIED | {"max_position_embeddings": 8192, "rope_theta": 500000.0},
    "cohere2": _TIED | {"max_position_embeddings": 8192, "sliding_window": 4096},
    "bloom": _TIED,
    "granite_swa": _TIED | {
        "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "sliding_window": 128
    },
    "granitemoe_swa": {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 128},
    "iquestcoder": {
        "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072
    },
    "bitnet": {"num_key_value_heads": 5, "rms_norm_eps": 1e-5},
    "jais2": {"max_position_embeddings": 8192},
    "nanochat": {"final_logit_softcapping": 15.0},
    "kimi_linear": _KIMI | {
        "rms_norm_eps": 1e-5, "routed_scaling_factor": 2.446, "num_experts": 256, "model_max_length": 1048576
    },
    "bailing_hybrid": _KIMI | {
        "routed_scaling_factor": 2.5, "num_experts": 512, "num_expert_group": 8, "topk_group": 4,
        "model_max_length": 262144,
    },
    "olmo_hybrid": {"max_position_embeddings": 65536},
    "zamba2": {"max_position_embeddings": 4096},
    "hy_v3": {
        "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072,
        "num_experts": 192, "num_experts_per_tok": 8, "router_scaling_factor": 2.826,
    },
    "afmoe": {
        "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 16384, "num_experts": 64,
        "num_experts_per_tok": 6, "sliding_window": 1024,
    },
    "mellum": {
        "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 131072, "sliding_window": 1024,
        "num_experts": 64, "num_experts_per_tok": 8,
    },
    "flex_olmo": {"max_position_embeddings": 4096, "num_experts": 7, "num_experts_per_tok": 5},
    "cohere2_moe": _TIED | {
        "head_dim": 128, "max_position_embeddings": 8192, "sliding_window": 4096, "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    "sarvam_mla": _FEW | {
        "n_routed_experts": 128, "num_experts_per_tok": 8, "routed_scaling_factor": 2.5,
        "max_position_embeddings": 4096,
    },
    "sarvam_moe": {
        "num_key_value_heads": 4, "max_position_embeddings": 131072, "n_routed_experts": 128, "num_experts_per_tok": 6,
        "routed_scaling_factor": 2.5,
    },
}  # fmt: skip
"""By ``model_type``: where they differ from what is assumed of all families (those of transformers 5.24)."""
_SCALED = ("rope_parameters", "rope_scaling")
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
_ALIKE = {"hidden_activation": ("hidden_act",)} | dict.fromkeys(_COUNTS, _COUNTS)
"""Other names of the same: who says one of them leaves nothing out."""


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as Hugging Face's file has it, with what its family takes where nothing is said. What is said to
    be null stays so."""
    found = dict(config)
    inner = found.get("text_config")
    if isinstance(inner, Mapping):
        found["text_config"] = completed(inner)
    given = DEFAULTS.get(str(found.get("model_type")), {})
    for key, value in given.items():
        if key == "rope_theta" and any(_says_base(found.get(name)) for name in _SCALED):
            continue
        if any(name in config for name in _ALIKE.get(key, ())):
            continue
        found.setdefault(key, value)
    return found


def _says_base(rotary: object) -> bool:
    return isinstance(rotary, Mapping) and "rope_theta" in rotary


__all__ = ["DEFAULTS", "completed"]
