"""Random configurations of dense families, recorded through files as transformers writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.llm.draws import VOCABULARY, Draw, base, experts, rope


def _turned(rng: Draw, kinds: tuple[str, ...] = ("default", "linear", "llama3")) -> dict[str, Any]:
    config = base(rng)
    size = config["hidden_size"] // config["num_attention_heads"]
    return config | {"rope_parameters": rope(rng, config, size, kinds)}


def _exaone(rng: Draw) -> dict[str, Any]:
    return _turned(rng)


def _arcee(rng: Draw) -> dict[str, Any]:
    return _turned(rng) | {name: bool(rng.random() < 0.4) for name in ("attention_bias", "mlp_bias")}


def _apertus(rng: Draw) -> dict[str, Any]:
    return _turned(rng) | {"attention_bias": bool(rng.random() < 0.4)}


def _nemotron(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default",)) | {name: bool(rng.random() < 0.4) for name in ("attention_bias", "mlp_bias")}
    config["norm_eps"] = config.pop("rms_norm_eps")
    config["head_dim"] = int(rng.choice([8, 16]))
    config["rope_parameters"]["partial_rotary_factor"] = float(rng.choice([0.5, 1.0]))
    return config


def _helium(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "linear"))
    size = config["hidden_size"] // config["num_attention_heads"]
    return config | {"head_dim": size, "attention_bias": bool(rng.random() < 0.4)}


def _olmo(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "linear"))
    del config["rms_norm_eps"]
    return config | {"clip_qkv": 0.8 if rng.random() < 0.5 else None}


def _kinds(rng: Draw, count: int, sharing: int) -> list[str]:
    """Both before the layers that share, and one that sees all at the end."""
    own = [str(kind) for kind in rng.permutation(["sliding_attention", "full_attention"])]
    more = [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(count - 3)]
    return [*own, *more, "full_attention"] if sharing else [*more, *own, "full_attention"]


def _gemma_positions(rng: Draw, full: dict[str, Any]) -> dict[str, Any]:
    local = {"rope_type": "default", "rope_theta": float(rng.choice([1e2, 1e4]))}
    return {"full_attention": full, "sliding_attention": local}


def _gemma4(rng: Draw) -> dict[str, Any]:
    layers, sharing = 5, int(rng.choice([0, 2, 3]))
    full = {"rope_type": "proportional", "partial_rotary_factor": float(rng.choice([0.25, 0.5])), "rope_theta": 1e3}
    config = base(rng) | {
        "num_hidden_layers": layers, "num_kv_shared_layers": sharing, "layer_types": _kinds(rng, layers, sharing),
        "head_dim": 8, "global_head_dim": int(rng.choice([16, 24])), "sliding_window": 9,
        "attention_k_eq_v": bool(rng.random() < 0.5), "num_global_key_value_heads": 1 if rng.random() < 0.5 else None,
        "hidden_size_per_layer_input": int(rng.choice([0, 8])), "vocab_size_per_layer_input": VOCABULARY,
        "use_double_wide_mlp": bool(rng.random() < 0.5), "rope_parameters": _gemma_positions(rng, full),
        "final_logit_softcapping": 3.0 if rng.random() < 0.5 else None, "tie_word_embeddings": True,
    }  # fmt: skip
    if rng.random() < 0.5:
        told = experts(rng)
        config |= {"enable_moe_block": True, "num_experts": told["num_experts"], "moe_intermediate_size": 12}
        config["top_k_experts"] = told["num_experts_per_tok"]
    if sharing and not config["hidden_size_per_layer_input"]:  # transformers 5.24 fails there
        config["hidden_size_per_layer_input"] = 8
    return config


def _gemma3n(rng: Draw) -> dict[str, Any]:
    layers, sharing = 5, int(rng.choice([0, 2, 3]))
    full = {"rope_type": "default", "rope_theta": 1e3}
    open_gates = [float(rng.choice([0.0, 0.5, 0.9])) for _ in range(layers)]
    return base(rng) | {
        "num_hidden_layers": layers, "num_kv_shared_layers": sharing, "layer_types": _kinds(rng, layers, sharing),
        "head_dim": int(rng.choice([8, 16])), "sliding_window": 9, "laurel_rank": 6, "tie_word_embeddings": True,
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY,
        "intermediate_size": [int(rng.choice([24, 40])) for _ in range(layers)],
        "activation_sparsity_pattern": open_gates, "altup_num_inputs": int(rng.choice([2, 3, 4])),
        "altup_active_idx": int(rng.choice([0, 1])), "altup_correct_scale": bool(rng.random() < 0.7),
        "final_logit_softcapping": 3.0, "rope_parameters": _gemma_positions(rng, full),
    }  # fmt: skip


def _cwm(rng: Draw) -> dict[str, Any]:
    config = _turned(rng) | {"num_hidden_layers": 3, "sliding_window": 9}
    kinds = [str(rng.choice(["sliding_attention", "full_attention"])) for _ in range(3)]
    return config | {"head_dim": config["hidden_size"] // config["num_attention_heads"], "layer_types": kinds}


def _vaultgemma(rng: Draw) -> dict[str, Any]:
    cap = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0} if rng.random() < 0.7 else {}
    config = base(rng) | {"head_dim": int(rng.choice([8, 16])), "tie_word_embeddings": True, "sliding_window": 9}
    return config | cap | {"query_pre_attn_scalar": 24}


def _granite_scales(rng: Draw) -> dict[str, Any]:
    names = ("embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier")
    return dict(zip(names, (3.0, 0.4, 2.0, 0.2), strict=True))


def _granite_swa(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default",)) | _granite_scales(rng) | {"num_hidden_layers": 3, "sliding_window": 9}
    kinds = [str(kind) for kind in rng.permutation(["full_attention", "sliding_attention", "sliding_attention"])]
    bases = [float(rng.choice([0.0, 100.0, 1e4])) for _ in range(3)]
    return config | {"layer_types": kinds, "layer_rope_theta": bases if rng.random() < 0.6 else None}


def _hyperclovax(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "linear")) | _granite_scales(rng)
    if rng.random() < 0.5:
        config["attention_multiplier"] = None
    return config | {"use_post_norm": bool(rng.random() < 0.6)}


def _iquestcoder(rng: Draw) -> dict[str, Any]:
    config = _arcee(rng)
    return config | {"head_dim": config["hidden_size"] // config["num_attention_heads"]}


def _bitnet(rng: Draw) -> dict[str, Any]:
    return _turned(rng, ("default", "linear")) | {"attention_bias": bool(rng.random() < 0.3)}


def _jais2(rng: Draw) -> dict[str, Any]:
    config = _arcee(rng)
    config["layer_norm_eps"] = config.pop("rms_norm_eps")
    return config


def _nanochat(rng: Draw) -> dict[str, Any]:
    config = _turned(rng, ("default", "linear")) | {"tie_word_embeddings": False}
    return config | {"final_logit_softcapping": 3.0, "attention_bias": bool(rng.random() < 0.3)}


DENSE: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "exaone": _exaone, "arcee": _arcee, "apertus": _apertus, "nemotron": _nemotron, "helium": _helium, "olmo": _olmo,
    "gemma4_text": _gemma4, "gemma3n_text": _gemma3n, "cwm": _cwm, "vaultgemma": _vaultgemma,
    "granite_swa": _granite_swa, "hyperclovax": _hyperclovax, "iquestcoder": _iquestcoder, "bitnet": _bitnet,
    "jais2": _jais2, "nanochat": _nanochat,
}  # fmt: skip
