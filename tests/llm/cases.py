"""Small language models with random configurations, and weights that follow from a seed.

Keys of configurations are those of transformers (``tests/llm/record.py`` builds the same model there).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.llm.cases_dense import DENSE
from tests.llm.cases_gpt import GPT, SAVED_GPT
from tests.llm.cases_hybrid import HYBRID, SAVED_HYBRID
from tests.llm.cases_mixtures import MIXTURES, bailing_moe
from tests.llm.draws import VOCABULARY, Draw
from tests.llm.draws import base as _base
from tests.llm.draws import experts as _experts
from tests.llm.draws import rope as _rope

SCALED = ("default", "linear", "dynamic", "llama3", "yarn")


def _llama(rng: Draw, kinds: Sequence[str] = SCALED) -> dict[str, Any]:
    config = _base(rng)
    if rng.random() < 0.4:
        config["head_dim"] = int(rng.choice([8, 20]))
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    return config | {"rope_parameters": _rope(rng, config, size, kinds)}


def _biased(rng: Draw) -> dict[str, Any]:
    return _llama(rng) | {"attention_bias": bool(rng.random() < 0.5), "mlp_bias": bool(rng.random() < 0.5)}


def _internlm3(rng: Draw) -> dict[str, Any]:
    bias = bool(rng.random() < 0.5)
    return _llama(rng) | {"attention_bias": bias, "mlp_bias": bias}


def _windowed(rng: Draw) -> dict[str, Any]:
    return _llama(rng, ("default", "linear")) | {
        "sliding_window": None if rng.random() < 0.3 else int(rng.choice([5, 16]))
    }


def _ministral(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear")) | {"sliding_window": int(rng.choice([5, 16]))}
    kinds = [str(rng.choice(["full_attention", "sliding_attention"])) for _ in range(config["num_hidden_layers"])]
    size = config["hidden_size"] // config["num_attention_heads"]
    return {"head_dim": size} | config | {"layer_types": kinds}


def _ministral3(rng: Draw) -> dict[str, Any]:
    config = _windowed(rng) | {"max_position_embeddings": 64}
    trained = int(rng.choice([8, 16, 64]))
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 64 / trained, "original_max_position_embeddings": trained}
    rope |= {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": float(rng.choice([0.1, 0.5]))}
    return config | {"rope_parameters": rope}


def _qwen(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "yarn"))
    if rng.random() < 0.5:
        config |= {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}
    return config


def _qwen2(rng: Draw) -> dict[str, Any]:
    config = _qwen(rng)
    return config | {"head_dim": config["hidden_size"] // config["num_attention_heads"]}


def _gemma(rng: Draw) -> dict[str, Any]:
    return _base(rng) | {"head_dim": int(rng.choice([8, 16])), "tie_word_embeddings": True}


def _gemma2(rng: Draw) -> dict[str, Any]:
    cap = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0} if rng.random() < 0.7 else {}
    return _gemma(rng) | {"query_pre_attn_scalar": 24, "sliding_window": 9} | cap


def _gemma3(rng: Draw) -> dict[str, Any]:
    config = _gemma(rng) | {"query_pre_attn_scalar": 24, "sliding_window": 9, "num_hidden_layers": 3}
    kinds = [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(3)]
    scaled = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e4}
    local = {"rope_type": "default", "rope_theta": 1e3}
    return config | {"layer_types": kinds, "rope_parameters": {"full_attention": scaled, "sliding_attention": local}}


def _phi3(rng: Draw) -> dict[str, Any]:
    config = _base(rng) | {"sliding_window": None if rng.random() < 0.5 else 11}
    size = config["hidden_size"] // config["num_attention_heads"]
    share = 0.75 if size % 8 == 0 and rng.random() < 0.5 else 1.0
    rope = _rope(rng, config, int(size * share), ("default", "longrope"))
    if rope["rope_type"] == "longrope":
        config["original_max_position_embeddings"] = rope["original_max_position_embeddings"]
    return config | {"rope_parameters": rope | {"partial_rotary_factor": share}}


def _smollm3(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear")) | {"num_hidden_layers": 4}
    config.pop("head_dim", None)
    if rng.random() < 0.5:
        config["no_rope_layer_interval"] = 2
    if rng.random() < 0.5:
        config |= {"use_sliding_window": True, "sliding_window": 9}
    return config


def _olmo2(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear"))
    config.pop("head_dim", None)
    return config | {"attention_bias": bool(rng.random() < 0.3)}


def _olmo3(rng: Draw) -> dict[str, Any]:
    config = _olmo2(rng) | {"sliding_window": 9, "num_hidden_layers": 3}
    kinds = [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(3)]
    rope = {
        "full_attention": config["rope_parameters"],
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
    }
    return config | {"layer_types": kinds, "rope_parameters": rope}


def _exaone4(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "llama3")) | {"num_hidden_layers": 3}
    config |= {"sliding_window": None if rng.random() < 0.3 else 9}
    kinds = [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(3)]
    return config | {"layer_types": kinds if config["sliding_window"] else ["full_attention"] * 3}


def _seed_oss(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear"))
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    bias = {"attention_bias": bool(rng.random() < 0.5), "attention_out_bias": bool(rng.random() < 0.5)}
    return config | bias | {"head_dim": size, "mlp_bias": bool(rng.random() < 0.3)}


def _ernie(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear"))
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    return config | {"use_bias": bool(rng.random() < 0.4), "head_dim": size}


def _hunyuan(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default",)) | {"attention_bias": bool(rng.random() < 0.4)}
    config["head_dim"] = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    if rng.random() < 0.6:
        config["rope_parameters"] |= {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    return config


def _starcoder2(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear"))
    for name in ("head_dim", "rms_norm_eps"):
        config.pop(name, None)
    window = None if rng.random() < 0.5 else 9
    return config | {"norm_epsilon": 1e-5, "use_bias": bool(rng.random() < 0.7), "sliding_window": window}


def _glm(rng: Draw) -> dict[str, Any]:
    config = _base(rng) | {"head_dim": int(rng.choice([8, 16])), "attention_bias": bool(rng.random() < 0.5)}
    return config | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}


def _granite(rng: Draw) -> dict[str, Any]:
    scales = {
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.4,
        "logits_scaling": 2.0,
        "attention_multiplier": 0.2,
    }
    config = _llama(rng, ("default",)) | scales
    config.pop("head_dim", None)
    return config


def _internlm2(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "dynamic"))
    config.pop("head_dim", None)
    return config | {"bias": bool(rng.random() < 0.5), "tie_word_embeddings": False}


def _minicpm(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default",)) | {"scale_emb": 4.0, "scale_depth": 1.4, "dim_model_base": 12}
    config.pop("head_dim", None)
    return config


def _baichuan(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default",)) | {"tie_word_embeddings": False, "norm_head": bool(rng.random() < 0.5)}
    config.pop("head_dim", None)
    if rng.random() < 0.5:  # those of 13 billion parameters, with ALiBi
        config["model_max_length"] = config.pop("max_position_embeddings")
        del config["rope_parameters"]
    return config | {"num_key_value_heads": config["num_attention_heads"]}


def _chatglm(rng: Draw) -> dict[str, Any]:
    base = _base(rng)
    size = base["hidden_size"] // base["num_attention_heads"]
    if size % 8:
        return _chatglm(rng)
    return {
        "padded_vocab_size": VOCABULARY, "hidden_size": base["hidden_size"], "num_layers": base["num_hidden_layers"],
        "ffn_hidden_size": base["intermediate_size"], "num_attention_heads": base["num_attention_heads"],
        "multi_query_attention": True, "multi_query_group_num": base["num_key_value_heads"], "kv_channels": size,
        "layernorm_epsilon": base["rms_norm_eps"], "seq_length": 128, "rope_ratio": 5.0, "add_qkv_bias": True,
    }  # fmt: skip


def _qwen2_moe(rng: Draw) -> dict[str, Any]:
    config = _qwen2(rng) | _experts(rng) | {"norm_topk_prob": bool(rng.random() < 0.5)}
    config |= {"moe_intermediate_size": int(rng.choice([16, 23])), "shared_expert_intermediate_size": 24}
    if config.get("use_sliding_window"):
        config["max_window_layers"] = 2
    return config | {"num_hidden_layers": 3, "decoder_sparse_step": int(rng.choice([1, 2])), "mlp_only_layers": [2]}


def _qwen3_moe(rng: Draw) -> dict[str, Any]:
    config = _qwen(rng) | _experts(rng) | {"norm_topk_prob": bool(rng.random() < 0.5)}
    config.pop("max_window_layers", None)
    return config | {"moe_intermediate_size": int(rng.choice([16, 23])), "mlp_only_layers": []}


def _mixtral(rng: Draw) -> dict[str, Any]:
    return _windowed(rng) | _experts(rng, "num_local_experts")


def _olmoe(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "linear")) | _experts(rng)
    config.pop("head_dim", None)
    clip = {"clip_qkv": 0.8} if rng.random() < 0.5 else {}
    return config | clip | {"norm_topk_prob": bool(rng.random() < 0.5)}


def _granitemoe(rng: Draw) -> dict[str, Any]:
    return _granite(rng) | _experts(rng, "num_local_experts")


def _latent(rng: Draw, kinds: Sequence[str] = ("default", "yarn")) -> dict[str, Any]:
    config = _base(rng)
    config["num_key_value_heads"] = config["num_attention_heads"]
    turned, groups = int(rng.choice([4, 8])), int(rng.choice([2, 3]))
    rope = _rope(rng, config, turned, kinds)
    if rope["rope_type"] == "yarn" and rng.random() < 0.7:
        rope |= {"mscale": 0.707, "mscale_all_dim": float(rng.choice([0.707, 1.0]))}
    return config | {
        "q_lora_rank": None if rng.random() < 0.5 else 20, "kv_lora_rank": int(rng.choice([12, 16])),
        "qk_nope_head_dim": int(rng.choice([8, 12])), "qk_rope_head_dim": turned,
        "v_head_dim": int(rng.choice([8, 10])),
        "n_routed_experts": 4 * groups, "n_shared_experts": int(rng.integers(1, 3)), "moe_intermediate_size": 16,
        "num_experts_per_tok": int(rng.integers(1, 4)), "first_k_dense_replace": int(rng.integers(0, 2)),
        "n_group": groups, "topk_group": int(rng.integers(1, groups + 1)), "rope_parameters": rope,
        "routed_scaling_factor": float(rng.choice([1.0, 2.5])), "num_hidden_layers": 2,
    }  # fmt: skip


def _deepseek_v2(rng: Draw) -> dict[str, Any]:
    return _latent(rng) | {"topk_method": str(rng.choice(["greedy", "group_limited_greedy"]))}


def _deepseek_v3(rng: Draw) -> dict[str, Any]:
    return _latent(rng) | {"norm_topk_prob": bool(rng.random() < 0.7), "rope_interleave": bool(rng.random() < 0.7)}


def _glm4_moe(rng: Draw) -> dict[str, Any]:
    config, groups = _llama(rng, ("default", "yarn")), int(rng.choice([1, 2]))
    config["head_dim"] = int(rng.choice([8, 16]))
    config["rope_parameters"] |= {"partial_rotary_factor": 0.5}
    return config | {
        "attention_bias": bool(rng.random() < 0.5), "use_qk_norm": bool(rng.random() < 0.5), "n_group": groups,
        "topk_group": 1, "n_routed_experts": 4 * groups, "n_shared_experts": int(rng.integers(1, 3)),
        "num_experts_per_tok": int(rng.integers(1, 4)), "moe_intermediate_size": 16, "num_hidden_layers": 2,
        "first_k_dense_replace": int(rng.integers(0, 2)), "routed_scaling_factor": float(rng.choice([1.0, 2.5])),
        "norm_topk_prob": bool(rng.random() < 0.7),
    }  # fmt: skip


def _gpt_oss(rng: Draw) -> dict[str, Any]:
    config = _llama(rng, ("default", "yarn")) | _experts(rng, "num_local_experts")
    config["head_dim"] = int(rng.choice([8, 16]))
    if config["rope_parameters"]["rope_type"] == "yarn":
        config["rope_parameters"]["truncate"] = bool(rng.random() < 0.5)
    window = {"sliding_window": int(rng.choice([3, 9])), "attention_bias": bool(rng.random() < 0.7)}
    return config | window | {"swiglu_limit": float(rng.choice([0.5, 7.0])), "num_hidden_layers": 2}


FAMILIES: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "llama": _biased, "mistral": _windowed, "ministral": _ministral, "ministral3": _ministral3,
    "internlm3": _internlm3, "qwen2": _qwen2, "mimo": _qwen2, "qwen3": _qwen, "gemma": _gemma,
    "gemma2": _gemma2, "gemma3_text": _gemma3, "phi3": _phi3, "smollm3": _smollm3, "olmo2": _olmo2,
    "starcoder2": _starcoder2, "glm": _glm, "glm4": _glm, "granite": _granite, "internlm2": _internlm2,
    "minicpm": _minicpm, "baichuan": _baichuan, "chatglm": _chatglm, "qwen2_moe": _qwen2_moe, "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral, "olmoe": _olmoe, "granitemoe": _granitemoe, "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3, "glm4_moe": _glm4_moe, "gpt_oss": _gpt_oss, "olmo3": _olmo3,
    "exaone4": _exaone4, "seed_oss": _seed_oss, "ernie4_5": _ernie, "hunyuan_v1_dense": _hunyuan, **GPT, **HYBRID,
    "bailing_moe": bailing_moe, **DENSE, **MIXTURES,
}  # fmt: skip
SAVED = {*DENSE, *MIXTURES, *SAVED_GPT, *SAVED_HYBRID}
"""Families that are recorded through files as transformers writes them."""


def _encoder(rng: Draw) -> dict[str, Any]:
    config = _base(rng)
    for name in ("num_key_value_heads", "rms_norm_eps", "tie_word_embeddings", "bos_token_id", "eos_token_id"):
        del config[name]
    more = {"hidden_act": str(rng.choice(["gelu", "gelu_new"])), "layer_norm_eps": 1e-6, "type_vocab_size": 2}
    return config | more | {"max_position_embeddings": 64, "pad_token_id": int(rng.choice([0, 1]))}


def _distilbert(rng: Draw) -> dict[str, Any]:
    told = _encoder(rng)
    return {
        "vocab_size": VOCABULARY, "dim": told["hidden_size"], "n_layers": told["num_hidden_layers"],
        "n_heads": told["num_attention_heads"], "hidden_dim": told["intermediate_size"],
        "activation": told["hidden_act"], "max_position_embeddings": 64, "pad_token_id": 0,
    }  # fmt: skip


def _mpnet(rng: Draw) -> dict[str, Any]:
    told = _encoder(rng)
    del told["type_vocab_size"]
    return told | {"pad_token_id": 1}


def _modernbert(rng: Draw) -> dict[str, Any]:
    told = _encoder(rng)
    for name in ("type_vocab_size", "layer_norm_eps", "hidden_act"):
        del told[name]
    kinds = [str(rng.choice(["full_attention", "sliding_attention"])) for _ in range(told["num_hidden_layers"])]
    thetas = [float(rng.choice([1e3, 1e4, 1.6e5])) for _ in range(2)]
    return told | {
        "hidden_activation": str(rng.choice(["gelu", "silu"])), "norm_eps": 1e-5, "norm_bias": bool(rng.random() < 0.5),
        "attention_bias": bool(rng.random() < 0.5), "mlp_bias": bool(rng.random() < 0.5),
        "local_attention": int(rng.choice([4, 9, 16, 64])), "layer_types": kinds,
        "classifier_pooling": str(rng.choice(["cls", "mean"])), "classifier_bias": bool(rng.random() < 0.5),
        "rope_parameters": {
            name: {"rope_type": "default", "rope_theta": theta}
            for name, theta in zip(("full_attention", "sliding_attention"), thetas, strict=True)
        },
    }  # fmt: skip


def _gte(rng: Draw) -> dict[str, Any]:
    told = _encoder(rng) | {"rope_theta": float(rng.choice([1e4, 1.6e5]))}
    scaled = rng.random() < 0.5
    told["type_vocab_size"] = int(rng.choice([0, 1, 2]))
    return told | {"rope_scaling": {"type": "ntk", "factor": float(rng.choice([2.0, 8.0]))} if scaled else None}


def _nomic(rng: Draw) -> dict[str, Any]:
    told, factor = _encoder(rng), float(rng.choice([0.0, 2.0]))
    return {
        "vocab_size": VOCABULARY, "n_embd": told["hidden_size"], "n_head": told["num_attention_heads"],
        "n_layer": told["num_hidden_layers"], "n_inner": told["intermediate_size"], "n_positions": 512,
        "max_trained_positions": int(rng.choice([24, 64])), "rotary_scaling_factor": factor or None,
        "rotary_emb_base": float(rng.choice([1e3, 1e4])), "rotary_emb_fraction": 1.0, "layer_norm_epsilon": 1e-6,
        "activation_function": str(rng.choice(["swiglu", "geglu"])), "type_vocab_size": 2, "pad_token_id": 0,
    }  # fmt: skip


ENCODERS: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "bert": _encoder, "roberta": _encoder, "xlm-roberta": _encoder, "camembert": _encoder, "distilbert": _distilbert,
    "mpnet": _mpnet, "modernbert": _modernbert, "new": _gte, "nomic_bert": _nomic,
}  # fmt: skip


def config(family: str, seed: int) -> dict[str, Any]:
    """A random configuration."""
    draw = (ENCODERS | FAMILIES)[family]
    return draw(np.random.default_rng([zlib.crc32(family.encode()), seed]))


def weights(shapes: Mapping[str, Sequence[int]], seed: int) -> dict[str, np.ndarray]:
    """Random weights of such names and shapes: the same everywhere."""
    found = {}
    for name, shape in shapes.items():
        rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
        data = np.asarray(rng.standard_normal(tuple(shape)))
        if len(shape) > 1:
            data *= (1.0 if "embed" in name else 1.6) / np.sqrt(shape[-1])
        else:
            data = 0.2 * data + (1.0 if name.endswith("norm.weight") or "layernorm" in name or "scal" in name else 0.0)
        found[name] = np.asarray(data, np.float32)
    return found


def tokens(seed: int, count: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(seed).integers(3, VOCABULARY, count)]
