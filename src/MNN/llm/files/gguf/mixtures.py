"""Llama 4, MiniMax-Text-01, MiMo-V2-Flash, Ling 2.0, DeepSeek-V3.2, GLM-5, MiniCPM3, Hunyuan 3 and DBRX: names
of their tensors, and what their metadata says.

Facts: ``conversion/`` of llama.cpp (llama, minimax, mimo, bailingmoe, deepseek, glm, minicpm, hunyuan, dbrx) and
its models' parameters, and transformers' model code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf.naming import EXPERTS, MIXTRAL, SHARED, SILU, Architecture, having, mixed, near
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.tensors import WeightTensor

_FORWARD = {
    f"ffn_{name}{part}": f"feed_forward.{room}{name}_proj"
    for part, room in (("", ""), ("_exps", "experts.{}."), ("_shexp", "shared_expert."))
    for name in ("gate", "up", "down")
} | {"ffn_gate_inp": "feed_forward.router"}
LATENT = {
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
}
DEEPSEEK = {
    **SHARED,
    **LATENT,
    "attn_k_b": "self_attn.k_b",
    "attn_v_b": "self_attn.v_b",
}
_INDEXED = {
    **DEEPSEEK,
    "indexer.attn_q_b": "self_attn.indexer.wq_b",
    "indexer.attn_k": "self_attn.indexer.wk",
    "indexer.k_norm": "self_attn.indexer.k_norm",
    "indexer.proj": "self_attn.indexer.weights_proj",
}
_LIGHTNING = {
    **MIXTRAL,
    "attn_qkv": "self_attn.qkv_proj",
    "attn_gate": "self_attn.output_gate",
    "attn_norm_2": "self_attn.norm",
}
_BAILING = {
    **SHARED,
    "token_embd": "model.word_embeddings",
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "attn_q_norm": "attention.query_layernorm",
    "attn_k_norm": "attention.key_layernorm",
    "exp_probs_b": "mlp.gate.expert",
}
_HUNYUAN = {
    **SHARED,
    "ffn_gate_inp": "mlp.router.gate",
    "exp_probs_b": "mlp.expert",
    **{f"ffn_{part}_shexp": f"mlp.shared_mlp.{part}_proj" for part in ("gate", "up", "down")},
}
_DBRX = {
    "token_embd": "transformer.wte",
    "output_norm": "transformer.norm_f",
    "output": "lm_head",
    "attn_norm": "norm_attn_norm.norm_1",
    "attn_qkv": "norm_attn_norm.attn.Wqkv",
    "attn_output": "norm_attn_norm.attn.out_proj",
    "attn_output_norm": "norm_attn_norm.norm_2",
    "ffn_gate_inp": "ffn.router.layer",
    **{f"ffn_{part}_exps": f"ffn.experts.{{}}.{part}_proj" for part in ("gate", "up", "down")},
}

MIXTURES = {
    "llama4": Architecture("llama4_text", "Llama4ForCausalLM", _FORWARD, config=SILU),
    "minimax-01": Architecture("minimax", "MiniMaxForCausalLM", _LIGHTNING, config=SILU),
    "mimo2": Architecture(
        "mimo_v2_flash",
        "MiMoV2FlashForCausalLM",
        {**EXPERTS, "exp_probs_b": SHARED["exp_probs_b"], "attn_sinks": "self_attn.attention_sink_bias"},
        config=SILU | {"norm_topk_prob": True},
    ),
    "bailingmoe2": Architecture("bailing_moe", "BailingMoeV2ForCausalLM", _BAILING, config=SILU),
    "deepseek32": Architecture(
        "deepseek_v32",
        "DeepseekV32ForCausalLM",
        {own: module for own, module in _INDEXED.items() if own != "attn_kv_b"},
        config=SILU,
    ),
    "glm-dsa": Architecture("glm_moe_dsa", "GlmMoeDsaForCausalLM", _INDEXED, config=SILU),
    "minicpm3": Architecture("minicpm3", "MiniCPM3ForCausalLM", LATENT, config=SILU),
    "hy_v3": Architecture("hy_v3", "HYV3ForCausalLM", _HUNYUAN, config=SILU),
    "dbrx": Architecture("dbrx", "DbrxForCausalLM", _DBRX, config=SILU, shared=False, layers="transformer.blocks."),
}
"""By ``general.architecture``."""


def _llama4(file: GGUF, config: dict[str, Any]) -> None:
    """Which layers turn heads and normalise them is told by what models there are: all of those without chunks do the
    former, and of the others three of four; the one of 128 experts does not do the latter."""
    config["moe_layers"] = [i for i, mixed in enumerate(having(file, config, "ffn_gate_inp.weight")) if mixed]
    config["use_qk_norm"] = config.get("num_local_experts") != 128
    if config.pop("sliding_window", None) == 0:
        config["no_rope_layers"] = [1] * config["num_hidden_layers"]
        config["attention_chunk_size"] = config.get("max_position_embeddings", 131072)


def _minimax(file: GGUF, config: dict[str, Any]) -> None:
    """Residuals have one factor, and what is added to them none."""
    full = having(file, config, "attn_q.weight")
    config["layer_types"] = ["full_attention" if one else "linear_attention" for one in full]
    alpha = file.get("minimax-01.residual_scale", float) or 1.0
    config |= {f"{kind}_alpha_factor": float(f"{alpha:.7g}") for kind in ("full_attn", "linear_attn", "mlp")}
    config.setdefault("partial_rotary_factor", 1.0)


def _mimo2(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others. There are twice as many heads of keys in layers with a
    window."""
    layers = config["num_hidden_layers"] = config["num_hidden_layers"] - file.get("mimo2.nextn_predict_layers", int, 0)
    local = near(file, "mimo2.attention.sliding_window_pattern", layers)
    groups = file.metadata.get("mimo2.attention.head_count_kv")
    counts = groups.reshape(-1).tolist() if isinstance(groups, np.ndarray) else [config["num_key_value_heads"]] * layers
    if min(len(local), len(counts)) < layers:
        raise FormatError(f"{file.path}: the metadata tells of windows of {len(local)} layers of {layers}")
    found = {count * (1 if near else 2) for count, near in zip(counts, local[:layers], strict=False)}
    if len(found) != 1:
        raise UnsupportedError(f"{file.path}: layers with a window have other than twice the heads of keys of others")
    config |= {
        "num_key_value_heads": found.pop() // 2, "v_head_dim": file.get("mimo2.attention.value_length", int),
        "layer_types": ["sliding_attention" if near else "full_attention" for near in local[:layers]],
        "mlp_layer_types": mixed(file, config),
        "attention_value_scale": file.get("mimo2.attention.value_scale", float, 1.0),
    }  # fmt: skip
    share = config.pop("partial_rotary_factor", 1.0)
    thetas = config.pop("rope_theta", 5e6), config.pop("rope_local_base_freq", 1e4)
    config["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": share}
        for kind, theta in zip(("full_attention", "sliding_attention"), thetas, strict=True)
    }


