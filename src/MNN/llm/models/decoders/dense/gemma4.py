"""Gemma 4 (Google 2026): heads of another size in layers that see all, keys and values that the last layers share, for
every layer numbers of its own that tokens bring along, and in some models experts beside the gated layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Experts, Routing, choose, mixed
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.rotary import rotary
from MNN.llm.models.weights import as_number

FULL, LOCAL = "full_attention", "sliding_attention"
_ROPE = {FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}, LOCAL: {}}
"""Where a configuration says nothing of positions."""


@family("gemma4", "gemma4_text")
def gemma4(config: Config, net: Layers) -> Graph:
    if config.get("use_bidirectional_attention") == "all":
        raise UnsupportedError("Gemma 4 models whose tokens see what is behind them, too, are not known")
    kinds, forms, act = layer_kinds(config, 6), dict[int, Heads](), config.activation
    values = config.values if config.get("rope_parameters") else {**config.values, "rope_parameters": _ROPE}
    for i, kind in enumerate(kinds):
        forms[i] = _heads(config, i, kind)
    sizes = {kind: forms[i].size for i, kind in enumerate(kinds)}
    angles = {kind: net.angles(rotary(values, size, kind)) for kind, size in sizes.items()}
    x, beside = with_parts(config, net)
    kept: dict[str, tuple[Value, Value]] = {}
    first = config.layers - int(config.number("num_kv_shared_layers", 0))

    def norm(x: Value, name: str) -> Value:
        return net.rms_norm(x, name, config.epsilon)

    for i, kind in enumerate(kinds):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = norm(x, f"{at}.input_layernorm")
        y = attend(config, net, y, f"{at}.self_attn", forms[i], i, angles[kind], kept, kind, i >= first)
        x = net.add(x, norm(y, f"{at}.post_attention_layernorm"))
        y = norm(x, f"{at}.pre_feedforward_layernorm")
        y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", act)
        if config.flag("enable_moe_block"):
            routed = norm(_experts(config, net, x, at), f"{at}.post_feedforward_layernorm_2")
            y = net.add(norm(y, f"{at}.post_feedforward_layernorm_1"), routed)
        x = net.add(x, norm(y, f"{at}.post_feedforward_layernorm"))
        if beside:
            y = net.multiply(net.activation(act, net.linear(x, f"{at}.per_layer_input_gate")), beside[i])
            x = net.add(x, norm(net.linear(y, f"{at}.per_layer_projection"), f"{at}.post_per_layer_input_norm"))
        x = net.multiply(x, float(net.weight(f"{at}.layer_scalar").reshape(-1)[0]))
    return head(config, net, norm(net.picked(x), "model.norm"), softcap=config.number("final_logit_softcapping", 0.0))


def layer_kinds(config: Config, period: int) -> list[str]:
    """Of every layer, whether it sees all. Raises :class:`FormatError` for other kinds."""
    told = config.get("layer_types")
    if told is None:
        return [FULL if (i + 1) % period == 0 else LOCAL for i in range(config.layers)]
    if not isinstance(told, Sequence) or len(told) < config.layers or any(kind not in (FULL, LOCAL) for kind in told):
        raise FormatError(f"layer_types is {told!r:.80}; expected are {config.layers} times {FULL} or {LOCAL}")
    return list(told[: config.layers])


def with_parts(config: Config, net: Layers) -> tuple[Value, list[Value]]:
    """What tokens are, and for each layer the numbers that they bring along: of a table of their own, and made of what
    tokens are; nothing where a model has none."""
    size = int(config.number("hidden_size_per_layer_input", 0))
    if not size:
        return net.multiply(net.embed("model.embed_tokens.weight"), sqrt(config.width)), []
    wide = config.layers * size
    given = net.weights.shape("model.embed_tokens_per_layer.weight")[-1]
    if given != wide:
        raise FormatError(
            f"'model.embed_tokens_per_layer.weight' has {given} columns; {config.layers} layers take {wide}"
        )
    both = net.embed("model.embed_tokens.weight", "model.embed_tokens_per_layer.weight")
    x, own = net.split(both, [config.width, wide])
    x, own = net.multiply(x, sqrt(config.width)), net.multiply(own, sqrt(size))
    made = net.multiply(net.linear(x, "model.per_layer_model_projection"), config.width**-0.5)
    made = net.rms_norm(net.reshape(made, 0, 0, config.layers, size), "model.per_layer_projection_norm", config.epsilon)
    both = net.multiply(net.add(net.reshape(made, 0, 0, wide), own), sqrt(0.5))
    return x, net.split(both, [size] * config.layers)


def attend(
    config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles,
    kept: dict[str, tuple[Value, Value]], kind: str, shares: bool,
) -> Value:  # fmt: skip
    """Attention whose queries, keys and values are normalised; ``shares``: keys and values are those that ``kept`` has
    of the last layer of this ``kind``, where others are noted."""
    if shares and kind not in kept:
        raise FormatError(
            f"'{at}' shares keys and values with a layer of the kind {kind} before it, of which there is none"
        )
    own = not shares and f"{at}.v_proj.weight" in net.weights  # else values are what keys were made of
    names = ["q_proj"] if shares else ["q_proj", "k_proj", "v_proj"][: 3 if own else 2]
    sizes = [n * heads.size for n in (heads.count, heads.groups, heads.groups)]
    parts = net.split(net.linear(y, *(f"{at}.{name}" for name in names)), sizes[: len(names)])
    parts = [net.reshape(part, 0, 0, -1, heads.size) for part in parts]
    q = net.rotate(net.rms_norm(parts[0], f"{at}.q_norm", config.epsilon), angles, heads.size)
    if not shares:
        k = net.rotate(net.rms_norm(parts[1], f"{at}.k_norm", config.epsilon), angles, heads.size)
        kept[kind] = k, net.of_size_one(parts[-1], config.epsilon)
    return net.linear(net.attention(q, *kept[kind], heads, layer), f"{at}.o_proj")


def _heads(config: Config, layer: int, kind: str) -> Heads:
    """Layers that see all have heads of another size."""
    told, wide = config.get("per_layer_config"), kind == FULL
    if isinstance(told, Mapping):  # as transformers writes it
        given = told.get(str(layer), told.get(layer))
        own: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    else:
        groups = config.get("num_global_key_value_heads") if config.flag("attention_k_eq_v") else None
        own = {"head_dim": config.get("global_head_dim") or 512, "num_key_value_heads": groups} if wide else {}
    size = as_number(own.get("head_dim"), "head_dim", config.number("head_dim", 256))
    shared = as_number(own.get("num_key_value_heads"), "num_key_value_heads", config.number("num_key_value_heads", 4))
    plain = Config({**config.values, "head_dim": int(size), "num_key_value_heads": int(shared)}).heads(scale=1.0)
    return replace(plain, window=0 if wide else config.window)


def _experts(config: Config, net: Layers, x: Value, at: str) -> Value:
    """Experts are chosen by what is normalised in another way than what they take."""
    scale = net.weight(f"{at}.router.scale") * np.float32(config.width**-0.5)
    routing = Routing(config.count("num_experts"), config.count("top_k_experts"), True).checked()
    given = net.of_size_one(x, config.epsilon, net.const(scale))
    weights, index = choose(net, given, f"{at}.router.proj", routing)
    weights = net.multiply(weights, net.gather(net.vector(f"{at}.router.per_expert_scale"), index))
    names = Experts(f"{at}.experts.down_proj", both=f"{at}.experts.gate_up_proj")
    if names.both not in net.weights:  # GGUF
        names = Experts(f"{at}.experts.{{}}.down_proj.weight", both=f"{at}.experts.{{}}.gate_up_proj.weight")
    y = net.rms_norm(x, f"{at}.pre_feedforward_layernorm_2", config.epsilon)
    return mixed(net, y, weights, index, routing.count, names, config.activation)
