"""Baichuan and Baichuan2 (arXiv:2309.10305): Llama with one layer for queries, keys and values; those of 13 billion
parameters know positions by ALiBi."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, slopes
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_SECOND = 125696
"""Tokens of Baichuan2, whose rows of the last layer count by their direction alone."""


@family("baichuan")
def baichuan(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = None
    if config.get("max_position_embeddings") is None:  # those of 13 billion say model_max_length instead
        heads = replace(heads, slopes=slopes(heads.count))
    else:
        angles = net.angles(config.rotary(heads.size))
    packed = "model.layers.0.self_attn.W_pack.weight" in net.weights  # not in GGUF files
    names = ["W_pack"] if packed else ["q_proj", "k_proj", "v_proj"]
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, names))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        mlp = f"{at}.mlp"
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    x = net.before_logits(net.rms_norm(net.picked(x), "model.norm", config.epsilon))
    weight = net.weights["lm_head.weight"]
    if config.number("vocab_size", 0) == _SECOND or config.flag("norm_head"):
        rows = net.weight("lm_head.weight")
        weight = rows / np.maximum(np.sqrt((rows * rows).sum(1, keepdims=True)), 1e-7)
    return net.finish(net.product(x, weight))
