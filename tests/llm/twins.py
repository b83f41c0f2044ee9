"""Families that transformers does not hold itself, as a model of its own that computes the same: another configuration,
and the weights arranged anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from tests.llm.stored import in_memory, stored_shapes

Shapes = dict[str, list[int]]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Twin:
    """``config``: the other kind and its configuration; ``shapes``: those of the family's own weights, from the
    other's; ``weights``: the other's weights from the own ones."""

    config: Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]
    shapes: Callable[[dict[str, Any], Shapes], Shapes]
    weights: Callable[[dict[str, Any], Arrays], Arrays]


def _renamed(arrays: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, data in arrays.items():
        for old, new in names.items():
            name = name.replace(old, new)
        found[name] = data
    return found


def _joined(shapes: Shapes, old: tuple[str, ...], new: str) -> Shapes:
    """Several layers side by side become one."""
    found: Shapes = {}
    for name, shape in shapes.items():
        part = next((p for p in old if p in name), None)
        if part is None:
            found[name] = list(shape)
            continue
        name = name.replace(part, new)
        if name in found:
            found[name][0] += shape[0]
        else:
            found[name] = list(shape)
    return found


INTERNLM2 = {
    "model.embed_tokens": "model.tok_embeddings", "self_attn.o_proj": "attention.wo",
    "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2", "lm_head": "output",
}  # fmt: skip


def _internlm2_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    names = tuple(f"self_attn.{n}_proj" for n in "qkv")
    return _renamed(_joined(shapes, names, "attention.wqkv"), {**INTERNLM2, "post_attention_norm": "ffn_norm"})


def _internlm2_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size, each = config["hidden_size"] // heads, heads // groups
    back = {new: old for old, new in INTERNLM2.items()}
    found: Arrays = {}
    for name, data in _renamed(own, back).items():
        if "attention.wqkv" not in name:
            found[name] = data
            continue
        parts = data.reshape(groups, each + 2, size, *data.shape[1:])
        for letter, part in zip("qkv", (parts[:, :each], parts[:, each], parts[:, each + 1]), strict=True):
            found[name.replace("attention.wqkv", f"self_attn.{letter}_proj")] = part.reshape(-1, *data.shape[1:])
    return found


def _minicpm(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    depth = config["scale_depth"] / sqrt(config["num_hidden_layers"])
    scales = {
        "embedding_multiplier": config["scale_emb"], "residual_multiplier": depth,
        "logits_scaling": config["hidden_size"] / config["dim_model_base"],
        "attention_multiplier": (config["hidden_size"] // config["num_attention_heads"]) ** -0.5,
    }  # fmt: skip
    dropped = ("scale_emb", "scale_depth", "dim_model_base")
    return "granite", {k: v for k, v in config.items() if k not in dropped} | scales


def _baichuan_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    found: Arrays = {}
    for name, data in own.items():
        if "W_pack" in name:
            for letter, part in zip("qkv", np.split(data, 3), strict=True):
                found[name.replace("W_pack", f"{letter}_proj")] = part
        elif name == "lm_head.weight" and config["norm_head"]:
            found[name] = data / np.linalg.norm(data, axis=1, keepdims=True)
        else:
            found[name] = data
    return found


CHATGLM = {
    "model.embed_tokens": "transformer.embedding.word_embeddings", "model.layers": "transformer.encoder.layers",
    "self_attn.o_proj": "self_attention.dense", "mlp.gate_up_proj": "mlp.dense_h_to_4h",
    "mlp.down_proj": "mlp.dense_4h_to_h", "model.norm": "transformer.encoder.final_layernorm",
    "lm_head": "transformer.output_layer",
}  # fmt: skip


def _chatglm(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    rope = {"rope_type": "default", "rope_theta": 1e4 * config["rope_ratio"], "partial_rotary_factor": 0.5}
    return "glm", {
        "vocab_size": config["padded_vocab_size"], "hidden_size": config["hidden_size"], "attention_bias": True,
        "num_hidden_layers": config["num_layers"], "intermediate_size": config["ffn_hidden_size"],
        "num_attention_heads": config["num_attention_heads"], "head_dim": config["kv_channels"],
        "num_key_value_heads": config["multi_query_group_num"], "rms_norm_eps": config["layernorm_epsilon"],
        "max_position_embeddings": config["seq_length"], "tie_word_embeddings": False, "rope_parameters": rope,
        "pad_token_id": 0,
    }  # fmt: skip


def _chatglm_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    names = tuple(f"self_attn.{n}_proj" for n in "qkv")
    return _renamed(_joined(shapes, names, "self_attention.query_key_value"), CHATGLM)


def _chatglm_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    size, heads, groups = config["kv_channels"], config["num_attention_heads"], config["multi_query_group_num"]
    found: Arrays = {}
    for name, data in _renamed(own, {new: old for old, new in CHATGLM.items()}).items():
        if "query_key_value" not in name:
            found[name] = data
            continue
        for letter, part in zip("qkv", np.split(data, [heads * size, (heads + groups) * size]), strict=True):
            found[name.replace("self_attention.query_key_value", f"self_attn.{letter}_proj")] = part
    return found


def _internlm2_config(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "llama", {k: v for k, v in config.items() if k != "bias"} | {"attention_bias": config["bias"]}


def _baichuan_config(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "llama", {k: v for k, v in config.items() if k not in ("norm_head", "model_max_length")}


def _baichuan_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    return _joined(shapes, tuple(f"{n}_proj" for n in "qkv"), "W_pack")


GTE = {
    "layers.": "encoder.layer.", "self_attn.o_proj": "attention.o_proj", "post_attention_layernorm": "attn_ln",
    "post_mlp_layernorm": "mlp_ln",
}  # fmt: skip
NOMIC = {
    "embeddings.LayerNorm": "emb_ln", "layers.": "encoder.layers.", "self_attn.o_proj": "attn.out_proj",
    "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2", "up_proj": "fc11", "gate_proj": "fc12",
    "down_proj": "fc2",
}  # fmt: skip


def _gte(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The one scaling that GTE has: another base, and all turns slower."""
    scaling, given = config["rope_scaling"], {k: v for k, v in config.items() if not k.startswith("rope")}
    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    if scaling is not None:
        size = config["hidden_size"] // config["num_attention_heads"]
        rope |= {"rope_theta": config["rope_theta"] * scaling["factor"]}
        rope |= {"rope_type": "linear", "factor": scaling["factor"] ** (2 / size)}
    return "gte", given | {"rope_parameters": rope}


