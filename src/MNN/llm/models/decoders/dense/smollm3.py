"""SmolLM3: Llama, of which every fourth layer knows no positions (Yang et al. 2025, arXiv:2501.18795)."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("smollm3")
def smollm3(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    period = max(int(config.number("no_rope_layer_interval", 4)), 1)
    told = config.each("no_rope_layers")  # 1 where there are positions
    placed = [(i + 1) % period != 0 for i in range(config.layers)] if told is None else [bool(one) for one in told]
    local = config.flag("use_sliding_window")
    windows = config.windows(lambda i: placed[i]) if local else [0] * config.layers
    angles = net.angles(config.rotary(heads.size, theta=2e6))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles if placed[i] else None))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        mlp = f"{at}.mlp"
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
