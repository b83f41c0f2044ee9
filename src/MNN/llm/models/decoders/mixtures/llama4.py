"""Llama 4 (Meta 2025; the half for text): layers with positions and such without, in which queries grow with these
instead, and experts that are given what a token has by their score, beside one for all tokens.

Layers with positions see the tokens of their chunk alone; texts are limited to one chunk (8,192 tokens), where that is
the same as seeing all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.ir.graph import Graph, Value
from MNN.llm.files.quantised.mxfp4 import TURNED
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config, limited
from MNN.llm.models.experts import Routing, largest, matrices, taken, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.weights import Array


@translates("llama4_text")
@translates("llama4")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    """A text is no longer than a chunk."""
    inner = values.get("text_config")
    told = {**values, **inner} if isinstance(inner, Mapping) else dict(values)
    told.pop("text_config", None)
    return limited({"max_position_embeddings": 131072, **told}, "attention_chunk_size", 8192)


@family("llama4", "llama4_text")
def llama4(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=5e5))
    routing = Routing.of(config, normal=False)
    placed, mixed = _listed(config)
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.feed_forward"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, _attend(config, net, y, f"{at}.self_attn", heads, i, angles if placed[i] else None))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, _experts(config, net, y, mlp, routing) if mixed[i] else _gated(config, net, y, mlp))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _listed(config: Config) -> tuple[list[bool], list[bool]]:
    """Which layers know positions, and which have experts."""
    told, every = config.each("no_rope_layers"), max(int(config.number("no_rope_layer_interval", 4)), 1)
    step, among = max(int(config.number("interleave_moe_layer_step", 1)), 1), config.listed("moe_layers")
    layers = range(config.layers)
    placed = [(i + 1) % every != 0 for i in layers] if told is None else [bool(one) for one in told]
    return placed, [(i + 1) % step == 0 if among is None else i in among for i in layers]


def _attend(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles | None) -> Value:
    """Where there are positions heads are normalised behind them, of some models."""
    qkv = net.linear(y, f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj")
    q, k, v = apart(net, qkv, heads, angles, interleaved=True)
    if angles is not None and config.flag("use_qk_norm", True):
        q, k = (net.of_size_one(part, config.epsilon) for part in (q, k))
    if angles is None and config.flag("attn_temperature_tuning", True):
        q = net.multiply(q, _grown(config, net))
    return net.linear(net.attention(q, k, v, heads, layer), f"{at}.o_proj")


def _grown(config: Config, net: Layers) -> Value:
    """By how much queries grow with their position (Nakanishi 2025, arXiv:2501.19399)."""
    every = config.positive("floor_scale", 8192.0)
    steps = net.unary("FLOOR", net.multiply(net.add(net.floats(), net.const(np.float32(1))), 1.0 / every))
    more = net.multiply(net.unary("LOG1P", steps), config.number("attn_scale", 0.1))
    return net.add(more, net.const(np.float32(1)))


def _gated(config: Config, net: Layers, y: Value, at: str) -> Value:
    return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)


def _experts(config: Config, net: Layers, y: Value, at: str, routing: Routing) -> Value:
    """Scores weigh what experts take, not what they make of it."""
    logits, index = largest(net, net.product(y, net.weight(f"{at}.router.weight")), routing.most)
    share = net.op("Unsqueeze", net.op("Sigmoid", logits), squeezeDims=[3])
    rows = net.multiply(net.op("Unsqueeze", y, squeezeDims=[2]), share)
    room = f"{at}.experts"
    if f"{room}.0.down_proj.weight" in net.weights:  # GGUF
        joint, down = matrices(net, usual(room), routing.count)
    else:
        joint, down = ([_turned(net, f"{room}.{name}_proj")] for name in ("gate_up", "down"))
    each = taken(net, rows, index, routing.count, joint, down, config.activation)
    made = net.op("Reduction", each, operation="SUM", dim=[2], keepDims=False)
    return net.add(made, _gated(config, net, y, f"{at}.shared_expert"))


def _turned(net: Layers, name: str) -> Array:
    """The matrices of all experts, which checkpoints have ``[in, out]``."""
    if name + TURNED in net.weights:
        return net.weights[name + TURNED]
    return np.ascontiguousarray(net.weight(name).swapaxes(1, 2))
