"""OLMo 2 and 3 (arXiv:2501.00656, 2512.13961): norms behind the layers, and over all heads of queries and of keys; the
third with windows, where positions do not reach beyond the trained length by scaling; FlexOlmo (arXiv:2507.07024)
with experts. OLMoE (arXiv:2409.02060): experts, and norms in front of the layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, mixture, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.rotary import Rotary, rotary
from MNN.llm.models.weights import as_number


@family("olmo2", "olmo3", "flex_olmo")
def olmo2(config: Config, net: Layers) -> Graph:
    heads, third = config.heads(), config.family == "olmo3"
    windows = config.windows(lambda i: (i + 1) % 4 != 0) if third else [0] * config.layers
    mixed = config.family == "flex_olmo"
    routing = Routing.of(config, config.flag("norm_topk_prob")) if mixed else None
    everywhere = net.angles(config.rotary(heads.size, "full_attention", 5e5 if third or mixed else 1e4))
    local = net.angles(_local(config, heads.size)) if third else everywhere
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        own, angles = replace(heads, window=windows[i]), local if windows[i] else everywhere
        y = attend_normal(config, net, x, f"{at}.self_attn", own, i, angles)
        x = net.add(x, net.rms_norm(y, f"{at}.post_attention_layernorm", config.epsilon))
        if routing is None:
            y = net.gated(x, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        else:
            y = mixture(net, x, f"{mlp}.gate", routing, usual(f"{mlp}.experts"), config.activation)
        x = net.add(x, net.rms_norm(y, f"{at}.post_feedforward_layernorm", config.epsilon))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _local(config: Config, size: int) -> Rotary:
    """Positions in layers with a window."""
    nested = config.get("rope_parameters")
    if isinstance(nested, Mapping) and isinstance(nested.get("sliding_attention"), Mapping):
        return config.rotary(size, "sliding_attention", 5e5)
    told = nested if isinstance(nested, Mapping) else config.values
    return rotary({"rope_theta": as_number(told.get("rope_theta"), "rope_theta", 5e5)}, size)


@family("olmoe")
def olmoe(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    routing = Routing.of(config, config.flag("norm_topk_prob"))
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend_normal(config, net, y, f"{at}.self_attn", heads, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        names = usual(f"{at}.mlp.experts")
        x = net.add(x, mixture(net, y, f"{at}.mlp.gate", routing, names, config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def attend_normal(
    config: Config, net: Layers, x: Value, at: str, heads: Heads, layer: int, angles: Angles | None
) -> Value:  # fmt: skip
    """Attention with norms over all heads of queries, and over all of keys; nothing is turned without ``angles``."""
    wide, narrow = heads.count * heads.size, heads.groups * heads.size
    q, k, v = net.split(net.linear(x, f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj"), [wide, narrow, narrow])
    q, k = net.rms_norm(q, f"{at}.q_norm", config.epsilon), net.rms_norm(k, f"{at}.k_norm", config.epsilon)
    if limit := config.number("clip_qkv", 0.0):
        q, k, v = (net.op("ReLU6", t, minValue=-limit, maxValue=limit) for t in (q, k, v))
    q, k, v = (net.reshape(t, 0, 0, n, heads.size) for t, n in ((q, heads.count), (k, heads.groups), (v, heads.groups)))
    if angles is not None:
        q, k = (net.rotate(t, angles, heads.size) for t in (q, k))
    return net.linear(net.attention(q, k, v, heads, layer), f"{at}.o_proj")
