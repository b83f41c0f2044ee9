"""nanochat (Karpathy 2025): norms without weights, behind the positions of queries and keys too, which turn the other
way round; no gates, and logits that are bent."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("nanochat")
def nanochat(config: Config, net: Layers) -> Graph:
    heads, activation = config.heads(), str(config.get("hidden_act") or "relu2")
    turned = config.rotary(heads.size)
    angles = net.angles(replace(turned, turns=-turned.turns))
    x = _normal(config, net, net.embed("model.embed_tokens.weight"))
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        qkv = net.linear(_normal(config, net, x), f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj")
        q, k, v = apart(net, qkv, heads, angles)
        q, k = _normal(config, net, q), _normal(config, net, k)
        x = net.add(x, net.linear(net.attention(q, k, v, heads, i), f"{at}.o_proj"))
        y = net.activation(activation, net.linear(_normal(config, net, x), f"{mlp}.fc1"))
        x = net.add(x, net.linear(y, f"{mlp}.fc2"))
    cap = config.number("final_logit_softcapping", 0.0)
    return head(config, net, _normal(config, net, net.picked(x)), softcap=cap)


def _normal(config: Config, net: Layers, x: Value) -> Value:
    return net.of_size_one(x, config.epsilon)
