"""MiMo-V2-Flash (Xiaomi 2026, arXiv:2601.02780): most layers have a window, twice as many heads of keys and values
there, and in each head a score that takes its part of the softmax (a sink); values are narrower than keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head, with_sinks
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import experts, gated
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.rotary import rotary
from MNN.llm.models.weights import as_number

_FULL, _LOCAL = "full_attention", "sliding_attention"
_SCALE = "attention_value_scale"
_ROPE = {_FULL: {"rope_theta": 5e6}, _LOCAL: {"rope_theta": 1e4}}


@translates("mimo_v2_flash")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    """Published configurations tell how many tokens a query sees before itself; a factor of null is none."""
    before = values.get("sliding_window_size")
    more: dict[str, object] = {"sliding_window": before + 1} if isinstance(before, int) else {}
    if values.get(_SCALE, 0) is None:
        more[_SCALE] = 1.0
    told = values.get("rope_parameters")
    nested = isinstance(told, Mapping) and isinstance(told.get(_LOCAL), Mapping)
    return {"sliding_window": 129, "v_head_dim": 128, **values, **more, "rope_parameters": told if nested else _ROPE}


@family("mimo_v2_flash")
def mimo_v2_flash(config: Config, net: Layers) -> Graph:
    heads, value = config.heads(), config.count("v_head_dim")
    windows = config.windows(lambda i: i > 0 and (i + 1) % 6 > 0)
    told = config.each("mlp_layer_types")
    mixed = [i > 0 for i in range(config.layers)] if told is None else [kind == "sparse" for kind in told]
    angles = {kind: net.angles(rotary(config.values, _turned(config, kind, heads.size), kind)) for kind in _ROPE}
    x = net.embed("model.embed_tokens.weight")
    for i, window in enumerate(windows):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        own, kind = heads, _FULL
        if window:
            own, kind = _local(net, heads, window, f"{at}.self_attn"), _LOCAL
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, _attend(config, net, y, f"{at}.self_attn", own, i, angles[kind], value))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, experts(config, net, y, mlp) if mixed[i] else gated(config, net, y, mlp))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _turned(config: Config, kind: str, size: int) -> int:
    """How many numbers of a head are turned in layers of a kind."""
    told = config.get("rope_parameters")
    own = told.get(kind) if isinstance(told, Mapping) else None
    share = own.get("partial_rotary_factor") if isinstance(own, Mapping) else None
    usual = config.number("partial_rotary_factor", 0.334)
    return int(size * as_number(share, "partial_rotary_factor", usual))


def _local(net: Layers, heads: Heads, window: int, at: str) -> Heads:
    """Heads of a layer with a window. Raises :class:`FormatError` where twice the heads of keys do not fit those of
    queries."""
    groups = 2 * heads.groups
    if heads.count % groups:
        raise FormatError(f"'{at}' has {groups} heads of keys for {heads.count} of queries")
    return with_sinks(net, replace(heads, window=window, groups=groups), f"{at}.attention_sink_bias")


def _attend(
    config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles, value: int
) -> Value:
    sizes = [heads.count * heads.size, heads.groups * heads.size, heads.groups * value]
    q, k, v = net.split(net.linear(y, f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj"), sizes)
    q, k = (net.rotate(net.reshape(t, 0, 0, -1, heads.size), angles, heads.size) for t in (q, k))
    v = net.multiply(net.reshape(v, 0, 0, heads.groups, value), config.number(_SCALE, 0.707))
    return net.linear(net.attention(q, k, v, heads, layer, value), f"{at}.o_proj")
