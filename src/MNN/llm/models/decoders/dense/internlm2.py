"""InternLM2 and 2.5 (arXiv:2403.17297): Llama whose queries, keys and values lie group by group in one layer."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.weights import ordered


@family("internlm2")
def internlm2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.tok_embeddings.weight")
    for i in range(config.layers):
        at, ffn = f"model.layers.{i}", f"model.layers.{i}.feed_forward"
        y = net.rms_norm(x, f"{at}.attention_norm", config.epsilon)
        y = net.attention(*apart(net, _qkv(net, y, f"{at}.attention.wqkv", heads), heads, angles), heads, i)
        x = net.add(x, net.linear(y, f"{at}.attention.wo"))
        y = net.rms_norm(x, f"{at}.ffn_norm", config.epsilon)
        x = net.add(x, net.gated(y, f"{ffn}.w1", f"{ffn}.w3", f"{ffn}.w2", config.activation))
    x = net.rms_norm(net.picked(x), "model.norm", config.epsilon)
    return head(config, net, x, "model.tok_embeddings", "output")


def _qkv(net: Layers, y: Value, name: str, heads: Heads) -> Value:
    """All queries, then all keys, then all values."""
    each = heads.count // heads.groups
    order = np.arange((heads.count + 2 * heads.groups) * heads.size).reshape(heads.groups, each + 2, heads.size)
    if net.height(f"{name}.weight") != order.size:
        raise FormatError(f"'{name}.weight' has {net.height(f'{name}.weight')} rows; expected are {order.size}")
    rows = np.concatenate([order[:, :each].reshape(-1), order[:, each].reshape(-1), order[:, each + 1].reshape(-1)])
    bias = net.weight(f"{name}.bias")[rows] if f"{name}.bias" in net.weights else None
    return net.product(y, ordered(net.weights[f"{name}.weight"], rows), bias)
