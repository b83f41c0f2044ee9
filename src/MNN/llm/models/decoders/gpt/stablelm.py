"""StableLM 2 (arXiv:2402.17834) and StableLM 3B: Llama with layer norms, of whose heads part is turned; in the model of
12 billion parameters each head has a norm of its own, and the feed-forward layer stands beside attention."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Heads, Layers


@family("stablelm")
def stablelm(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    angles = net.angles(config.rotary(heads.size, share=0.25))
    beside = config.flag("use_parallel_residual")
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        after = net.add(x, _attend(config, net, y, f"{at}.self_attn", heads, i, angles))
        if not beside:
            y = net.layer_norm(after, f"{at}.post_attention_layernorm", epsilon)
        x = net.add(after, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, net.layer_norm(net.picked(x), "model.norm", epsilon))


def _attend(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles) -> Value:
    qkv = net.linear(y, *(f"{at}.{part}_proj" for part in "qkv"))
    if config.flag("qk_layernorm"):
        wide = (heads.count + heads.groups) * heads.size
        qk, v = net.split(qkv, [wide, heads.groups * heads.size])
        each = net.centred(net.reshape(qk, 0, 0, -1, heads.size), config.number("layer_norm_eps", 1e-5))
        each = net.multiply(each, net.const(_norms(net, at, heads)))
        qkv = net.concat([net.reshape(each, 0, 0, wide), v])
    return net.linear(net.attention(*apart(net, qkv, heads, angles), heads, layer), f"{at}.o_proj")


def _norms(net: Layers, at: str, heads: Heads) -> np.ndarray:
    """The weights of all heads' norms, ``[count + groups, size]``."""
    found = []
    for name, count in (("q_layernorm", heads.count), ("k_layernorm", heads.groups)):
        if f"{at}.{name}.weight" in net.weights:  # GGUF has them in one
            found.append(net.weight(f"{at}.{name}.weight").reshape(-1))
        else:
            found += [net.weight(f"{at}.{name}.norms.{i}.weight") for i in range(count)]
    whole = np.concatenate(found)
    if whole.size != (heads.count + heads.groups) * heads.size:
        raise FormatError(f"{at}: norms of queries and keys are no vectors of {heads.size} numbers for each head")
    return whole.reshape(-1, heads.size)
