"""Kimi Linear (arXiv:2510.26692) and Ling 3.0 (``bailing_hybrid``, inclusionAI 2026): layers of the delta rule, in
which every number of a key fades by itself, beside a few of attention with latents; experts behind the first layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.hybrid.granite import recurrent_layers
from MNN.llm.models.decoders.mixtures.bailing import LING
from MNN.llm.models.decoders.mixtures.deepseek import latent, latent_heads
from MNN.llm.models.decoders.mixtures.glm4_moe import Places, experts, gated
from MNN.llm.models.delta import delta_rule, gated_norm
from MNN.llm.models.experts import NUMBERED
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import softplus
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX, convolved
from MNN.llm.models.weights import as_list, as_number

_NAMES = {
    "model_max_length": "max_position_embeddings", "moe_renormalize": "norm_topk_prob", "num_expert_group": "n_group",
    "num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts",
}  # fmt: skip
_KIMI = Places(parts=NUMBERED)
_LINEAR, _FULL = "linear_attention", "full_attention"


def _renamed(values: Mapping[str, object]) -> dict[str, object]:
    return {**{new: values[old] for old, new in _NAMES.items() if old in values}, **values}


@translates("kimi_linear")
def _kimi(values: Mapping[str, object]) -> Mapping[str, object]:
    """Checkpoints have what layers of the delta rule are in a room of its own, and count layers from one."""
    found, inner = _renamed(values), values.get("linear_attn_config")
    told = inner if isinstance(inner, Mapping) else {}
    names = {"head_dim": "linear_head_dim", "num_heads": "linear_num_heads"}
    found |= {new: told[old] for old, new in names.items() if old in told}
    found.setdefault("linear_head_dim", 128)
    found.setdefault("linear_num_heads", 32)
    layers, full = values.get("num_hidden_layers"), as_list(told.get("full_attn_layers"), "full_attn_layers")
    if found.get("layer_types") is None and isinstance(layers, int):
        among = list(range(4, layers, 4)) if full is None else [i - 1 for i in full if isinstance(i, int)]
        found["layer_types"] = [_FULL if i in among else _LINEAR for i in range(layers)]
    return {"first_k_dense_replace": 1, **found}


@translates("bailing_hybrid")
def _bailing(values: Mapping[str, object]) -> Mapping[str, object]:
    """``partial_rotary_factor`` is the share of a whole head that ``qk_rope_head_dim`` is, not one of that."""
    found, layers = {"rope_theta": 6e6, "first_k_dense_replace": 2, **_renamed(values)}, values.get("num_hidden_layers")
    found |= {"partial_rotary_factor": 1.0}
    period = int(max(as_number(values.get("layer_group_size"), "layer_group_size", 6.0), 1))
    if found.get("layer_types") is None and isinstance(layers, int):
        found["layer_types"] = [_LINEAR if (i + 1) % period else _FULL for i in range(layers)]
    found.setdefault("linear_head_dim", values.get("head_dim", 128))
    return found | {"linear_num_heads": values.get("num_attention_heads"), "rope_interleave": True}


@keeps("kimi_linear", "bailing_hybrid")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in recurrent_layers(config)]


@family("kimi_linear", "bailing_hybrid")
def kimi(config: Config, net: Layers) -> Graph:
    ling = config.family == "bailing_hybrid"
    score = config.get("moe_router_activation_func") or config.get("score_function") or "sigmoid"
    if score != "sigmoid":
        raise UnsupportedError(f"experts of {config.family} that are scored by {score!r} are not known")
    heads = latent_heads(config)
    angles = net.angles(config.rotary(config.count("qk_rope_head_dim"))) if ling else None
    table, room = ("model.word_embeddings", "attention") if ling else ("model.embed_tokens", "self_attn")
    told, first = config.each("mlp_layer_types"), int(config.number("first_k_dense_replace", 0))
    x = net.embed(f"{table}.weight")
    for i, own in enumerate(recurrent_layers(config)):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        if own:
            y = _delta(config, net, y, f"{at}.{room}", i, ling)
        elif ling:
            gate = net.op("Sigmoid", net.linear(y, f"{at}.{room}.g_proj"))
            y = latent(config, net, y, f"{at}.{room}", heads, i, angles, gate, "dense")
        else:
            y = latent(config, net, y, f"{at}.{room}", heads, i, None)
        x = net.add(x, y)
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if i < first if told is None else told[i] == "dense":
            plain = ling or f"{at}.mlp.gate_proj.weight" in net.weights
            y = gated(config, net, y, f"{at}.mlp" if plain else f"{at}.block_sparse_moe")
        elif ling:
            y = experts(config, net, y, f"{at}.mlp", LING)
        else:
            y = experts(config, net, y, f"{at}.block_sparse_moe", _KIMI)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon), table)


def _delta(config: Config, net: Layers, y: Value, at: str, layer: int, ling: bool) -> Value:
    count, size = config.count("linear_num_heads"), config.count("linear_head_dim")
    mixed = net.linear(y, *(f"{at}.{part}_proj" for part in "qkv"))
    mixed = convolved(net, mixed, f"{at}.conv1d", layer, [f"{at}.{part}_conv1d" for part in "qkv"])
    mixed = net.activation(config.activation, mixed)
    forget = net.linear(y, f"{at}.f_proj") if ling else net.linear(net.linear(y, f"{at}.f_a_proj"), f"{at}.f_b_proj")
    rates, shift = np.exp(net.weight(f"{at}.A_log").reshape(-1, 1)), net.weight(f"{at}.dt_bias").reshape(-1)
    if rates.shape != (count, 1) or shift.shape != (count * size,):
        raise FormatError(f"'{at}.A_log' and '{at}.dt_bias' do not fit {count} heads of {size}")
    forget = net.reshape(net.add(forget, net.const(shift)), 0, 0, count, size)
    if ling and config.flag("kda_safe_gate", True):
        fading = net.multiply(net.op("Sigmoid", net.multiply(forget, net.const(rates))), _lower(config))
    else:
        fading = net.multiply(softplus(net, forget), net.const(-rates))
    share = net.op("Sigmoid", net.linear(y, f"{at}.b_proj"))
    out = delta_rule(net, mixed, net.unary("EXP", fading), share, layer, count, (count, size, size))
    gate = net.linear(y, f"{at}.g_proj") if ling else net.linear(net.linear(y, f"{at}.g_a_proj"), f"{at}.g_b_proj")
    out = gated_norm(net, out, gate, f"{at}.o_norm", config.epsilon, "sigmoid")
    return net.linear(out, f"{at}.dense" if ling and f"{at}.dense.weight" in net.weights else f"{at}.o_proj")


def _lower(config: Config) -> float:
    """The logarithm of the least that is left of a number."""
    return config.number("kda_lower_bound", -5.0)
