"""Phi-1, 1.5 and 2 (arXiv:2309.05463): part of each head is turned, and attention and the feed-forward layer stand side
by side behind one norm."""

from __future__ import annotations

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("phi")
def phi(config: Config, net: Layers) -> Graph:
    if config.flag("qk_layernorm"):
        raise UnsupportedError("Phi models with norms of queries and keys (qk_layernorm) are not known")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    angles = net.angles(config.rotary(heads.size, share=0.5))
    act = str(config.get("hidden_act") or "gelu_new")
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, output="dense"))
        x = net.add(x, net.linear(net.activation(act, net.linear(y, f"{at}.mlp.fc1")), f"{at}.mlp.fc2"))
    return head(config, net, net.layer_norm(net.picked(x), "model.final_layernorm", epsilon))
