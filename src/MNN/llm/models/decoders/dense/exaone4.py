"""EXAONE 4 (arXiv:2507.11407): norms behind the layers, heads of queries and keys normalised, and positions in layers
with a window alone, where there are such."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("exaone4")
def exaone4(config: Config, net: Layers) -> Graph:
    heads, pattern = config.heads(), config.get("sliding_window_pattern")
    period = len(pattern) if isinstance(pattern, str) else int(config.number("sliding_window_pattern", 4))
    windows = config.windows(lambda i: bool(period) and (i + 1) % period != 0 and i + 1 < config.layers)
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i, window in enumerate(windows):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        own = None if config.window and not window else angles
        norms = (config.epsilon, 0.0)
        y = attend(net, x, f"{at}.self_attn", replace(heads, window=window), i, own, norms=norms)
        x = net.add(x, net.rms_norm(y, f"{at}.post_attention_layernorm", config.epsilon))
        y = net.gated(x, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        x = net.add(x, net.rms_norm(y, f"{at}.post_feedforward_layernorm", config.epsilon))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
