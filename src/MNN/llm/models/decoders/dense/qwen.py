"""Qwen2 and 2.5 (arXiv:2407.10671), with biases on queries, keys and values, which MiMo-7B is without the layers that
guess further tokens (arXiv:2505.07608), and dense Qwen3 (arXiv:2505.09388), whose
queries and keys are normalised instead."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("qwen2", "qwen3", "mimo")
def qwen(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    first = int(config.number("max_window_layers", 0))
    windows = config.windows(lambda i: config.flag("use_sliding_window") and i >= first)
    angles = net.angles(config.rotary(heads.size))
    norms = (config.epsilon, 0.0) if config.family == "qwen3" else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        mlp = f"{at}.mlp"
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
