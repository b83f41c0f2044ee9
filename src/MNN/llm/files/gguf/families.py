"""What the metadata of single families says beyond what all have."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf.reader import GGUF


def _gemma2(file: GGUF, config: dict[str, Any]) -> None:
    layers = config["num_hidden_layers"]
    config["layer_types"] = ["full_attention" if i % 2 else "sliding_attention" for i in range(layers)]
    # the 27B alone scales queries by the hidden size and not by that of heads
    large = layers == 46
    config["query_pre_attn_scalar"] = (
        config["hidden_size"] // config["num_attention_heads"] if large else config["head_dim"]
    )


def _gemma3(file: GGUF, config: dict[str, Any]) -> None:
    layers = config["num_hidden_layers"]
    config["layer_types"] = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(layers)]
    large = layers == 62  # the 27B
    config["query_pre_attn_scalar"] = (
        config["hidden_size"] // config["num_attention_heads"] if large else config["head_dim"]
    )
    config.setdefault("rope_theta", 1000000.0)
    config.setdefault("rope_local_base_freq", 10000.0)


def _smollm3(file: GGUF, config: dict[str, Any]) -> None:
    config["no_rope_layers"] = [1 if (i + 1) % 4 else 0 for i in range(config["num_hidden_layers"])]


def _minicpm(file: GGUF, config: dict[str, Any]) -> None:
    residual = file.get("minicpm.residual_scale", float)
    logits = file.get("minicpm.logit_scale", float)
    config["scale_depth"] = round((residual or 1.0) * config["num_hidden_layers"] ** 0.5, 5)
    config["dim_model_base"] = round(config["hidden_size"] / (logits or 1.0))
    config.setdefault("scale_emb", 1.0)


def _starcoder2(file: GGUF, config: dict[str, Any]) -> None:
    config["norm_epsilon"] = config.pop("layer_norm_eps", 1e-5)


def _deepseek(file: GGUF, config: dict[str, Any]) -> None:
    config["scoring_func"] = "sigmoid" if file.get("deepseek2.expert_gating_func", int, 1) == 2 else "softmax"
    config["norm_topk_prob"] = file.get("deepseek2.expert_weights_norm", bool, False)
    config.setdefault("topk_method", "greedy")


def _phi3(file: GGUF, config: dict[str, Any]) -> None:
    config["sliding_window"] = config.get("sliding_window") or None


def _baichuan(file: GGUF, config: dict[str, Any]) -> None:
    name = file.get("general.architecture", str)
    if name == "baichuan" and config["num_hidden_layers"] >= 40:  # those with ALiBi
        config |= {"model_type": "baichuan", "model_max_length": config.pop("max_position_embeddings", 4096)}


def _epsilon(file: GGUF, config: dict[str, Any]) -> None:
    config["layer_norm_epsilon"] = config.pop("layer_norm_eps", 1e-5)


def _gpt_neox(file: GGUF, config: dict[str, Any]) -> None:
    config["use_parallel_residual"] = file.get("gptneox.use_parallel_residual", bool, True)
    config.setdefault("partial_rotary_factor", 1.0)


def _mpt(file: GGUF, config: dict[str, Any]) -> None:
    _epsilon(file, config)
    limit, most = (file.get(f"mpt.attention.{key}", float) for key in ("clamp_kqv", "max_alibi_bias"))
    if most == 0:
        raise UnsupportedError(f"{file.path}: MPT models without ALiBi cannot be read")
    config["attn_config"] = {"alibi_bias_max": most or 8.0, "clip_qkv": limit or None}


def _cohere(file: GGUF, config: dict[str, Any]) -> None:
    scale = file.get(f"{file.get('general.architecture', str)}.logit_scale", float)
    config["logit_scale"] = float(f"{scale or 0.0625:.7g}")


def _gpt_oss(file: GGUF, config: dict[str, Any]) -> None:
    scaling = config.get("rope_scaling")
    if isinstance(scaling, dict):
        scaling["truncate"] = False


def _ministral3(file: GGUF, config: dict[str, Any]) -> None:
    beta = file.get("mistral3.attention.temperature_scale", float)
    if beta and isinstance(config.get("rope_scaling"), dict):
        config["rope_scaling"]["llama_4_scaling_beta"] = float(f"{beta:.6g}")


def _glm(file: GGUF, config: dict[str, Any]) -> None:
    names = set(file.tensors)
    config["attention_bias"] = bool({"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"} & names)


def _windows(file: GGUF, config: dict[str, Any], name: str) -> None:
    """Layers with a window, by the file's pattern, or three of four."""
    if not config.get("sliding_window"):
        config["sliding_window"] = None
        return
    told, layers = file.metadata.get(f"{name}.attention.sliding_window_pattern"), config["num_hidden_layers"]
    local = [bool(n) for n in told.reshape(-1)] if isinstance(told, np.ndarray) else []
    if len(local) != layers:
        local = [(i + 1) % 4 != 0 for i in range(layers)]
    config["layer_types"] = ["sliding_attention" if one else "full_attention" for one in local]


