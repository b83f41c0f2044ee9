"""Random configurations of mixtures of experts, recorded through files as transformers writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.llm.draws import Draw, base, experts, rope


def _turned(rng: Draw, kinds: tuple[str, ...] = ("default", "linear"), size: int = 0) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 2}
    size = size or config["hidden_size"] // config["num_attention_heads"]
    return config | {"head_dim": size, "rope_parameters": rope(rng, config, size, kinds)}


def _grouped(rng: Draw) -> dict[str, Any]:
    """Experts in groups, of which scores stand for themselves."""
    groups = int(rng.choice([1, 2]))
    return {
        "n_group": groups, "topk_group": 1, "n_routed_experts": 4 * groups, "n_shared_experts": int(rng.integers(1, 3)),
        "num_experts_per_tok": int(rng.integers(1, 4)), "moe_intermediate_size": 16,
        "first_k_dense_replace": int(rng.integers(0, 2)), "routed_scaling_factor": float(rng.choice([1.0, 2.5])),
        "norm_topk_prob": bool(rng.random() < 0.7),
    }  # fmt: skip


def _dots1(rng: Draw) -> dict[str, Any]:
    kinds = [str(rng.choice(["full_attention", "sliding_attention"])) for _ in range(2)]
    config = _turned(rng) | _grouped(rng) | {"attention_bias": bool(rng.random() < 0.4)}
    return config | {"sliding_window": 9, "layer_types": kinds}


def _solar_open(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "yarn")) | _grouped(rng) | {"attention_bias": bool(rng.random() < 0.4)}
    del config["first_k_dense_replace"], config["intermediate_size"]
    return config


def _exaone_moe(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | _grouped(rng) | {"num_hidden_layers": 3, "sliding_window": 9}
    config["num_experts"], config["num_shared_experts"] = config.pop("n_routed_experts"), config.pop("n_shared_experts")
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention"])]
    return config | {"layer_types": [*kinds, "full_attention"]}


def _ernie4_5_moe(rng: Draw) -> dict[str, Any]:
    config, told = _turned(rng), experts(rng)
    return config | {
        "moe_num_experts": told["num_experts"], "moe_k": told["num_experts_per_tok"], "moe_intermediate_size": 16,
        "moe_num_shared_experts": int(rng.integers(0, 3)), "moe_layer_start_index": int(rng.integers(0, 2)),
        "moe_layer_interval": int(rng.choice([1, 2])), "use_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _hunyuan_moe(rng: Draw) -> dict[str, Any]:
    config, told = _turned(rng, ("default",)), experts(rng)
    if rng.random() < 0.6:
        config["rope_parameters"] |= {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    most = told["num_experts_per_tok"]
    return config | {
        "num_experts": told["num_experts"], "moe_topk": [most] * 2 if rng.random() < 0.5 else most,
        "attention_bias": bool(rng.random() < 0.4),
    }  # fmt: skip


def _minimax_m2(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, size=16) | experts(rng, "num_local_experts")
    config["rope_parameters"]["partial_rotary_factor"] = float(rng.choice([0.5, 1.0]))
    return config


def _phimoe(rng: Draw) -> dict[str, Any]:
    config = base(rng) | {"num_hidden_layers": 2, "num_local_experts": int(rng.choice([4, 6]))}
    size = config["hidden_size"] // config["num_attention_heads"]
    turns = rope(rng, config | {"max_position_embeddings": 512}, size, ("default", "longrope"))
    if turns["rope_type"] == "longrope":  # transformers 5.24 turns longer texts by the short factors, too
        turns |= {"short_mscale": 1.2, "long_mscale": 1.2, "original_max_position_embeddings": 256}
        config |= {"max_position_embeddings": 512, "original_max_position_embeddings": 256}
    return config | {
        "num_experts_per_tok": 2, "router_jitter_noise": float(rng.choice([0.01, 0.2])), "rope_parameters": turns,
        "sliding_window": None if rng.random() < 0.5 else 9, "attention_bias": bool(rng.random() < 0.5),
        "lm_head_bias": bool(rng.random() < 0.5), "tie_word_embeddings": False,
    }  # fmt: skip


def _granitemoeshared(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default",)) | experts(rng, "num_local_experts")
    del config["head_dim"]
    scales = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "logits_scaling": 2.0}
    return config | scales | {"attention_multiplier": 0.2, "shared_intermediate_size": 24}


def _latent(rng: Draw, kinds: tuple[str, ...] = ("default", "linear")) -> dict[str, Any]:
    config, turned = base(rng) | {"num_hidden_layers": 2}, int(rng.choice([4, 8]))
    config["num_key_value_heads"] = config["num_attention_heads"]
    return config | {
        "q_lora_rank": None if rng.random() < 0.5 else 20, "kv_lora_rank": int(rng.choice([12, 16])),
        "qk_nope_head_dim": int(rng.choice([8, 12])), "v_head_dim": int(rng.choice([8, 10])),
        "qk_rope_head_dim": turned,
        "rope_parameters": rope(rng, config, turned, kinds), "rope_interleave": bool(rng.random() < 0.7),
    }  # fmt: skip


def _glm4_moe_lite(rng: Draw) -> dict[str, Any]:
    config = _latent(rng) | _grouped(rng)
    del config["first_k_dense_replace"]
    return config | {"mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse"])]}


def _youtu(rng: Draw) -> dict[str, Any]:
    return _latent(rng) | {"pad_token_id": None}  # transformers 5.24 fills its row with zeros


def _llama4(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "llama3")) | experts(rng, "num_local_experts") | {"num_hidden_layers": 3}
    return config | {
        "intermediate_size_mlp": 40, "moe_layers": [[], [1], [0, 2]][int(rng.integers(3))],
        "no_rope_layers": [int(n) for n in rng.permutation([1, 1, 0])], "use_qk_norm": bool(rng.random() < 0.6),
        "attn_temperature_tuning": bool(rng.random() < 0.7), "floor_scale": int(rng.choice([4, 8192])),
        "attn_scale": 0.3, "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _mimo_v2_flash(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default",), 16) | _grouped(rng) | {"num_hidden_layers": 3, "num_attention_heads": 4}
    del config["n_shared_experts"], config["first_k_dense_replace"]
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    share = {"rope_type": "default", "partial_rotary_factor": 0.5}
    turns = {"full_attention": {**share, "rope_theta": 1e3}, "sliding_attention": {**share, "rope_theta": 1e2}}
    return config | {
        "num_key_value_heads": int(rng.choice([1, 2])), "v_head_dim": int(rng.choice([8, 12])), "layer_types": kinds,
        "sliding_window": int(rng.choice([4, 9])), "rope_parameters": turns, "attention_bias": bool(rng.random() < 0.4),
        "mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse", "sparse"])],
        "attention_value_scale": float(rng.choice([0.7, 1.0])),
    }  # fmt: skip


def _minicpm3(rng: Draw) -> dict[str, Any]:
    config = _latent(rng) | {"scale_emb": 4.0, "scale_depth": 1.4, "dim_model_base": 12}
    del config["rope_interleave"]
    return config


def _hy_v3(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | _grouped(rng)
    config["num_experts"], config["num_shared_experts"] = config.pop("n_routed_experts"), config.pop("n_shared_experts")
    for name in ("n_group", "topk_group", "first_k_dense_replace", "norm_topk_prob"):
        del config[name]
    config["router_scaling_factor"] = config.pop("routed_scaling_factor")
    return config | {"mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse"])]}


def _afmoe(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | experts(rng) | {"num_hidden_layers": 3, "num_dense_layers": int(rng.integers(0, 3))}
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    return config | {
        "moe_intermediate_size": 16, "num_shared_experts": int(rng.integers(1, 3)), "sliding_window": 9,
        "route_scale": float(rng.choice([1.0, 2.5])), "layer_types": kinds, "mup_enabled": bool(rng.random() < 0.5),
        "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _mellum(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | experts(rng) | {"num_hidden_layers": 3, "moe_intermediate_size": 16, "sliding_window": 9}
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    turns = {"full_attention": config["rope_parameters"]}
    turns["sliding_attention"] = {"rope_type": "default", "rope_theta": 1e3}
    return config | {
        "layer_types": kinds, "rope_parameters": turns, "norm_topk_prob": bool(rng.random() < 0.7),
        "mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse", "sparse"])],
        "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _flex_olmo(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | experts(rng) | {"norm_topk_prob": bool(rng.random() < 0.5)}
    del config["head_dim"]
    return config | {"attention_bias": bool(rng.random() < 0.3)}


def _cohere2_moe(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default",)) | experts(rng) | {"num_hidden_layers": 3, "sliding_window": 9}
    epsilon = config.pop("rms_norm_eps")
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    return config | {
        "layer_types": kinds, "mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse", "sparse"])],
        "rms_norm_eps": epsilon if rng.random() < 0.4 else None, "num_shared_experts": int(rng.integers(0, 3)),
        "shared_expert_combination_strategy": str(rng.choice(["sum", "average"])), "logit_scale": 0.25,
        "expert_selection_fn": str(rng.choice(["softmax", "sigmoid"])), "norm_topk_prob": bool(rng.random() < 0.6),
        "prefix_dense_sliding_window_pattern": int(rng.choice([1, 4])), "prefix_dense_intermediate_size": 40,
        "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def _granitemoe_swa(rng: Draw) -> dict[str, Any]:
    config = _granitemoeshared(rng) | {"num_hidden_layers": 3, "sliding_window": 9}
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    bases = [float(rng.choice([0.0, 100.0, 1e4])) for _ in range(3)]
    return config | {"layer_types": kinds, "layer_rope_theta": bases if rng.random() < 0.6 else None}


def _dbrx(rng: Draw) -> dict[str, Any]:
    config, told = base(rng), experts(rng)
    return {
        "vocab_size": config["vocab_size"], "d_model": config["hidden_size"], "n_layers": 2,
        "n_heads": config["num_attention_heads"], "max_seq_len": config["max_position_embeddings"],
        "attn_config": {
            "kv_n_heads": config["num_key_value_heads"], "clip_qkv": float(rng.choice([0.8, 8.0])),
            "rope_theta": float(rng.choice([1e2, 5e5])),
        },
        "ffn_config": {
            "ffn_hidden_size": int(rng.choice([16, 23])), "moe_num_experts": told["num_experts"],
            "moe_top_k": told["num_experts_per_tok"],
            "moe_normalize_expert_weights": 1.0 if rng.random() < 0.7 else None,
        },
    }  # fmt: skip


def _sarvam_mla(rng: Draw) -> dict[str, Any]:
    return _latent(rng, ("default", "yarn")) | _grouped(rng)


def _sarvam_moe(rng: Draw) -> dict[str, Any]:
    return _turned(rng) | _grouped(rng) | {"use_qk_norm": True}


def _indexed(rng: Draw) -> dict[str, Any]:
    """Of tokens that an index chooses there are as many as a text has here."""
    config = _latent(rng, ("default", "yarn")) | _grouped(rng)
    del config["first_k_dense_replace"]
    return config | {
        "q_lora_rank": 20, "rope_interleave": True, "index_topk": 256, "index_head_dim": 16, "index_n_heads": 2,
        "mlp_layer_types": [str(kind) for kind in rng.permutation(["dense", "sparse"])], "norm_topk_prob": True,
    }  # fmt: skip


def _longcat_flash(rng: Draw) -> dict[str, Any]:
    config = _latent(rng, ("default", "yarn"))
    for name in ("num_hidden_layers", "rope_interleave", "intermediate_size"):
        config.pop(name, None)
    config["rms_norm_eps"] = 0.5  # as for Zamba2: scores are multiplied, so that rounding is seen in logits
    return config | {
        "head_dim": config["qk_rope_head_dim"], "num_layers": 2, "q_lora_rank": 20, "ffn_hidden_size": 40,
        "expert_ffn_hidden_size": 16, "n_routed_experts": 4,
        "zero_expert_num": int(rng.integers(1, 4)), "moe_topk": int(rng.integers(2, 5)),
        "routed_scaling_factor": float(rng.choice([1.0, 2.5])), "attention_bias": bool(rng.random() < 0.3),
    }  # fmt: skip


def bailing_moe(rng: Draw) -> dict[str, Any]:
    """Recorded as a twin, and not through files: transformers does not hold it."""
    config = _turned(rng, ("default",), 8) | _grouped(rng) | {"use_qk_norm": bool(rng.random() < 0.7)}
    config["num_experts"], config["num_shared_experts"] = config.pop("n_routed_experts"), config.pop("n_shared_experts")
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    return config | {"attention_bias": False}


MIXTURES: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "dots1": _dots1, "solar_open": _solar_open, "exaone_moe": _exaone_moe, "ernie4_5_moe": _ernie4_5_moe,
    "hunyuan_v1_moe": _hunyuan_moe, "minimax_m2": _minimax_m2, "phimoe": _phimoe, "granitemoeshared": _granitemoeshared,
    "glm4_moe_lite": _glm4_moe_lite, "youtu": _youtu, "llama4_text": _llama4, "mimo_v2_flash": _mimo_v2_flash,
    "minicpm3": _minicpm3, "hy_v3": _hy_v3, "afmoe": _afmoe, "mellum": _mellum, "flex_olmo": _flex_olmo,
    "cohere2_moe": _cohere2_moe, "granitemoe_swa": _granitemoe_swa, "dbrx": _dbrx, "sarvam_mla": _sarvam_mla,
    "sarvam_moe": _sarvam_moe, "deepseek_v32": _indexed, "glm_moe_dsa": _indexed, "longcat_flash": _longcat_flash,
}  # fmt: skip
