"""OLMo 2 (arXiv:2501.00656): norms behind the layers, and over all heads of queries and of keys."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.families import Config, family, head
from MNN.llm.models.layers import Layers


@family("olmo2")
def olmo2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size))
    wide, narrow = heads.count * heads.size, heads.groups * heads.size
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        q, k, v = net.split(net.linear(x, f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj"), [wide, narrow, narrow])
        q, k = net.rms_norm(q, f"{at}.q_norm", config.epsilon), net.rms_norm(k, f"{at}.k_norm", config.epsilon)
        q, k, v = (
            net.reshape(t, 0, 0, n, heads.size) for t, n in ((q, heads.count), (k, heads.groups), (v, heads.groups))
        )
        q, k = (net.rotate(t, angles, heads.size) for t in (q, k))
        y = net.linear(net.attention(q, k, v, heads, i), f"{at}.o_proj")
        x = net.add(x, net.rms_norm(y, f"model.layers.{i}.post_attention_layernorm", config.epsilon))
        y = net.gated(x, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        x = net.add(x, net.rms_norm(y, f"model.layers.{i}.post_feedforward_layernorm", config.epsilon))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
