"""Phi-3 and Phi-4 (arXiv:2404.14219, 2412.08905): one layer for queries, keys and values, one for gate and up."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("phi3")
def phi3(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window)
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, ["qkv_proj"]))
        y = net.linear(net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon), f"{at}.mlp.gate_up_proj")
        y = net.gate(y, net.height(f"{at}.mlp.gate_up_proj.weight") // 2, config.activation)
        x = net.add(x, net.linear(y, f"{at}.mlp.down_proj"))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
