"""Weights of Hugging Face's checkpoints as llama.cpp's converter writes them, done again: ``record_converted.py`` notes
what that itself makes of the same weights, which has to be the same."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.llm import cases
from tests.llm.files.blocks import digest
from tests.llm.files.modules import LAYER

HERE = Path(__file__).parent
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
CASES: dict[str, dict[str, Any]] = {
    "apertus": {}, "granitemoe": {}, "granitemoeshared": {}, "granitemoehybrid": {}, "bamba": {}, "jamba": {},
    "nemotron_h": {}, "gemma3n_text": {}, "gemma4_text": {}, "qwen3_5_text": {}, "qwen3_5_moe_text": {},
    "deepseek_v3": {}, "qwen3_next": {"norm_topk_prob": True}, "exaone_moe": {"rope_parameters": PLAIN},
    "falcon_h1": {"rope_parameters": PLAIN, "mamba_norm_before_gate": False}, "phimoe": {"router_jitter_noise": 0.01},
    "gpt_bigcode": {"activation_function": "gelu_pytorch_tanh"}, "falcon": {"rope_parameters": PLAIN},
    "llama4_text": {"no_rope_layers": [1, 1, 1], "rope_parameters": PLAIN}, "bailing_moe": {},
    "minimax": {f"{kind}_{name}_factor": number for kind in ("full_attn", "linear_attn", "mlp")
                for name, number in (("alpha", 1.5), ("beta", 1.0))},
    "mimo_v2_flash": {"routed_scaling_factor": 1.0, "attention_value_scale": 0.75},
    "minicpm3": {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "rope_parameters": PLAIN},
    "afmoe": {"mup_enabled": True, "layer_types": ["sliding_attention"] * 3}, "hy_v3": {}, "cohere2_moe": {},
    "granite_swa": {"layer_rope_theta": [5e5, 0.0, 5e5]}, "granitemoe_swa": {"layer_rope_theta": [5e5, 5e5, 0.0]},
    "dbrx": {"ffn_config": {"ffn_act_fn": {"name": "silu"}, "ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 3,
                            "moe_normalize_expert_weights": 1.0},
             "rope_parameters": PLAIN | {"rope_theta": 100.0}},
    "kimi_linear": {"num_expert_group": 1}, "jais2": {"rope_parameters": PLAIN},
    "deepseek_v32": {}, "glm_moe_dsa": {},
}  # fmt: skip
"""Families whose first recorded model is written (of Falcon the second one), with what files cannot say of it."""
SECOND = ("falcon",)
_TURNED = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
DRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma4_text with experts": ("gemma4_text", {"enable_moe_block": True}),
    "mellum": ("mellum", {"mlp_layer_types": ["sparse"] * 3, "rope_parameters": {
        "full_attention": _TURNED, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}}),
    "bailing_hybrid": ("bailing_hybrid", {
        "kda_safe_gate": True, "layer_types": ["linear_attention", "linear_attention", "full_attention"],
        "layer_group_size": 3, "mlp_layer_types": ["dense", "sparse", "sparse"], "first_k_dense_replace": 1}),
}  # fmt: skip
"""Of these a random model of a family with this in its configuration is recorded beside what the converter made."""
CASES |= {name: {"model_type": family} for name, (family, _) in DRAWN.items()}
_OTHERS = {
    "e_score_correction_bias": "exp_probs_b.bias", "query_key_value": "attn_qkv", "final_layernorm": "output_norm",
    "block_sparse_moe.output_linear": "ffn_down_exps", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj":
    "ffn_up", "feed_forward.down_proj": "ffn_down", "pre_ff_layernorm": "ffn_norm", "ln_mlp": "attn_norm",
    ".experts.gate_up_proj": "ffn_gate_up_exps.weight", ".experts.down_proj": "ffn_down_exps.weight",
    "self_attn.out_proj": "attn_output", "gate.expert_bias": "exp_probs_b.bias", "mlp.expert_bias": "exp_probs_b.bias",
    "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
}  # fmt: skip
"""What this engine's names for an architecture do not have, or not so."""
Tensors = Iterator[tuple[str, np.ndarray]]
_APART = {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down", "w1": "ffn_gate", "w3": "ffn_up",
          "w2": "ffn_down"}  # fmt: skip
_HALVES = {"block_sparse_moe": ("ffn_gate_exps", "ffn_up_exps"), "shared_mlp": ("ffn_gate_shexp", "ffn_up_shexp")}


