"""Baichuan and Baichuan2 with 7 billion parameters (arXiv:2309.10305)."""

from __future__ import annotations

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_SECOND = 125696
"""Tokens of Baichuan2, whose rows of the last layer count by their direction alone."""


@family("baichuan")
def baichuan(config: Config, net: Layers) -> Graph:
    if config.get("max_position_embeddings") is None:  # those of 13 billion say model_max_length instead
        raise UnsupportedError("Baichuan models of 13 billion parameters (positions by ALiBi) are not known here")
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, ["W_pack"]))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        mlp = f"{at}.mlp"
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    x = net.before_logits(net.rms_norm(net.picked(x), "model.norm", config.epsilon))
    weight = net.weights["lm_head.weight"]
    if config.number("vocab_size", 0) == _SECOND or config.flag("norm_head"):
        rows = net.weight("lm_head.weight")
        weight = rows / np.maximum(np.sqrt((rows * rows).sum(1, keepdims=True)), 1e-7)
    return net.finish(net.product(x, weight))
