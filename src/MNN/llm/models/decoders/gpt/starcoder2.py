"""StarCoder2 (arXiv:2402.19173): layer normalisation, biases everywhere and a plain feed-forward layer."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("starcoder2")
def starcoder2(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window)
    angles = net.angles(config.rotary(heads.size))
    epsilon = config.number("norm_epsilon", 1e-5)
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles))
        y = net.linear(net.layer_norm(x, f"{at}.post_attention_layernorm", epsilon), f"{at}.mlp.c_fc")
        x = net.add(x, net.linear(net.activation(config.activation, y), f"{at}.mlp.c_proj"))
    return head(config, net, net.layer_norm(net.picked(x), "model.norm", epsilon))
