"""Command R (``cohere``) and Command R7B and A (``cohere2``, arXiv:2504.00698): attention and the feed-forward layer
side by side behind one norm, neighbours are turned, and in the second layers that see all know no positions."""

from __future__ import annotations

from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("cohere", "cohere2")
def cohere(config: Config, net: Layers) -> Graph:
    if config.flag("use_qk_norm"):
        raise UnsupportedError("Cohere's models with norms of queries and keys (use_qk_norm) are not known")
    second = config.family == "cohere2"
    period = max(int(config.number("sliding_window_pattern", 4)), 1)
    windows = config.windows(lambda i: (i + 1) % period != 0) if second else [0] * config.layers
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    angles = net.angles(config.rotary(heads.size, theta=10000.0 if second else 500000.0))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        own, turned = replace(heads, window=windows[i]), None if second and not windows[i] else angles
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, turned, interleaved=True))
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    x = net.layer_norm(net.picked(x), "model.norm", epsilon)
    return head(config, net, x, scale=config.number("logit_scale", 0.0625))
