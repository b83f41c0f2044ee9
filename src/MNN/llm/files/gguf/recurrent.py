"""Architectures with recurrent layers: names of their tensors, and what their metadata says.

Facts: ``conversion/`` of llama.cpp (mamba, granite, falcon_h1, nemotron, jamba, qwen), and transformers' model code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.llm.files.gguf.naming import EXPERTS, SILU, Architecture, having, rounded
from MNN.llm.files.gguf.reader import GGUF

WITHOUT_ATTENTION = ("mamba", "mamba2")
"""Families that have no heads."""


def _second(at: str) -> dict[str, str]:
    """Layers of Mamba-2 in the room ``at``. ``ssm_a`` and ``ssm_d`` are parameters themselves: nothing stands behind
    their names."""
    names = {"in": "in_proj", "conv1d": "conv1d", "a": "A_log", "d": "D", "out": "out_proj", "dt": "dt", "norm": "norm"}
    return {f"ssm_{name}": f"{at}.{ours}" for name, ours in names.items()}


def _first(at: str) -> dict[str, str]:
    """Layers of Mamba-1."""
    found = _second(at) | {"ssm_x": f"{at}.x_proj", "ssm_dt": f"{at}.dt_proj"}
    del found["ssm_norm"]
    return found


_BACKBONE = {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "output": "lm_head"}
_ALONE = {**_BACKBONE, "attn_norm": "norm"}
_FED = {
    "output_norm": "model.final_layernorm",
    "ffn_norm": "pre_ff_layernorm",
    "ffn_gate": "feed_forward.gate_proj",
    "ffn_up": "feed_forward.up_proj",
    "ffn_down": "feed_forward.down_proj",
}
_JAMBA = {
    **_first("mamba"),
    **_FED,
    "ssm_dt_norm": "mamba.dt_layernorm",
    "ssm_b_norm": "mamba.b_layernorm",
    "ssm_c_norm": "mamba.c_layernorm",
    "ffn_gate_inp": "feed_forward.router",
    "ffn_gate_exps": "feed_forward.experts.{}.gate_proj",
    "ffn_up_exps": "feed_forward.experts.{}.up_proj",
    "ffn_down_exps": "feed_forward.experts.{}.down_proj",
}
GRANITE_EXPERTS = {
    "ffn_gate_inp": "block_sparse_moe.router.layer",
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
    "ffn_gate_shexp": "shared_mlp.gate_proj",
    "ffn_up_shexp": "shared_mlp.up_proj",
    "ffn_down_shexp": "shared_mlp.output_linear",
}
_GRANITE = {
    **_second("mamba"),
    **GRANITE_EXPERTS,
    "ffn_gate": "shared_mlp.gate_proj",
    "ffn_up": "shared_mlp.up_proj",
    "ffn_down": "shared_mlp.output_linear",
}
_NEMOTRON = {
    **_second("mixer"),
    **_ALONE,
    "attn_q": "mixer.q_proj",
    "attn_k": "mixer.k_proj",
    "attn_v": "mixer.v_proj",
    "attn_output": "mixer.o_proj",
    "ffn_up": "mixer.up_proj",
    "ffn_down": "mixer.down_proj",
    "ffn_gate_inp": "mixer.gate",
    "ffn_up_exps": "mixer.experts.{}.up_proj",
    "ffn_down_exps": "mixer.experts.{}.down_proj",
    "ffn_up_shexp": "mixer.shared_experts.up_proj",
    "ffn_down_shexp": "mixer.shared_experts.down_proj",
    "ffn_latent_down": "mixer.fc1_latent_proj",
    "ffn_latent_up": "mixer.fc2_latent_proj",
    "exp_probs_b": "mixer.gate.e_score_correction",
}
_QWEN_SHARED = {
    **EXPERTS,
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_DELTA = {
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_a": "linear_attn.A_log",
    "ssm_dt": "linear_attn.dt",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_NEXT = {**_QWEN_SHARED, **_DELTA, "ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"}
_QWEN35 = {**_DELTA, "ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a"}
_MIXED = {**SILU, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
_PLACE = {"shared": False, "layers": "backbone.layers."}
_NEMOTRON_H = Architecture(
    "nemotron_h",
    "NemotronHForCausalLM",
    _NEMOTRON,
    interleaved=True,
    config=SILU,
    **_PLACE,  # type: ignore[arg-type]
)

RECURRENT = {
    "mamba": Architecture("mamba", "MambaForCausalLM", _first("mixer") | _ALONE, config=SILU, **_PLACE),  # type: ignore[arg-type]
    "mamba2": Architecture("mamba2", "Mamba2ForCausalLM", _second("mixer") | _ALONE, config=SILU, **_PLACE),  # type: ignore[arg-type]
    "jamba": Architecture("jamba", "JambaForCausalLM", _JAMBA, config=SILU),
    "granitehybrid": Architecture(
        "granitemoehybrid", "GraniteMoeHybridForCausalLM", _GRANITE, interleaved=True, config=SILU
    ),
    "falcon-h1": Architecture("falcon_h1", "FalconH1ForCausalLM", _second("mamba") | _FED, config=SILU),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": _NEMOTRON_H,
    "qwen3next": Architecture("qwen3_next", "Qwen3NextForCausalLM", _NEXT, norm_shift=-1.0, config=_MIXED),
    "qwen35": Architecture("qwen3_5_text", "Qwen3_5ForCausalLM", _QWEN35, norm_shift=-1.0, config=SILU),
    "qwen35moe": Architecture(
        "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", _QWEN35 | _QWEN_SHARED, norm_shift=-1.0, config=_MIXED
    ),
}
"""By ``general.architecture``."""


def _sizes(file: GGUF) -> tuple[str, dict[str, int]]:
    """The architecture's name, and the sizes of states. Raises :class:`FormatError` where one is no number above 0."""
    name = file.get("general.architecture", str)
    keys = ("conv_kernel", "state_size", "time_step_rank", "inner_size")
    told = {key: file.get(f"{name}.ssm.{key}", int) for key in keys}
    lacking = next((key for key, value in told.items() if not value or value < 1), None)
    if lacking:
        raise FormatError(f"{file.path}: {name}.ssm.{lacking} is {told[lacking]!r}; expected is a number above 0")
    told["group_count"] = file.get(f"{name}.ssm.group_count", int) or 1
    return str(name), told


