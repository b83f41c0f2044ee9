"""Trinity (``afmoe``, Arcee 2025): norms in front of and behind layers, gates for what attention gives, windows in
layers with positions, and experts that have a score by themselves."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head, norms_of_heads
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import Places, experts, gated
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Heads, Layers

_PLACES = Places("router.gate", "expert_bias", scale="route_scale")


@family("afmoe")
def afmoe(config: Config, net: Layers) -> Graph:
    heads, period = config.heads(), max(int(config.number("global_attn_every_n_layers", 4)), 1)
    windows = config.windows(lambda i: (i + 1) % period > 0)
    angles, first = net.angles(config.rotary(heads.size)), int(config.number("num_dense_layers", 1))
    x = net.embed("model.embed_tokens.weight")
    x = net.multiply(x, config.width**0.5 if config.flag("mup_enabled") else 1.0)
    for i, window in enumerate(windows):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=window)
        y = _attend(config, net, y, f"{at}.self_attn", own, i, angles if window else None)
        x = net.add(x, net.rms_norm(y, f"{at}.post_attention_layernorm", config.epsilon))
        y = net.rms_norm(x, f"{at}.pre_mlp_layernorm", config.epsilon)
        y = gated(config, net, y, mlp) if i < first else experts(config, net, y, mlp, _PLACES)
        x = net.add(x, net.rms_norm(y, f"{at}.post_mlp_layernorm", config.epsilon))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _attend(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles | None) -> Value:
    wide, narrow = heads.count * heads.size, heads.groups * heads.size
    both = net.linear(y, *(f"{at}.{part}_proj" for part in ("q", "k", "v", "gate")))
    qkv, gate = net.split(both, [wide + 2 * narrow, wide])
    q, k, v = apart(net, qkv, heads, angles, gamma=norms_of_heads(net, at, heads), epsilon=config.epsilon)
    out = net.multiply(net.attention(q, k, v, heads, layer), net.op("Sigmoid", gate))
    return net.linear(out, f"{at}.o_proj")
