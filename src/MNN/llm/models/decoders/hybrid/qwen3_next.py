"""Qwen3-Next and Qwen3.5 (Qwen 2025, 2026): layers of the gated delta rule (Yang et al. 2024, arXiv:2412.06464), every
fourth of attention whose results have a gate; the first with experts, the second with them or without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head, norms_of_heads
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.hybrid.granite import recurrent_layers
from MNN.llm.models.decoders.mixtures.qwen_moe import feed_forward
from MNN.llm.models.delta import delta_rule, gated_norm
from MNN.llm.models.experts import Routing
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.mamba import softplus
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX, convolved


def _recurrent(config: Config) -> list[bool]:
    """Which layers are no attention."""
    if config.get("layer_types") is not None:
        return recurrent_layers(config)
    every = max(int(config.number("full_attention_interval", 4)), 1)
    return [(i + 1) % every > 0 for i in range(config.layers)]


@keeps("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in _recurrent(config)]


@family("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
def qwen3_next(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(), config.epsilon
    mixed = config.family == "qwen3_next" or "moe" in config.family
    routing = Routing.of(config, config.flag("norm_topk_prob", True)) if mixed else None
    angles = net.angles(config.rotary(heads.size, share=0.25))
    x = net.embed("model.embed_tokens.weight")
    for i, own in enumerate(_recurrent(config)):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", epsilon, plus=1.0)
        if own:
            y = _delta(config, net, y, f"{at}.linear_attn", i)
        else:
            y = _attend(config, net, y, f"{at}.self_attn", heads, i, angles)
        x = net.add(x, y)
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", epsilon, plus=1.0)
        mlp = f"{at}.mlp"
        if routing is not None:
            y = feed_forward(config, net, y, mlp, i, routing)
        else:
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", epsilon, plus=1.0))


def _attend(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles) -> Value:
    """Attention whose results have a gate for each number, which comes from the queries' layer: in its rows, a head's
    queries lie in front of its gates."""
    wide = heads.count * heads.size
    rows = np.arange(2 * wide).reshape(heads.count, 2, heads.size).swapaxes(0, 1).reshape(-1)
    q, gate = net.split(_reordered(net, y, f"{at}.q_proj", rows), [wide, wide])
    qkv = net.concat([q, net.linear(y, f"{at}.k_proj", f"{at}.v_proj")])
    q, k, v = apart(net, qkv, heads, angles, gamma=norms_of_heads(net, at, heads, 1.0), epsilon=config.epsilon)
    out = net.multiply(net.attention(q, k, v, heads, layer), net.op("Sigmoid", gate))
    return net.linear(out, f"{at}.o_proj")


def _delta(config: Config, net: Layers, y: Value, at: str, layer: int) -> Value:
    """A short convolution, then the gated delta rule; what it gives is normalised and has a gate."""
    groups, heads = config.count("linear_num_key_heads"), config.count("linear_num_value_heads")
    size, value_size = config.count("linear_key_head_dim"), config.count("linear_value_head_dim")
    if heads % groups:
        raise FormatError(f"{heads} heads of values cannot share {groups} heads of keys")
    each, keys, values = heads // groups, groups * size, heads * value_size
    sizes = [size, size, each * value_size, each * value_size]
    if f"{at}.in_proj_qkvz.weight" in net.weights:
        both = _reordered(net, y, f"{at}.in_proj_qkvz", _side_by_side(groups, sizes))
    else:
        both = net.linear(y, f"{at}.in_proj_qkv", f"{at}.in_proj_z")
    if f"{at}.in_proj_ba.weight" in net.weights:
        shares = _reordered(net, y, f"{at}.in_proj_ba", _side_by_side(groups, [each, each]))
    else:
        shares = net.linear(y, f"{at}.in_proj_b", f"{at}.in_proj_a")
    mixed, gate = net.split(both, [2 * keys + values, values])
    share, rate = net.split(shares, [heads, heads])
    mixed = net.activation(config.activation, convolved(net, mixed, f"{at}.conv1d", layer))
    rate = softplus(net, net.add(rate, net.vector(f"{at}.dt_bias")))
    decay = net.unary("EXP", net.multiply(rate, net.const(-np.exp(net.weight(f"{at}.A_log")))))
    in_turns = config.flag("linear_heads_in_turns")  # GGUF: one head of values of each head of keys, then the next ones
    form = (heads, size, value_size)
    out = delta_rule(net, mixed, decay, net.op("Sigmoid", share), layer, groups, form, in_turns)
    return net.linear(gated_norm(net, out, gate, f"{at}.norm", config.epsilon, "silu"), f"{at}.out_proj")


def _side_by_side(groups: int, sizes: Sequence[int]) -> np.ndarray:
    """Of rows that lie group by group, with so many of each kind, in which order those of a kind follow each other."""
    whole = np.arange(groups * sum(sizes)).reshape(groups, -1)
    return np.concatenate([part.reshape(-1) for part in np.split(whole, np.cumsum(sizes)[:-1], 1)])


def _reordered(net: Layers, y: Value, name: str, rows: np.ndarray) -> Value:
    """A linear layer whose results come in another order."""
    if net.height(f"{name}.weight") != len(rows):
        raise FormatError(f"'{name}.weight' has {net.height(f'{name}.weight')} rows; expected are {len(rows)}")
    return net.linear(y, name, order=rows)
