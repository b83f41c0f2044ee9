"""DBRX (Databricks 2024): one layer for queries, keys and values, which are limited, layer norms without shifts, and
experts whose weights have a norm of 1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, choose, taken, usual, weighted
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Array

_NAMES = {
    "d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
    "max_seq_len": "max_position_embeddings",
}  # fmt: skip
_INNER = {
    "attn_config": {"kv_n_heads": "num_key_value_heads", "clip_qkv": "clip_qkv", "rope_theta": "rope_theta"},
    "ffn_config": {"moe_num_experts": "num_experts", "moe_top_k": "num_experts_per_tok", "ffn_act_fn": "ffn_act_fn",
                   "moe_normalize_expert_weights": "moe_normalize_expert_weights"},
}  # fmt: skip
_EPSILON = 1e-5
"""Of layer norms, which no configuration tells."""


@translates("dbrx")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {**values, **{new: values[old] for old, new in _NAMES.items() if old in values}}
    usual = {"moe_normalize_expert_weights": 1.0, "num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 1}
    found = {**usual, **found}
    for room, names in _INNER.items():
        inner = values.get(room)
        if isinstance(inner, Mapping):
            found |= {new: inner[old] for old, new in names.items() if old in inner}
    named = found.get("ffn_act_fn")
    return found | {"hidden_act": named.get("name", "silu") if isinstance(named, Mapping) else "silu"}


@family("dbrx")
def dbrx(config: Config, net: Layers) -> Graph:
    heads, limit, norm = config.heads(), config.number("clip_qkv", 0.0), config.get("moe_normalize_expert_weights")
    if norm not in (None, 1):
        raise UnsupportedError(f"DBRX models whose experts are weighed by a norm of the order {norm!r} are not known")
    routing = Routing.of(config, normal=norm == 1)
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("transformer.wte.weight")
    for i in range(config.layers):
        at = f"transformer.blocks.{i}.norm_attn_norm"
        qkv = net.linear(net.layer_norm(x, f"{at}.norm_1", _EPSILON), f"{at}.attn.Wqkv")
        qkv = net.op("ReLU6", qkv, minValue=-limit, maxValue=limit) if limit else qkv
        y = net.attention(*apart(net, qkv, heads, angles), heads, i)
        x = net.add(x, net.linear(y, f"{at}.attn.out_proj"))
        y = net.layer_norm(x, f"{at}.norm_2", _EPSILON)
        x = net.add(x, _experts(config, net, y, f"transformer.blocks.{i}.ffn", routing))
    return head(config, net, net.layer_norm(net.picked(x), "transformer.norm_f", _EPSILON), "transformer.wte")


def _experts(config: Config, net: Layers, y: Value, at: str, routing: Routing) -> Value:
    """Checkpoints have the matrices of all experts one above the other, the last ones ``[in, out]``."""
    weights, index = choose(net, y, f"{at}.router.layer", routing)
    room, count = f"{at}.experts", routing.count
    if f"{room}.0.down_proj.weight" in net.weights:  # GGUF
        names = usual(room)
        joint = [net.weights[name.format(i)] for i in range(count) for name in (names.gate, names.up)]
        down: list[Array] = [net.weights[names.down.format(i)] for i in range(count)]
    else:
        parts = [_apart(net, f"{room}.mlp.{part}", count) for part in ("w1", "v1", "w2")]
        joint = [one for both in zip(*parts[:2], strict=True) for one in both]
        down = [np.ascontiguousarray(one.T) for one in parts[2]]
    rows = net.op("Unsqueeze", y, squeezeDims=[2])
    return weighted(net, taken(net, rows, index, count, joint, down, config.activation), weights)


def _apart(net: Layers, name: str, count: int) -> list[np.ndarray]:
    whole = net.weight(name)
    if whole.ndim != 2 or len(whole) % count:
        raise FormatError(f"'{name}' has the shape {list(whole.shape)}; expected are the matrices of {count} experts")
    return np.split(whole, count)