def _bailing(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others."""
    config["num_hidden_layers"] -= file.get("bailingmoe2.nextn_predict_layers", int, 0)
    config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in file.tensors
    if file.get("bailingmoe2.expert_gating_func", int, 2) != 2:
        config["score_function"] = "softmax"
    config.setdefault("partial_rotary_factor", 1.0)
    config.setdefault("first_k_dense_replace", 0)


def _indexed(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others. There is an index where it is not told, too."""
    name = file.get("general.architecture", str)
    config["num_hidden_layers"] -= file.get(f"{name}.nextn_predict_layers", int, 0)
    if file.get(f"{name}.expert_gating_func", int, 2) != 2:
        raise UnsupportedError(f"{file.path}: experts of {name} that share one score are not known")
    config |= {
        "index_topk": file.get(f"{name}.attention.indexer.top_k", int, 2048),
        "norm_topk_prob": file.get(f"{name}.expert_weights_norm", bool, False),
        "mlp_layer_types": mixed(file, config),
    }


def _minicpm3(file: GGUF, config: dict[str, Any]) -> None:
    """Factors are those of the one model that there is; how wide values are is seen in what makes them."""
    both = file.tensors.get("blk.0.attn_kv_b.weight")
    if both is not None and both.shape[0] % config["num_attention_heads"] == 0:
        config["v_head_dim"] = both.shape[0] // config["num_attention_heads"] - config["qk_nope_head_dim"]
    config.pop("num_key_value_heads")


def _hy_v3(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others."""
    config["num_hidden_layers"] -= file.get("hy_v3.nextn_predict_layers", int, 0)
    config["router_scaling_factor"] = config.pop("routed_scaling_factor", 1.0)
    config["mlp_layer_types"] = mixed(file, config)


def _dbrx(file: GGUF, config: dict[str, Any]) -> None:
    config["clip_qkv"] = file.get("dbrx.attention.clamp_kqv", float) or None


def outputs_apart(tensors: dict[str, WeightTensor], layers: int) -> dict[str, WeightTensor]:
    """MiniMax's layers of lightning attention call their last matrix otherwise than those of attention, which files do
    not."""
    for i in range(layers):
        at = f"model.layers.{i}.self_attn"
        if f"{at}.qkv_proj.weight" in tensors and f"{at}.o_proj.weight" in tensors:
            tensors[f"{at}.out_proj.weight"] = tensors.pop(f"{at}.o_proj.weight")
    return tensors


OWN_MIXTURES = {
    "llama4_text": _llama4, "minimax": _minimax, "mimo_v2_flash": _mimo2, "bailing_moe": _bailing,
    "deepseek_v32": _indexed, "glm_moe_dsa": _indexed, "minicpm3": _minicpm3, "hy_v3": _hy_v3, "dbrx": _dbrx,
}  # fmt: skip
"""What metadata says beyond what all have, by ``model_type``."""

__all__ = ["DEEPSEEK", "LATENT", "MIXTURES", "OWN_MIXTURES", "outputs_apart"]
