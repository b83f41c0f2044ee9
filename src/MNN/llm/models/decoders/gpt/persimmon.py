"""Persimmon (Adept 2023): queries, keys and values of a head lie together, heads have norms, and half of each is
turned."""

from __future__ import annotations

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, grouped, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Heads, Layers


@family("persimmon")
def persimmon(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    angles = net.angles(config.rotary(heads.size, share=0.5))
    act = str(config.get("hidden_act") or "relu2")
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        x = net.add(x, _attend(config, net, y, f"{at}.self_attn", heads, i, angles))
        y = net.linear(net.layer_norm(x, f"{at}.post_attention_layernorm", epsilon), f"{at}.mlp.dense_h_to_4h")
        x = net.add(x, net.linear(net.activation(act, y), f"{at}.mlp.dense_4h_to_h"))
    return head(config, net, net.layer_norm(net.picked(x), "model.final_layernorm", epsilon))


def _attend(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles) -> Value:
    q, k, v = apart(net, grouped(net, y, f"{at}.query_key_value", heads), heads, None)
    if config.flag("qk_layernorm", True):
        epsilon = config.number("layer_norm_eps", 1e-5)
        q, k = net.layer_norm(q, f"{at}.q_layernorm", epsilon), net.layer_norm(k, f"{at}.k_layernorm", epsilon)
    q, k = (net.rotate(part, angles, heads.size) for part in (q, k))
    return net.linear(net.attention(q, k, v, heads, layer), f"{at}.dense")