def _mamba(file: GGUF, config: dict[str, Any]) -> None:
    name, sizes = _sizes(file)
    groups = sizes.pop("group_count")
    config |= sizes | {"layer_norm_epsilon": config.get("rms_norm_eps", 1e-5), "intermediate_size": sizes["inner_size"]}
    if name == "mamba2":  # the rank is what says how many heads there are
        heads = config.pop("time_step_rank")
        config |= {"num_heads": heads, "head_dim": config["inner_size"] // heads, "n_groups": groups}
    elif file.get(f"{name}.ssm.dt_b_c_rms", bool):
        epsilon = config["layer_norm_epsilon"]
        config |= {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "mixer_rms_eps": epsilon}


def _jamba(file: GGUF, config: dict[str, Any]) -> None:
    _, sizes = _sizes(file)
    attention = having(file, config, "attn_q.weight")
    config |= {
        "layers_block_type": ["attention" if full else "mamba" for full in attention],
        "mamba_d_state": sizes["state_size"], "mamba_d_conv": sizes["conv_kernel"],
        "mamba_dt_rank": sizes["time_step_rank"], "mamba_expand": sizes["inner_size"] / config["hidden_size"],
    }  # fmt: skip


def _second_sizes(sizes: dict[str, int]) -> dict[str, int]:
    heads = sizes["time_step_rank"]
    return {
        "mamba_n_heads": heads, "mamba_d_head": sizes["inner_size"] // heads, "mamba_n_groups": sizes["group_count"],
        "mamba_d_state": sizes["state_size"], "mamba_d_conv": sizes["conv_kernel"],
    }  # fmt: skip


def scales(file: GGUF, config: dict[str, Any]) -> None:
    """Granite's factors."""
    names = {"embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier"}
    names |= {"attention.scale": "attention_multiplier", "logit_scale": "logits_scaling"}
    for key, ours in names.items():
        value = file.get(f"{file.get('general.architecture', str)}.{key}", float)
        config[ours] = rounded(value) if value else 1.0


def _granite(file: GGUF, config: dict[str, Any]) -> None:
    """Granite 4, and Bamba, which has no factors."""
    scales(file, config)
    name = file.get("general.architecture", str)
    if not file.get(f"{name}.attention.scale", float):
        config["attention_multiplier"] = config["head_dim"] ** -0.5
    attention = having(file, config, "attn_q.weight")
    config["layer_types"] = ["attention" if full else "mamba" for full in attention]
    if not all(attention):
        config |= _second_sizes(_sizes(file)[1])
    turned = file.get(f"{name}.rope.scaling.finetuned", bool, False)
    config["position_embedding_type"] = "rope" if turned else "nope"


def _falcon_h1(file: GGUF, config: dict[str, Any]) -> None:
    """Its factors are in the weights."""
    config |= _second_sizes(_sizes(file)[1]) | {"mamba_norm_before_gate": False}


def _nemotron_h(file: GGUF, config: dict[str, Any]) -> None:
    kinds = {"attn_q.weight": "full_attention", "ssm_in.weight": "mamba", "ffn_gate_inp.weight": "moe"}
    found = ["mlp"] * config["num_hidden_layers"]
    for tensor, kind in kinds.items():
        found = [kind if here else old for old, here in zip(found, having(file, config, tensor), strict=True)]
    config |= {"layers_block_type": found, "mlp_hidden_act": "relu2"}
    config["layer_norm_epsilon"] = config.get("rms_norm_eps", 1e-5)
    if "mamba" in found:
        told = _second_sizes(_sizes(file)[1])
        names = {"mamba_num_heads": "n_heads", "mamba_head_dim": "d_head", "n_groups": "n_groups"}
        config |= {ours: told[f"mamba_{name}"] for ours, name in {**names, "ssm_state_size": "d_state"}.items()}


def _qwen_next(file: GGUF, config: dict[str, Any]) -> None:
    """Where heads of values take those of keys in turns, and not side by side, this is noted."""
    name, sizes = _sizes(file)
    config["num_hidden_layers"] -= file.get(f"{name}.nextn_predict_layers", int, 0)
    attention = having(file, config, "attn_q.weight")
    heads = sizes["time_step_rank"]
    config |= {
        "layer_types": ["full_attention" if full else "linear_attention" for full in attention],
        "linear_conv_kernel_dim": sizes["conv_kernel"], "linear_key_head_dim": sizes["state_size"],
        "linear_num_key_heads": sizes["group_count"], "linear_num_value_heads": heads,
        "linear_value_head_dim": sizes["inner_size"] // heads, "linear_heads_in_turns": name != "qwen3next",
    }  # fmt: skip
    config.setdefault("partial_rotary_factor", 1.0)


def _lfm2(file: GGUF, config: dict[str, Any]) -> None:
    """Layers of convolutions are those without keys."""
    name = file.get("general.architecture", str)
    counts = file.metadata.get(f"{name}.attention.head_count_kv")
    layers = config["num_hidden_layers"]
    some = counts.reshape(-1) if isinstance(counts, np.ndarray) else np.ones(layers)
    if len(some) != layers:
        raise FormatError(f"{file.path}: {name}.attention.head_count_kv has {len(some)} numbers for {layers} layers")
    config["layer_types"] = ["full_attention" if n else "conv" for n in some]
    config["conv_L_cache"] = file.get(f"{name}.shortconv.l_cache", int, 3)
    config["norm_eps"] = config.get("rms_norm_eps", 1e-5)


def _lfm2_moe(file: GGUF, config: dict[str, Any]) -> None:
    _lfm2(file, config)
    config["num_dense_layers"] = config.pop("first_k_dense_replace", 0)
    config["use_expert_bias"] = any(name.endswith("exp_probs_b.bias") for name in file.tensors)
    config["norm_topk_prob"] = True


OWN_RECURRENT = {
    "mamba": _mamba, "mamba2": _mamba, "jamba": _jamba, "granitemoehybrid": _granite, "falcon_h1": _falcon_h1,
    "nemotron_h": _nemotron_h, "qwen3_next": _qwen_next, "qwen3_5_text": _qwen_next, "qwen3_5_moe_text": _qwen_next,
    "lfm2": _lfm2, "lfm2_moe": _lfm2_moe,
}  # fmt: skip
"""What metadata says beyond what all have, by ``model_type``."""

__all__ = ["GRANITE_EXPERTS", "OWN_RECURRENT", "RECURRENT", "WITHOUT_ATTENTION", "scales"]
