"""Trinity (``afmoe``), Mellum 2, Command A with experts and Granite with windows: layers that see what is near only,
and experts. Names of their tensors, and what their metadata says.

Facts: ``conversion/`` of llama.cpp (afmoe, mellum, command_r, granite) and its models' parameters, and transformers'
model code.
"""

from __future__ import annotations

from typing import Any

from MNN.errors import FormatError
from MNN.llm.files.gguf.naming import EXPERTS, SHARED, SILU, Architecture, mixed, near, rounded
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.gguf.recurrent import scales

_TRINITY = {
    **SHARED,
    "attn_gate": "self_attn.gate_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_mlp_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
    "ffn_gate_inp": "mlp.router.gate",
    "exp_probs_b": "mlp.expert",
}
_GRANITE = {
    "attn_sinks": "self_attn.sinks",
    "ffn_gate_inp": "block_sparse_moe.router",
    "ffn_gate_up_exps": "block_sparse_moe.experts.{}.gate_up_proj",
    "ffn_down_exps": "block_sparse_moe.experts.{}.down_proj",
    "ffn_up_shexp": "shared_mlp.input_linear",
    "ffn_down_shexp": "shared_mlp.output_linear",
}

_SCORED = {own: module for own, module in SHARED.items() if own != "exp_probs_b"}

WINDOWED = {
    "afmoe": Architecture("afmoe", "AfmoeForCausalLM", _TRINITY, config=SILU | {"mup_enabled": True}),
    "mellum": Architecture("mellum", "MellumForCausalLM", EXPERTS, config=SILU | {"norm_topk_prob": True}),
    "cohere2moe": Architecture("cohere2_moe", "Cohere2MoeForCausalLM", _SCORED, config=SILU),
    "granite_swa": Architecture("granite_swa", "GraniteSWAForCausalLM", _GRANITE, interleaved=True, config=SILU),
}
"""By ``general.architecture``."""


def windows(file: GGUF, config: dict[str, Any], name: str) -> None:
    """Layers with a window, by the file's pattern, or three of four. The pattern may go on with layers that only guess
    further tokens."""
    if not config.get("sliding_window"):
        config["sliding_window"] = None
        return
    layers = config["num_hidden_layers"]
    local = near(file, f"{name}.attention.sliding_window_pattern", layers)
    if 0 < len(local) < layers:
        raise FormatError(f"{file.path}: the metadata has windows of {len(local)} layers of {layers}")
    if not local:
        local = [(i + 1) % 4 != 0 for i in range(layers)]
    config["layer_types"] = ["sliding_attention" if one else "full_attention" for one in local[:layers]]


def _afmoe(file: GGUF, config: dict[str, Any]) -> None:
    windows(file, config, "afmoe")
    config["num_dense_layers"] = config.pop("first_k_dense_replace", 0)
    config["route_scale"] = config.pop("routed_scaling_factor", 1.0)


def _mellum(file: GGUF, config: dict[str, Any]) -> None:
    """What scales positions is not for layers with a window."""
    windows(file, config, "mellum")
    theta, scaling = config.pop("rope_theta", 5e5), config.pop("rope_scaling", None)
    near = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq", theta)}
    full = {"rope_type": "default", **(scaling or {}), "rope_theta": theta}
    config["rope_parameters"] = {"full_attention": full, "sliding_attention": near}


def _cohere2_moe(file: GGUF, config: dict[str, Any]) -> None:
    """The first layers know positions even where they see all."""
    name = "cohere2moe"
    config["num_hidden_layers"] -= file.get(f"{name}.nextn_predict_layers", int, 0)
    windows(file, config, name)
    config |= {
        "logit_scale": rounded(file.get(f"{name}.logit_scale", float) or 0.0625),
        "mlp_layer_types": mixed(file, config),
        "num_shared_experts": config.pop("n_shared_experts", 0),
        "expert_selection_fn": "softmax" if file.get(f"{name}.expert_gating_func", int, 2) == 1 else "sigmoid",
        "prefix_dense_sliding_window_pattern": 1 if config.get("first_k_dense_replace") else 4,
    }
    config.setdefault("norm_topk_prob", False)


def _granite_swa(file: GGUF, config: dict[str, Any]) -> None:
    """One kind of file for models with experts and without. Layers may know no positions."""
    scales(file, config)
    windows(file, config, "granite_swa")
    layers = config["num_hidden_layers"]
    turned = near(file, "granite_swa.attention.rope_pattern", layers)
    if turned:
        if len(turned) < layers:
            raise FormatError(f"{file.path}: the metadata has positions of {len(turned)} layers of {layers}")
        config["layer_rope_theta"] = [config.get("rope_theta", 1e4) if one else 0.0 for one in turned[:layers]]
    if config.get("num_experts"):
        config |= {"model_type": "granitemoe_swa", "architectures": ["GraniteMoeSWAForCausalLM"]}


OWN_WINDOWED = {"afmoe": _afmoe, "mellum": _mellum, "cohere2_moe": _cohere2_moe, "granite_swa": _granite_swa}
"""What metadata says beyond what all have, by ``model_type``."""

__all__ = ["OWN_WINDOWED", "WINDOWED", "windows"]
