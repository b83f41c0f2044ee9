"""Gemma 3n and 4: names of their tensors, and what their metadata says.

Facts: ``conversion/gemma.py`` of llama.cpp, and transformers' model code.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.llm.files.gguf.naming import GELU, Architecture, near
from MNN.llm.files.gguf.reader import GGUF

BOTH_SIDES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_BESIDE = {
    **BOTH_SIDES,
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}
_STREAMS = {
    **_BESIDE,
    "altup_proj": "model.altup_projections.{}",
    "altup_unembd_proj": "model.altup_unembed_projections.{}",
    "altup_correct_scale": "altup.correct_output_scale",
    "altup_correct_coef": "altup.correction_coefs",
    "altup_predict_coef": "altup.prediction_coefs",
    "altup_router": "altup.modality_router",
    "altup_router_norm": "altup.router_norm",
    "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right",
    "laurel_post_norm": "laurel.post_laurel_norm",
}
_FOURTH = {
    **_BESIDE,
    "layer_output_scale": "layer_scalar",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
    "ffn_gate_inp": "router.proj",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps": "experts.{}.gate_up_proj",
    "ffn_down_exps": "experts.{}.down_proj",
}

GEMMA = {
    "gemma": Architecture("gemma", "GemmaForCausalLM", norm_shift=-1.0, config=GELU),
    "gemma2": Architecture("gemma2", "Gemma2ForCausalLM", BOTH_SIDES, norm_shift=-1.0, config=GELU),
    "gemma3": Architecture("gemma3_text", "Gemma3ForCausalLM", BOTH_SIDES, norm_shift=-1.0, config=GELU),
    "gemma3n": Architecture("gemma3n_text", "Gemma3nForCausalLM", _STREAMS, config=GELU),
    "gemma4": Architecture("gemma4_text", "Gemma4ForCausalLM", _FOURTH, config=GELU),
}
"""By ``general.architecture``."""


def _of_size(config: dict[str, Any], large: int) -> None:
    """The largest model alone scales queries by the hidden size and not by that of heads."""
    shared = config["hidden_size"] // config["num_attention_heads"]
    config["query_pre_attn_scalar"] = shared if config["num_hidden_layers"] == large else config["head_dim"]


def _gemma2(file: GGUF, config: dict[str, Any]) -> None:
    layers = config["num_hidden_layers"]
    config["layer_types"] = ["full_attention" if i % 2 else "sliding_attention" for i in range(layers)]
    _of_size(config, 46)


def _gemma3(file: GGUF, config: dict[str, Any]) -> None:
    layers = config["num_hidden_layers"]
    if "gemma3.attention.sliding_window_pattern" in file.metadata:
        local = _entries(file, "gemma3", layers)
    else:
        local = [(i + 1) % 6 > 0 for i in range(layers)]
    config["layer_types"] = ["sliding_attention" if one else "full_attention" for one in local]
    _of_size(config, 62)
    config.setdefault("rope_theta", 1000000.0)
    config.setdefault("rope_local_base_freq", 10000.0)


def _entries(file: GGUF, name: str, layers: int) -> list[bool]:
    found = near(file, f"{name}.attention.sliding_window_pattern", layers)
    if len(found) != layers:
        raise FormatError(
            f"{file.path}: {name}.attention.sliding_window_pattern has {len(found)} entries for {layers} layers"
        )
    return found


def _pattern(file: GGUF, config: dict[str, Any], name: str) -> list[bool]:
    """Which layers have a window. Raises :class:`FormatError` where the file does not say it of all."""
    found = _entries(file, name, config["num_hidden_layers"])
    config["layer_types"] = ["sliding_attention" if local else "full_attention" for local in found]
    config["num_kv_shared_layers"] = file.get(f"{name}.attention.shared_kv_layers", int, 0)
    config["hidden_size_per_layer_input"] = file.get(f"{name}.embedding_length_per_layer_input", int, 0)
    config["vocab_size_per_layer_input"] = config["vocab_size"]
    return found


def _gemma3n(file: GGUF, config: dict[str, Any]) -> None:
    """How far gates have to be above the mean is told in standard deviations, and becomes a share again."""
    _pattern(file, config, "gemma3n")
    config["altup_num_inputs"] = file.get("gemma3n.altup.num_inputs", int, 4)
    config["altup_active_idx"] = file.get("gemma3n.altup.active_idx", int, 0)
    far = file.metadata.get("gemma3n.activation_sparsity_scale")
    given = [float(one) for one in far] if isinstance(far, np.ndarray) else []
    if any(np.isnan(given)) or len(given) not in (0, config["num_hidden_layers"]):
        raise FormatError(f"{file.path}: gemma3n.activation_sparsity_scale is no number for each layer")
    normal = NormalDist()
    config["activation_sparsity_pattern"] = [normal.cdf(one) if np.isfinite(one) else float(one > 0) for one in given]


def _gemma4(file: GGUF, config: dict[str, Any]) -> None:
    local = _pattern(file, config, "gemma4")
    groups = file.metadata.get("gemma4.attention.head_count_kv")
    if isinstance(groups, np.ndarray) and len(groups) == len(local):
        for key, kind in (("num_key_value_heads", True), ("num_global_key_value_heads", False)):
            told = {int(n) for n, one in zip(groups.reshape(-1), local, strict=True) if one == kind}
            if len(told) > 1:
                raise FormatError(f"{file.path}: layers of one kind have different gemma4.attention.head_count_kv")
            config[key] = next(iter(told), config["num_attention_heads"])
    config.setdefault("num_global_key_value_heads", config["num_key_value_heads"])
    config |= {"attention_k_eq_v": True, "global_head_dim": config["head_dim"]}
    config["head_dim"] = file.get("gemma4.attention.key_length_swa", int, config["head_dim"])
    config.pop("rope_scaling", None)
    config.pop("partial_rotary_factor", None)
    factors = file.tensors.get("rope_freqs.weight")  # those that turn have 1
    share = 1.0 if factors is None else float((factors.float32() < 1e20).mean())
    full = {"rope_type": "proportional", "rope_theta": config.pop("rope_theta", 1e6), "partial_rotary_factor": share}
    near = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq", 1e4)}
    config["rope_parameters"] = {"full_attention": full, "sliding_attention": near}
    if config.get("num_experts"):
        config |= {"enable_moe_block": True, "top_k_experts": config.pop("num_experts_per_tok", 1)}


OWN_GEMMA = {"gemma2": _gemma2, "gemma3_text": _gemma3, "gemma3n_text": _gemma3n, "gemma4_text": _gemma4}
"""What metadata says beyond what all have, by ``model_type``."""
LAYERWISE = ("gemma3n_text", "gemma4_text")
"""Families whose layers may differ in sizes that others' share."""

__all__ = ["BOTH_SIDES", "GEMMA", "LAYERWISE", "OWN_GEMMA"]