def case(family: str, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """The recorded model, with what is changed of its configuration."""
    if family in DRAWN:
        found: dict[str, Any] = _recorded()[family]["notes"]
        return found
    seed = int(family in SECOND)
    notes = next(n for n in recorded if n["config"]["model_type"] == family and n["seed"] == seed)
    return {**notes, "config": notes["config"] | CASES[family]}


def written(notes: dict[str, Any], names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The tensors of the file. ``names``: what the ``gguf`` package calls modules, those of the layer ``LAYER``."""
    told, found, stacks = notes["config"], dict[str, np.ndarray](), dict[str, list[np.ndarray]]()
    for name, array in cases.weights(notes["shapes"], notes["seed"]).items():
        expert = re.fullmatch(r".*layers\.(\d+)\..*\.experts\.\d+\.(\w+)\.weight", name)
        stream = re.fullmatch(r"model\.altup_(unemb\w+?|)_?projections\.\d\.weight", name)
        if expert:
            stacks.setdefault(f"blk.{expert[1]}.{_APART[expert[2]]}_exps.weight", []).append(array)
        elif stream:
            stacks.setdefault(f"altup_{'unembd_' if stream[1] else ''}proj.weight", []).append(array)
        elif ".act_fn." not in name:
            for own, data in _parts(told, name, array, names):
                found[own] = np.ascontiguousarray(data, np.float32)
    if told["model_type"] == "gemma4_text":
        size = max(one.get("head_dim", 0) for one in told["per_layer_config"].values())
        share = told["rope_parameters"]["full_attention"]["partial_rotary_factor"]
        turned = np.arange(size // 2) < int(size * share / 2)
        found["rope_freqs.weight"] = np.where(turned, np.float32(1), np.float32(1e30))
    return found | {name: np.stack(parts) for name, parts in stacks.items()}


def _parts(told: dict[str, Any], name: str, array: np.ndarray, names: Mapping[str, str]) -> Tensors:
    """What one tensor of a checkpoint becomes."""
    family = told["model_type"]
    if family == "kimi_linear":  # as the converter knows layers without experts
        name = re.sub(r"block_sparse_moe\.(\w+_proj)", r"mlp.\1", name)
    number = (re.findall(r"(?:layers|h|blocks)\.(\d+)\.", name) or [""])[0]
    block, (module, _, kind) = f"blk.{number}.", name.rpartition(".")
    half = re.fullmatch(r".*\.(block_sparse_moe|shared_mlp)\.input_linear", module)
    if half and not family.endswith("_swa"):
        mixed = told.get("num_local_experts") or half[1] != "shared_mlp"
        for own, part in zip(_HALVES[half[1]], np.split(array, 2, axis=-2), strict=True):
            yield f"{block}{own if mixed else own.removesuffix('_shexp')}.weight", part
    elif half:
        yield f"{block}ffn_up_shexp.weight", array
    elif module.endswith("shared_mlp.output_linear"):
        yield f"{block}ffn_down{'_shexp' if told['num_local_experts'] else ''}.weight", array
    elif ".experts.mlp." in name:
        stack = array.reshape(told["ffn_config"]["moe_num_experts"], -1, array.shape[1])
        own = {"w1": "gate", "v1": "up", "w2": "down"}[kind]
        yield f"{block}ffn_{own}_exps.weight", stack.swapaxes(1, 2) if own == "down" else stack
    elif module.endswith("attention.g_proj"):
        full = told["layer_types"][int(number)] == "full_attention"
        yield f"{block}{'attn_gate' if full else 'ssm_g_a'}.weight", array
    elif family == "llama4_text" and module.endswith(".experts"):
        parts = ("gate", "up") if kind == "gate_up_proj" else ("down",)
        for own, part in zip(parts, np.split(array, len(parts), axis=2), strict=True):
            yield f"{block}ffn_{own}_exps.weight", part.swapaxes(1, 2)
    elif module.endswith("kv_b_proj") and family != "minicpm3":
        heads, still = told["num_attention_heads"], told["qk_nope_head_dim"]
        both = array.reshape(heads, -1, array.shape[1])
        yield f"{block}attn_k_b.weight", both[:, :still].swapaxes(1, 2)
        yield f"{block}attn_v_b.weight", both[:, still:]
    elif module.endswith("in_proj_qkvz"):
        groups, size = told["linear_num_key_heads"], told["linear_key_head_dim"]
        each = told["linear_num_value_heads"] // groups * told["linear_value_head_dim"]
        cut = np.split(array.reshape(groups, -1, array.shape[1]), np.cumsum([size, size, each]), axis=1)
        q, k, v, z = (part.reshape(-1, array.shape[1]) for part in cut)
        yield f"{block}attn_qkv.weight", np.concatenate([q, k, v])
        yield f"{block}attn_gate.weight", z
    elif name.endswith("A_log"):
        yield f"{block}ssm_a", _rates(told, np.exp(array) * (1 if family == "bailing_hybrid" else -1))
    elif re.search(r"(?:mixer|mamba)\.D$", name):
        yield f"{block}ssm_d", _rates(told, array)
    elif name.endswith("dt_bias"):
        yield f"{block}ssm_dt.bias", _turns(told, name, array)
    else:
        yield _called(family, name, names, block, number), _turned(told, module, kind, name, array)


def _called(family: str, name: str, names: Mapping[str, str], block: str, number: str) -> str:
    place = re.sub(r"(layers|h|blocks)\.\d+\.", rf"\1.{LAYER}.", name)
    module, _, kind = place.rpartition(".")
    other = next((own for inside, own in _OTHERS.items() if inside in place), "")
    if other:
        found = (f"blk.{LAYER}." if number else "") + other + ("" if "." in other else f".{kind}")
    elif place in names:  # a parameter
        found = names[place] + ".weight" * place.endswith(("layer_scalar", "output_scale", "sink_bias", "sinks"))
    else:
        found = f"{names[module]}.{kind}"
    if family == "falcon_h1" and "pre_ff_layernorm" in name:
        found = found.removesuffix(".weight")
    if family == "hy_v3":
        found = found.replace("exp_probs_b.bias", "exp_probs_b")
    return found.replace(f"blk.{LAYER}.", block)


def _turned(told: dict[str, Any], module: str, kind: str, name: str, array: np.ndarray) -> np.ndarray:
    """The same numbers in another order, or changed by what files have in them."""
    family = told["model_type"]
    if family.startswith(("granite", "bamba", "nemotron_h")) and (of := re.search(r"\.([qk])_proj$", module)):
        heads = told["num_attention_heads" if of[1] == "q" else "num_key_value_heads"]
        return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
    if module.endswith("_conv1d"):
        return array.reshape(1, len(array), 1, -1)
    if module.endswith("conv1d") and kind == "weight":
        return _turns(told, name, array.reshape(len(array), -1))
    if family.startswith("qwen3_") and name.endswith("norm.weight"):
        return array if "linear_attn" in name else array + 1
    if re.search(r"(?:mixer|mamba)\.norm$", module):
        array = array.reshape(told.get("n_groups") or told["mamba_n_groups"], -1)
    if family == "falcon_h1":
        return _scaled(told, module, array) if kind == "weight" else array
    if module.endswith("query_key_value") and family == "falcon":
        groups = told["num_kv_heads"]
        each = array.reshape(groups, told["num_attention_heads"] // groups + 2, -1, array.shape[1])
        parts = each[:, :-2], each[:, -2], each[:, -1]
        return np.concatenate([part.reshape(-1, array.shape[1]) for part in parts])
    return _turns(told, name, array)


def _rates(told: dict[str, Any], array: np.ndarray) -> np.ndarray:
    if told["model_type"].startswith("qwen3_"):
        return _turns(told, "A_log", array)
    return array[:, None] if array.ndim == 1 and told["model_type"] != "jamba" else array


def _turns(told: dict[str, Any], name: str, array: np.ndarray) -> np.ndarray:
    """Qwen 3.5's heads of values: one for each head of keys, then the next ones."""
    inside = re.search(r"in_proj_(?:qkv|z|a|b)\.|A_log|dt_bias|conv1d|out_proj", name)
    if not told["model_type"].startswith("qwen3_5") or not inside:
        return array
    groups, heads, size = told["linear_num_key_heads"], told["linear_num_value_heads"], told["linear_value_head_dim"]
    before = 2 * groups * told["linear_key_head_dim"] if re.search("qkv|conv1d", name) else 0
    one = 1 if re.search(r"in_proj_(?:a|b)\.|A_log|dt_bias", name) else size
    order = np.arange(heads * one).reshape(groups, heads // groups, one).swapaxes(0, 1).reshape(-1)
    if "out_proj" in name:
        return array[:, order]
    return np.concatenate([array[:before], array[before:][order]])


def _scaled(told: dict[str, Any], module: str, array: np.ndarray) -> np.ndarray:
    """Falcon-H1's factors, in single precision as the converter multiplies."""
    inside, keys = told["mamba_d_ssm"], told["mamba_n_groups"] * told["mamba_d_state"]
    part = module.rpartition(".")[2]
    into, out = told["attention_in_multiplier"], told["attention_out_multiplier"]
    factors = {
        "down_proj": [told["mlp_multipliers"][1]], "gate_proj": [told["mlp_multipliers"][0]], "q_proj": [into],
        "k_proj": [told["key_multiplier"], into], "v_proj": [into], "o_proj": [out],
        "out_proj": [told["ssm_out_multiplier"]], "in_proj": [told["ssm_in_multiplier"]],
        "lm_head": [told["lm_head_multiplier"]], "embed_tokens": [told["embedding_multiplier"]],
    }  # fmt: skip
    for factor in factors.get(part, ()):
        array = array * np.float32(factor)
    if part == "in_proj":
        counts = [inside, inside, keys, keys, len(array) - 2 * (inside + keys)]
        array = array * np.repeat(np.float32(told["ssm_multipliers"]), counts)[:, None]
    return array


def told_of(name: str, array: np.ndarray) -> str:
    """What is recorded of a tensor's numbers: nothing of exponentials, which libraries round differently."""
    return "" if name.endswith("ssm_a") else digest(array)


def recorded() -> dict[str, Any]:
    """By family: ``architecture``, ``metadata`` and ``tensors`` (shapes and digests) of the converter's file."""
    return _recorded()


@functools.cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "recorded_converted.json").read_text(encoding="utf-8"))
    return found