def _gte_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    found = _joined(shapes, tuple(f"self_attn.{n}_proj" for n in "qkv"), "attention.qkv_proj")
    return _renamed(_joined(found, ("mlp.up_proj", "mlp.gate_proj"), "mlp.up_gate_proj"), GTE)


def _gte_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    found = _cut(own, "attention.qkv_proj", tuple(f"self_attn.{n}_proj" for n in "qkv"))
    found = _cut(found, "mlp.up_gate_proj", ("mlp.up_proj", "mlp.gate_proj"))
    return _renamed(found, {new: old for old, new in GTE.items()})


def _nomic(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": config["rotary_emb_base"]}
    if config["rotary_scaling_factor"] is not None:
        rope |= {"rope_type": "dynamic", "factor": config["rotary_scaling_factor"]}
    return "nomic_bert", {
        "vocab_size": config["vocab_size"], "hidden_size": config["n_embd"], "num_hidden_layers": config["n_layer"],
        "num_attention_heads": config["n_head"], "intermediate_size": config["n_inner"], "rope_parameters": rope,
        "hidden_act": {"swiglu": "silu", "geglu": "gelu"}[config["activation_function"]],
        "layer_norm_eps": config["layer_norm_epsilon"], "max_position_embeddings": config["max_trained_positions"],
        "type_vocab_size": config["type_vocab_size"], "pad_token_id": config["pad_token_id"],
    }  # fmt: skip


def _nomic_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    return _renamed(_joined(shapes, tuple(f"self_attn.{n}_proj" for n in "qkv"), "attn.Wqkv"), NOMIC)


def _nomic_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    found = _cut(own, "attn.Wqkv", tuple(f"self_attn.{n}_proj" for n in "qkv"))
    return _renamed(found, {new: old for old, new in reversed(NOMIC.items())})


def _cut(own: Arrays, joined: str, names: tuple[str, ...]) -> Arrays:
    """One layer as several, of the same height each."""
    found: Arrays = {}
    for name, data in own.items():
        parts = [data] if joined not in name else np.split(data, len(names))
        found |= {name.replace(joined, new): part for new, part in zip(names, parts, strict=False)}
    return found


BAILING = {
    "model.embed_tokens": "model.word_embeddings", "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm", "self_attn.k_norm": "attention.key_layernorm",
    "mlp.gate.e_score_correction_bias": "mlp.gate.expert_bias",
}  # fmt: skip


def _bailing(config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    names = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}
    turns = {"rope_type": "default", "rope_theta": config["rope_theta"], "partial_rotary_factor": 0.5}
    found = {names.get(key, key): value for key, value in config.items()} | {"rope_parameters": turns}
    return "glm4_moe", found


def _bailing_shapes(config: dict[str, Any], shapes: Shapes) -> Shapes:
    found = _joined(stored_shapes("glm4_moe", shapes), tuple(f"self_attn.{n}_proj" for n in "qkv"),
                    "attention.query_key_value")  # fmt: skip
    return _renamed(found, BAILING)


def _bailing_weights(config: dict[str, Any], own: Arrays) -> Arrays:
    size, heads, groups = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
    files: Arrays = {}
    for name, data in _renamed(own, {new: old for old, new in BAILING.items()}).items():
        if "query_key_value" not in name:
            files[name] = data
            continue
        for letter, part in zip("qkv", np.split(data, [heads * size, (heads + groups) * size]), strict=True):
            files[name.replace("attention.query_key_value", f"self_attn.{letter}_proj")] = part
    fused = {name.partition(".experts.")[0] for name in files if ".experts." in name}
    kept = [name for name in files if ".experts." not in name]
    both = [f"{at}.experts.{part}" for at in sorted(fused) for part in ("gate_up_proj", "down_proj")]
    return in_memory("glm4_moe", [*kept, *both], files)


TWINS = {
    "bailing_moe": Twin(_bailing, _bailing_shapes, _bailing_weights),
    "internlm2": Twin(_internlm2_config, _internlm2_shapes, _internlm2_weights),
    "mimo": Twin(lambda config: ("qwen2", config), lambda config, shapes: shapes, lambda config, own: own),
    "minicpm": Twin(_minicpm, lambda config, shapes: shapes, lambda config, own: own),
    "baichuan": Twin(_baichuan_config, _baichuan_shapes, _baichuan_weights),
    "chatglm": Twin(_chatglm, _chatglm_shapes, _chatglm_weights),
    "new": Twin(_gte, _gte_shapes, _gte_weights),
    "nomic_bert": Twin(_nomic, _nomic_shapes, _nomic_weights),
}