def _exaone4(file: GGUF, config: dict[str, Any]) -> None:
    _windows(file, config, "exaone4")


def _olmo2(file: GGUF, config: dict[str, Any]) -> None:
    if config.get("sliding_window"):  # OLMo 3 has the same name
        config |= {"model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"]}
        _windows(file, config, "olmo2")


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


def _granite(file: GGUF, config: dict[str, Any]) -> None:
    names = {"embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier"}
    names |= {"attention.scale": "attention_multiplier", "logit_scale": "logits_scaling"}
    for key, ours in names.items():
        value = file.get(f"granite.{key}", float)
        config[ours] = float(f"{value:.7g}") if value else 1.0


def _nemotron(file: GGUF, config: dict[str, Any]) -> None:
    config["norm_eps"] = config.pop("layer_norm_eps", 1e-5)
    config.setdefault("partial_rotary_factor", 1.0)


def _stablelm(file: GGUF, config: dict[str, Any]) -> None:
    config["qk_layernorm"] = "blk.0.attn_q_norm.weight" in file.tensors
    config.setdefault("partial_rotary_factor", 1.0)


def _olmo(file: GGUF, config: dict[str, Any]) -> None:
    config["clip_qkv"] = file.get("olmo.attention.clamp_kqv", float) or None


def _glm4_moe(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others."""
    config["num_hidden_layers"] -= file.get("glm4moe.nextn_predict_layers", int, 0)
    config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in file.tensors
    config.setdefault("partial_rotary_factor", 1.0)


def _ernie_moe(file: GGUF, config: dict[str, Any]) -> None:
    config["moe_layer_start_index"] = config.pop("first_k_dense_replace", 0)


def _hunyuan_moe(file: GGUF, config: dict[str, Any]) -> None:
    config["moe_topk"] = config.pop("num_experts_per_tok", 1)


def _lfm2_moe(file: GGUF, config: dict[str, Any]) -> None:
    _lfm2(file, config)
    config["num_dense_layers"] = config.pop("first_k_dense_replace", 0)
    config["use_expert_bias"] = any(name.endswith("exp_probs_b.bias") for name in file.tensors)
    config["norm_topk_prob"] = True


_STATES = {"conv_kernel": "conv_kernel", "state_size": "state_size", "time_step_rank": "time_step_rank"}


def _mamba(file: GGUF, config: dict[str, Any]) -> None:
    name = file.get("general.architecture", str)
    told = {ours: file.get(f"{name}.ssm.{key}", int) for key, ours in {**_STATES, "inner_size": "inner_size"}.items()}
    lacking = next((key for key, value in told.items() if not value or value < 1), None)
    if lacking:
        raise FormatError(f"{file.path}: {name}.ssm.{lacking} is {told[lacking]!r}; expected is a number above 0")
    config |= told | {"layer_norm_epsilon": config.get("rms_norm_eps", 1e-5), "intermediate_size": told["inner_size"]}
    if name == "mamba2":  # the rank is what says how many heads there are
        heads = config.pop("time_step_rank")
        groups = file.get(f"{name}.ssm.group_count", int) or 1
        config |= {"num_heads": heads, "head_dim": config["inner_size"] // heads, "n_groups": groups}
    elif file.get(f"{name}.ssm.dt_b_c_rms", bool):
        epsilon = config["layer_norm_epsilon"]
        config |= {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "mixer_rms_eps": epsilon}


RECURRENT = ("mamba", "mamba2")
"""Those without attention."""
OWN = {
    "mamba": _mamba,
    "mamba2": _mamba,
    "granite": _granite,
    "nemotron": _nemotron,
    "stablelm": _stablelm,
    "olmo": _olmo,
    "glm4_moe": _glm4_moe,
    "ernie4_5_moe": _ernie_moe,
    "hunyuan_v1_moe": _hunyuan_moe,
    "lfm2_moe": _lfm2_moe,
    "exaone4": _exaone4,
    "olmo2": _olmo2,
    "lfm2": _lfm2,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "smollm3": _smollm3,
    "minicpm": _minicpm,
    "starcoder2": _starcoder2,
    "deepseek_v2": _deepseek,
    "phi3": _phi3,
    "ministral3": _ministral3,
    "llama": _baichuan,
    "glm": _glm,
    "glm4": _glm,
    "gpt2": _epsilon,
    "bloom": _epsilon,
    "gpt_neox": _gpt_neox,
    "mpt": _mpt,
    "cohere": _cohere,
    "cohere2": _cohere,
    "gpt_oss": _gpt_oss,
}
"""What one model type has beyond the others, by its name."""
