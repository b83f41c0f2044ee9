"""Kimi Linear and Ling 3.0, whose layers of the delta rule let every number of a key fade by itself: names of their
tensors, and what their metadata says.

Facts: ``conversion/`` of llama.cpp (kimi_linear, bailingmoe3) and its models' parameters, and transformers' model code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf.mixtures import LATENT
from MNN.llm.files.gguf.naming import SHARED, SILU, Architecture, having, mixed
from MNN.llm.files.gguf.reader import GGUF

_DELTA = {
    **{f"ssm_conv1d_{part}": f"self_attn.{part}_conv1d" for part in "qkv"},
    "ssm_beta": "self_attn.b_proj",
    "ssm_a": "self_attn.A_log",
    "ssm_dt": "self_attn.dt",
    "ssm_norm": "self_attn.o_norm",
}
_KIMI = {
    **LATENT,
    **_DELTA,
    **{f"ssm_{one}_{side}": f"self_attn.{one}_{side}_proj" for one in "fg" for side in "ab"},
    **{own: module.replace("mlp.", "block_sparse_moe.") for own, module in SHARED.items()},
    **{f"attn_{part}_b": f"self_attn.{part}_b" for part in "kv"},
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
_PLAIN = {f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"}
_LING = {
    own: module.replace("self_attn.", "attention.")
    for own, module in (_PLAIN | _KIMI).items()
    if own not in ("ssm_f_b", "ssm_g_b")
} | {
    **SHARED,
    "token_embd": "model.word_embeddings",
    "attn_output": "attention.dense",
    "attn_gate": "attention.g_proj",
    "ssm_f_a": "attention.f_proj",
    "ssm_g_a": "attention.g_proj",
    "exp_probs_b": "mlp.gate.expert",
}

FADING = {
    "kimi-linear": Architecture("kimi_linear", "KimiLinearForCausalLM", _KIMI, config=SILU),
    "bailingmoe3": Architecture("bailing_hybrid", "BailingMoeV3ForCausalLM", _LING, config=SILU),
}
"""By ``general.architecture``."""
ROOMS = dict.fromkeys(("deepseek_v2", "deepseek_v32", "glm_moe_dsa", "kimi_linear"), "self_attn") | {
    "bailing_hybrid": "attention"
}
"""Families whose files may have what makes keys and values in two parts, and where that is in a layer."""


def _sizes(file: GGUF, config: dict[str, Any]) -> str:
    """Which layers are of which kind, and the sizes of heads. Gives the architecture's name, raises
    :class:`FormatError` where a size is missing."""
    name = str(file.get("general.architecture", str))
    config["num_hidden_layers"] -= file.get(f"{name}.nextn_predict_layers", int, 0)
    told = {"linear_head_dim": f"{name}.kda.head_dim", "linear_conv_kernel_dim": f"{name}.ssm.conv_kernel"}
    for ours, key in told.items():
        value = file.get(key, int)
        if not value or value < 1:
            raise FormatError(f"{file.path}: {key} is {value!r}; expected is a number above 0")
        config[ours] = value
    full = having(file, config, "attn_kv_a_mqa.weight")
    shares = (file.tensors.get(f"blk.{i}.ssm_beta.weight") for i in range(len(full)))
    heads = next((one.shape[0] for one in shares if one is not None), config["num_attention_heads"])
    config |= {
        "layer_types": ["full_attention" if one else "linear_attention" for one in full],
        "mlp_layer_types": mixed(file, config), "linear_num_heads": heads,
    }  # fmt: skip
    if file.get(f"{name}.expert_gating_func", int, 2) != 2:
        raise UnsupportedError(f"{file.path}: experts of {name} that share one score are not known")
    return name


def _kimi(file: GGUF, config: dict[str, Any]) -> None:
    _sizes(file, config)
    config.setdefault("norm_topk_prob", True)


def _ling(file: GGUF, config: dict[str, Any]) -> None:
    name = _sizes(file, config)
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        if np.any(np.asarray(file.metadata.get(f"{name}.{key}", 0)) != 0):
            raise UnsupportedError(f"{file.path}: experts whose gates are limited ({name}.{key}) are not known")
    config["kda_safe_gate"] = file.get(f"{name}.kda.safe_gate", bool, True)
    config["kda_lower_bound"] = file.get(f"{name}.kda.gate_lower_bound", float, -5.0)
    config["short_conv_kernel_size"] = config["linear_conv_kernel_dim"]
    config["head_dim"] = config["linear_head_dim"]


OWN_FADING = {"kimi_linear": _kimi, "bailing_hybrid": _ling}
"""What metadata says beyond what all have, by ``model_type``."""

__all__ = ["FADING", "OWN_FADING", "ROOMS"]
