"""Random configurations of models with recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.llm.draws import Draw, base, experts, rope


def _kinds(rng: Draw, count: int, recurrent: str) -> list[str]:
    """One of each at least."""
    found = [str(rng.choice([recurrent, "full_attention"])) for _ in range(count - 2)]
    return [str(kind) for kind in rng.permutation([*found, recurrent, "full_attention"])]


def _lfm2(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3}
    config["norm_eps"] = config.pop("rms_norm_eps")
    size = config["hidden_size"] // config["num_attention_heads"]
    return config | {
        "layer_types": _kinds(rng, 3, "conv"), "conv_L_cache": int(rng.choice([2, 3, 4])),
        "conv_bias": bool(rng.random() < 0.4), "block_auto_adjust_ff_dim": False,
        "rope_parameters": rope(rng, config, size, ("default", "linear")),
    }  # fmt: skip


def _mamba(rng: Draw, config: dict[str, Any]) -> dict[str, Any]:
    """Layers of Mamba-2 twice as wide inside."""
    inner, groups = 2 * config["hidden_size"], int(rng.choice([1, 2]))
    heads = int(rng.choice([n for n in (2, 4, 8, 16) if inner % n == 0 and n % groups == 0]))
    return {
        "mamba_n_heads": heads, "mamba_d_head": inner // heads, "mamba_n_groups": groups, "mamba_expand": 2,
        "mamba_d_state": int(rng.choice([4, 16, 20])), "mamba_d_conv": int(rng.choice([2, 4])),
        "mamba_conv_bias": bool(rng.random() < 0.7), "mamba_proj_bias": bool(rng.random() < 0.3),
        "mamba_chunk_size": 8,
    }  # fmt: skip


def _granitemoehybrid(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3}
    size = config["hidden_size"] // config["num_attention_heads"]
    config |= experts(rng, "num_local_experts") | _mamba(rng, config)
    if rng.random() < 0.4:
        config["num_local_experts"] = 0
    config |= {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "logits_scaling": 2.0}
    config |= {"attention_multiplier": 0.2, "shared_intermediate_size": 24, "attention_bias": bool(rng.random() < 0.3)}
    if rng.random() < 0.5:
        config |= {"position_embedding_type": "rope", "rope_parameters": rope(rng, config, size, ("default",))}
    return config | {"layer_types": _kinds(rng, 3, "linear_attention")}


def _qwen3_next(rng: Draw) -> dict[str, Any]:
    config = base(rng) | experts(rng) | {"num_hidden_layers": 3, "head_dim": int(rng.choice([8, 16]))}
    turned = {"partial_rotary_factor": float(rng.choice([0.25, 0.5]))}
    config |= {"rope_parameters": rope(rng, config, config["head_dim"], ("default", "linear")) | turned}
    groups, wide = int(rng.choice([1, 2])), {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 24}
    return config | wide | {
        "layer_types": _kinds(rng, 3, "linear_attention"), "linear_conv_kernel_dim": int(rng.choice([2, 4])),
        "linear_key_head_dim": int(rng.choice([4, 16, 20])), "linear_value_head_dim": int(rng.choice([8, 12, 16])),
        "linear_num_key_heads": groups, "linear_num_value_heads": groups * int(rng.integers(1, 4)),
        "norm_topk_prob": bool(rng.random() < 0.7), "mlp_only_layers": [[], [1]][int(rng.integers(2))],
        "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _lfm2_moe(rng: Draw) -> dict[str, Any]:
    wide = {"moe_intermediate_size": 16, "num_dense_layers": int(rng.integers(0, 3))}
    wide |= {"norm_topk_prob": bool(rng.random() < 0.7), "use_expert_bias": bool(rng.random() < 0.7)}
    return _lfm2(rng) | {"conv_bias": False} | experts(rng) | wide


def _qwen3_5(rng: Draw) -> dict[str, Any]:
    config = _qwen3_next(rng)
    for name in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size",
                 "norm_topk_prob", "mlp_only_layers"):  # fmt: skip
        del config[name]
    return config


def _falcon_h1(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 2}
    size = config["hidden_size"] // config["num_attention_heads"]
    config |= _mamba(rng, config) | {"mamba_rms_norm": bool(rng.random() < 0.5)}
    config |= {"mamba_d_ssm": 2 * config["hidden_size"], "mamba_norm_before_gate": bool(rng.random() < 0.5)}
    several = {"ssm_multipliers": 5, "mlp_multipliers": 2}
    config |= {name: rng.uniform(0.4, 1.6, n).round(3).tolist() for name, n in several.items()}
    names = "lm_head", "embedding", "key", "attention_out", "attention_in", "ssm_in", "ssm_out"
    config |= {f"{name}_multiplier": float(rng.uniform(0.4, 1.6)) for name in names}
    return config | {"rope_parameters": rope(rng, config, size, ("default", "linear"))}


HYBRID: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "lfm2": _lfm2, "granitemoehybrid": _granitemoehybrid, "qwen3_next": _qwen3_next, "lfm2_moe": _lfm2_moe,
    "qwen3_5_text": _qwen3_5, "falcon_h1": _falcon_h1,
}  # fmt: skip


def _qwen3_5_moe(rng: Draw) -> dict[str, Any]:
    config = _qwen3_next(rng)
    for name in ("norm_topk_prob", "mlp_only_layers"):
        del config[name]
    return config


def _plain_mamba(rng: Draw) -> dict[str, Any]:
    config = base(rng)
    return {
        "vocab_size": config["vocab_size"], "hidden_size": config["hidden_size"], "num_hidden_layers": 2,
        "state_size": int(rng.choice([4, 6, 16])), "expand": int(rng.choice([1, 2])),
        "conv_kernel": int(rng.choice([2, 4])), "use_bias": bool(rng.random() < 0.3),
        "use_conv_bias": bool(rng.random() < 0.7), "tie_word_embeddings": bool(rng.random() < 0.5),
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def _mamba1(rng: Draw) -> dict[str, Any]:
    return _plain_mamba(rng) | {"time_step_rank": int(rng.choice([3, 8]))}


def _mamba2(rng: Draw) -> dict[str, Any]:
    config = _plain_mamba(rng)
    told = _mamba(rng, config)
    names = {"num_heads": "mamba_n_heads", "head_dim": "mamba_d_head", "n_groups": "mamba_n_groups"}
    return config | {new: told[old] for new, old in names.items()} | {"expand": 2, "chunk_size": 8}


def _bamba(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3}
    size = config["hidden_size"] // config["num_attention_heads"]
    turns = rope(rng, config, size, ("default", "linear"))
    biases = {name: bool(rng.random() < 0.3) for name in ("attention_bias", "mlp_bias")}
    return (
        config | _mamba(rng, config) | biases | {"rope_parameters": turns, "attn_layer_indices": [int(rng.integers(3))]}
    )


def _jamba(rng: Draw) -> dict[str, Any]:
    config = base(rng) | experts(rng) | {"num_hidden_layers": 4}
    if rng.random() < 0.3:
        config |= {"num_experts": 1, "num_experts_per_tok": 1}
    return config | {
        "attn_layer_period": 2, "attn_layer_offset": int(rng.integers(2)), "expert_layer_offset": int(rng.integers(2)),
        "expert_layer_period": 2, "mamba_d_state": int(rng.choice([4, 16])), "mamba_d_conv": int(rng.choice([2, 4])),
        "mamba_dt_rank": int(rng.choice([3, 8])), "mamba_conv_bias": bool(rng.random() < 0.7),
        "mamba_proj_bias": bool(rng.random() < 0.3), "use_mamba_kernels": False,
    }  # fmt: skip


def _nemotron_h(rng: Draw) -> dict[str, Any]:
    config, groups = base(rng), int(rng.choice([1, 2]))
    told, kinds = _mamba(rng, config), ["linear_attention", "full_attention", "mlp", "moe"]
    latent = {"moe_latent_size": 12} if rng.random() < 0.4 else {}
    return config | latent | {
        "layers_block_type": [str(kind) for kind in rng.permutation(kinds)], "head_dim": int(rng.choice([8, 16])),
        "mamba_num_heads": told["mamba_n_heads"], "mamba_head_dim": told["mamba_d_head"],
        "n_groups": told["mamba_n_groups"], "ssm_state_size": told["mamba_d_state"], "chunk_size": 8,
        "conv_kernel": told["mamba_d_conv"], "use_conv_bias": told["mamba_conv_bias"],
        "use_bias": bool(rng.random() < 0.3), "n_routed_experts": 4 * groups, "n_group": groups, "topk_group": 1,
        "num_experts_per_tok": int(rng.integers(1, 4)), "moe_intermediate_size": 16,
        "moe_shared_expert_intermediate_size": 24, "routed_scaling_factor": float(rng.choice([1.0, 2.5])),
    }  # fmt: skip


def _minimax(rng: Draw) -> dict[str, Any]:
    config = base(rng) | experts(rng, "num_local_experts") | {"num_hidden_layers": 3}
    size = int(rng.choice([8, 16]))
    names = [f"{kind}_{name}_factor" for kind in ("full_attn", "linear_attn", "mlp") for name in ("alpha", "beta")]
    config |= {name: float(rng.uniform(0.5, 2.0)) for name in names}
    config |= {
        "head_dim": size,
        "block_size": int(rng.choice([4, 16])),
        "layer_types": _kinds(rng, 3, "linear_attention"),
    }
    return config | {"rope_parameters": rope(rng, config, size, ("default", "linear"))}


def _grouped(rng: Draw) -> dict[str, Any]:
    """Experts of groups, by the names of these families."""
    groups = int(rng.choice([1, 2]))
    return {
        "num_experts": 4 * groups, "num_experts_per_tok": int(rng.integers(1, 4)), "n_group": groups, "topk_group": 1,
        "n_shared_experts": int(rng.integers(1, 3)), "moe_intermediate_size": 16,
        "routed_scaling_factor": float(rng.choice([1.0, 2.5])), "norm_topk_prob": bool(rng.random() < 0.7),
        "mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse", "sparse"])],
    }  # fmt: skip


def _delta(rng: Draw) -> dict[str, Any]:
    """Layers of the delta rule, in which numbers of keys fade by themselves, beside attention with latents."""
    config = base(rng) | _grouped(rng) | {"num_hidden_layers": 3, "layer_types": _kinds(rng, 3, "linear_attention")}
    config["tie_word_embeddings"] = False
    config["num_key_value_heads"] = config["num_attention_heads"]
    return config | {
        "q_lora_rank": None if rng.random() < 0.5 else 20, "kv_lora_rank": int(rng.choice([12, 16])),
        "qk_nope_head_dim": int(rng.choice([8, 12])), "v_head_dim": int(rng.choice([8, 10])),
        "qk_rope_head_dim": int(rng.choice([4, 8])),
    }  # fmt: skip


def _kimi_linear(rng: Draw) -> dict[str, Any]:
    return _delta(rng) | {
        "linear_head_dim": int(rng.choice([8, 12, 16])), "linear_num_heads": int(rng.choice([2, 3])),
        "linear_conv_kernel_dim": int(rng.choice([2, 4])),
    }  # fmt: skip


def _bailing_hybrid(rng: Draw) -> dict[str, Any]:
    return _delta(rng) | {
        "head_dim": int(rng.choice([8, 12, 16])), "short_conv_kernel_size": int(rng.choice([2, 4])),
        "kda_safe_gate": bool(rng.random() < 0.6), "kda_lower_bound": float(rng.choice([-5.0, -1.0])),
    }  # fmt: skip


def _olmo_hybrid(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3, "layer_types": _kinds(rng, 3, "linear_attention")}
    size, groups = config["hidden_size"] // config["num_attention_heads"], int(rng.choice([1, 2]))
    turned = rope(rng, config, size, ("default", "linear")) if rng.random() < 0.6 else {"rope_theta": None}
    return config | {
        "linear_conv_kernel_dim": int(rng.choice([2, 4])), "linear_allow_neg_eigval": bool(rng.random() < 0.6),
        "linear_key_head_dim": int(rng.choice([4, 16, 20])), "linear_value_head_dim": int(rng.choice([8, 12, 16])),
        "linear_num_key_heads": groups, "linear_num_value_heads": groups, "attention_bias": bool(rng.random() < 0.3),
        "rope_parameters": turned,
    }  # fmt: skip


def _recurrent_gemma(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 3, "tie_word_embeddings": bool(rng.random() < 0.7)}
    turned = rope(rng, config, config["hidden_size"] // config["num_attention_heads"], ("default",))
    return config | {
        "intermediate_size": 2 * config["intermediate_size"], "conv1d_width": int(rng.choice([2, 4])),
        "block_types": [str(kind) for kind in rng.permutation(["recurrent", "attention"])], "logits_soft_cap": 3.0,
        "attention_window_size": int(rng.choice([5, 9, 64])), "attention_bias": bool(rng.random() < 0.4),
        "rope_parameters": turned | {"partial_rotary_factor": 0.5},
    }  # fmt: skip


def _zamba2(rng: Draw) -> dict[str, Any]:
    kinds = [str(kind) for kind in rng.permutation(["linear_attention", "hybrid", "hybrid"])]
    config = base(rng) | {"num_hidden_layers": 3, "num_mem_blocks": int(rng.choice([1, 2])), "adapter_rank": 4}
    config["rms_norm_eps"] = 0.5  # scores of plain normal numbers are so far apart that rounding is seen in logits
    told = _mamba(rng, config)
    turned = rope(rng, config, 2 * config["hidden_size"] // config["num_attention_heads"], ("default",))
    return config | {
        "layers_block_type": kinds, "n_mamba_heads": told["mamba_n_heads"],
        "mamba_ngroups": told["mamba_n_groups"], "mamba_d_state": told["mamba_d_state"], "mamba_expand": 2,
        "mamba_d_conv": told["mamba_d_conv"], "add_bias_linear": bool(rng.random() < 0.3), "chunk_size": 8,
        "use_shared_attention_adapter": bool(rng.random() < 0.5), "use_mem_rope": bool(rng.random() < 0.6),
        "rope_parameters": turned, "num_key_value_heads": config["num_attention_heads"],
    }  # fmt: skip


_SAVED: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "qwen3_5_moe_text": _qwen3_5_moe, "mamba": _mamba1, "falcon_mamba": _mamba1, "mamba2": _mamba2, "bamba": _bamba,
    "jamba": _jamba, "nemotron_h": _nemotron_h, "minimax": _minimax, "kimi_linear": _kimi_linear,
    "bailing_hybrid": _bailing_hybrid, "olmo_hybrid": _olmo_hybrid, "recurrent_gemma": _recurrent_gemma,
    "zamba2": _zamba2,
}  # fmt: skip
HYBRID |= _SAVED
SAVED_HYBRID = set(_SAVED)
"""Those that are recorded through files as transformers writes them."""
