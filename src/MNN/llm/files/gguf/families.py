"""What the metadata of single families says beyond what all have."""

from __future__ import annotations

from typing import Any

from MNN.errors import UnsupportedError
from MNN.llm.files.gguf.fading import OWN_FADING
from MNN.llm.files.gguf.gemma import OWN_GEMMA
from MNN.llm.files.gguf.mixtures import OWN_MIXTURES
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.gguf.recurrent import OWN_RECURRENT, scales
from MNN.llm.files.gguf.windowed import OWN_WINDOWED, windows


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
    corrected = any(name.endswith("exp_probs_b.bias") for name in file.tensors)  # the first files do not say it
    gating = file.get("deepseek2.expert_gating_func", int, 2 if corrected else 1)
    config["scoring_func"] = "sigmoid" if gating == 2 else "softmax"
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


def _exaone4(file: GGUF, config: dict[str, Any]) -> None:
    windows(file, config, "exaone4")


def _olmo2(file: GGUF, config: dict[str, Any]) -> None:
    if config.get("sliding_window"):  # OLMo 3 has the same name
        config |= {"model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"]}
        windows(file, config, "olmo2")


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
    config.setdefault("first_k_dense_replace", 0)


def _ernie_moe(file: GGUF, config: dict[str, Any]) -> None:
    config["moe_layer_start_index"] = config.pop("first_k_dense_replace", 0)


def _hunyuan_moe(file: GGUF, config: dict[str, Any]) -> None:
    config["moe_topk"] = config.pop("num_experts_per_tok", 1)


def _exaone_moe(file: GGUF, config: dict[str, Any]) -> None:
    """Layers that guess further tokens stand behind the others."""
    config["num_hidden_layers"] -= file.get("exaone-moe.nextn_predict_layers", int, 0)
    windows(file, config, "exaone-moe")


def _bitnet(file: GGUF, config: dict[str, Any]) -> None:
    """1bitLLM's models, which have SiLU where Microsoft's have squares."""
    config.pop("rope_scaling", None)  # by 1


def _falcon(file: GGUF, config: dict[str, Any]) -> None:
    _epsilon(file, config)
    groups, two = config["num_key_value_heads"], "blk.0.attn_norm_2.weight" in file.tensors
    config |= {"new_decoder_architecture": two or groups > 1, "num_kv_heads": groups, "multi_query": True}
    config |= {"parallel_attn": True, "alibi": False, "num_ln_in_parallel_attn": 2 if two else 1}


def _bigcode(file: GGUF, config: dict[str, Any]) -> None:
    _epsilon(file, config)
    config["multi_query"] = config["num_key_value_heads"] == 1


OWN = {
    **OWN_GEMMA,
    **OWN_RECURRENT,
    **OWN_MIXTURES,
    **OWN_WINDOWED,
    **OWN_FADING,
    "bitnet": _bitnet,
    "granite": scales,
    "granitemoeshared": scales,
    "phimoe": _phi3,
    "exaone_moe": _exaone_moe,
    "falcon": _falcon,
    "gpt_bigcode": _bigcode,
    "nemotron": _nemotron,
    "stablelm": _stablelm,
    "olmo": _olmo,
    "glm4_moe": _glm4_moe,
    "ernie4_5_moe": _ernie_moe,
    "hunyuan_v1_moe": _hunyuan_moe,
    "exaone4": _exaone4,
    "olmo2": _olmo2,
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
