"""Random configurations of families that are built like GPT, with the keys that transformers has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.llm.draws import VOCABULARY, Draw, base, rope

ENOUGH = 192
"""Positions that a table has to have for what the tests write."""


def _sizes(rng: Draw, names: dict[str, str]) -> dict[str, Any]:
    """Sizes under other names; one key head for each query head."""
    told = base(rng)
    return {new: told[old] for old, new in names.items()} | {"vocab_size": VOCABULARY, "pad_token_id": 0}


_SHORT = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
_MARKS = {"bos_token_id": 1, "eos_token_id": 2}


def _gpt2(rng: Draw) -> dict[str, Any]:
    told = _sizes(rng, _SHORT) | _MARKS | {"n_inner": int(rng.choice([24, 63])), "n_positions": ENOUGH}
    act = {"activation_function": str(rng.choice(["gelu_new", "relu", "gelu"]))}
    return told | act | {"scale_attn_weights": bool(rng.random() < 0.8)}


def _gpt_bigcode(rng: Draw) -> dict[str, Any]:
    return _gpt2(rng) | {"multi_query": bool(rng.random() < 0.5), "attention_softmax_in_fp32": True}


def _gpt_neox(rng: Draw) -> dict[str, Any]:
    told = base(rng)
    for name in ("num_key_value_heads", "rms_norm_eps"):
        del told[name]
    told["hidden_size"] = told["num_attention_heads"] * 16
    turns = rope(rng, told, 16, ("default", "linear")) | {"partial_rotary_factor": float(rng.choice([0.25, 0.5, 1.0]))}
    beside = {"use_parallel_residual": bool(rng.random() < 0.6), "hidden_act": str(rng.choice(["gelu", "relu"]))}
    return told | beside | {"rope_parameters": turns, "layer_norm_eps": 1e-5, "tie_word_embeddings": False}


def _opt(rng: Draw) -> dict[str, Any]:
    told = base(rng)
    for name in ("num_key_value_heads", "rms_norm_eps", "tie_word_embeddings"):
        del told[name]
    narrow = told["hidden_size"] // 2 if rng.random() < 0.4 else told["hidden_size"]
    return told | {
        "ffn_dim": told.pop("intermediate_size"), "max_position_embeddings": ENOUGH, "word_embed_proj_dim": narrow,
        "do_layer_norm_before": bool(rng.random() < 0.6), "enable_bias": bool(rng.random() < 0.8),
        "activation_function": str(rng.choice(["relu", "gelu"])), "tie_word_embeddings": True,
    }  # fmt: skip


def _bloom(rng: Draw) -> dict[str, Any]:
    return _sizes(rng, {**_SHORT, "hidden_size": "hidden_size"}) | _MARKS


def _mpt(rng: Draw) -> dict[str, Any]:
    names = {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    told = _sizes(rng, names) | {"max_seq_len": ENOUGH}
    attention = {"clip_qkv": 0.8} if rng.random() < 0.5 else {}  # transformers takes no notice of alibi_bias_max
    return told | {"attn_config": attention}


def _falcon(rng: Draw) -> dict[str, Any]:
    told = base(rng)
    newer = bool(rng.random() < 0.5)
    groups = {"num_kv_heads": told.pop("num_key_value_heads")} if newer else {}
    del told["rms_norm_eps"]
    more = {"parallel_attn": newer or bool(rng.random() < 0.6), "multi_query": bool(rng.random() < 0.5)}
    if newer and rng.random() < 0.5:
        more["num_ln_in_parallel_attn"] = int(rng.choice([1, 2]))
    return told | groups | more | {
        "new_decoder_architecture": newer, "ffn_hidden_size": told.pop("intermediate_size"),
        "bias": bool(rng.random() < 0.5), "layer_norm_epsilon": 1e-5,
        "rope_parameters": rope(rng, told, told["hidden_size"] // told["num_attention_heads"], ("default", "linear")),
    }  # fmt: skip


def _phi(rng: Draw) -> dict[str, Any]:
    told = base(rng) | {"tie_word_embeddings": False, "layer_norm_eps": 1e-5}
    told["hidden_size"] = told["num_attention_heads"] * 16
    del told["rms_norm_eps"]
    turns = rope(rng, told, 16, ("default", "linear")) | {"partial_rotary_factor": float(rng.choice([0.25, 0.5]))}
    return told | {"rope_parameters": turns, "hidden_act": str(rng.choice(["gelu_new", "gelu"]))}


def _cohere(rng: Draw) -> dict[str, Any]:
    told = base(rng) | {"layer_norm_eps": 1e-5, "logit_scale": float(rng.choice([0.0625, 0.5]))}
    told["hidden_size"] = told["num_attention_heads"] * 16
    del told["rms_norm_eps"]
    told["attention_bias"] = bool(rng.random() < 0.5)
    return told | {"rope_parameters": rope(rng, told, 16, ("default", "linear"))}


def _cohere2(rng: Draw) -> dict[str, Any]:
    told = _cohere(rng) | {"sliding_window": int(rng.choice([5, 16])), "num_hidden_layers": 3}
    return told | {"layer_types": [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(3)]}


GPT: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "gpt2": _gpt2, "gpt_bigcode": _gpt_bigcode, "gpt_neox": _gpt_neox, "opt": _opt, "bloom": _bloom, "mpt": _mpt,
    "falcon": _falcon, "phi": _phi, "cohere": _cohere, "cohere2": _cohere2,
}  # fmt: skip


def _stablelm(rng: Draw) -> dict[str, Any]:
    config = base(rng)
    config["layer_norm_eps"] = config.pop("rms_norm_eps")
    size = config["hidden_size"] // config["num_attention_heads"]
    turns = rope(rng, config, size, ("default", "linear")) | {"partial_rotary_factor": 0.5 if size % 4 == 0 else 1.0}
    flags = ("use_qkv_bias", "qk_layernorm", "use_parallel_residual")
    return config | {"rope_parameters": turns} | {name: bool(rng.random() < 0.5) for name in flags}


def _gptj(rng: Draw) -> dict[str, Any]:
    told = _sizes(rng, _SHORT) | _MARKS | {"n_inner": int(rng.choice([24, 63])), "n_positions": ENOUGH}
    told["n_embd"] = told["n_head"] * 8 * int(rng.choice([1, 2]))
    return told | {"rotary_dim": int(rng.choice([4, 8])), "tie_word_embeddings": False}


def _codegen(rng: Draw) -> dict[str, Any]:
    return _gptj(rng) | {"n_head": 4, "n_embd": 4 * int(rng.choice([8, 16]))}


def _gpt_neo(rng: Draw) -> dict[str, Any]:
    names = {"hidden_size": "hidden_size", "num_attention_heads": "num_heads"}
    told = _sizes(rng, names) | _MARKS | {"num_layers": 2, "max_position_embeddings": ENOUGH}
    kinds = [[["global", "local"], 1]] if rng.random() < 0.7 else [[["local"], 2]]
    return told | {"attention_types": kinds, "window_size": 9, "intermediate_size": 40}


def _persimmon(rng: Draw) -> dict[str, Any]:
    config = base(rng)
    del config["num_key_value_heads"]
    config["layer_norm_eps"] = config.pop("rms_norm_eps")
    config["hidden_size"] = config["num_attention_heads"] * 16
    turns = rope(rng, config, 16, ("default", "linear")) | {"partial_rotary_factor": 0.5}
    return config | {"rope_parameters": turns, "qk_layernorm": bool(rng.random() < 0.7)}


_SAVED: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "stablelm": _stablelm, "gptj": _gptj, "codegen": _codegen, "gpt_neo": _gpt_neo, "persimmon": _persimmon,
}  # fmt: skip
GPT |= _SAVED
SAVED_GPT = set(_SAVED)
"""Those that are recorded through files as transformers writes them."""
