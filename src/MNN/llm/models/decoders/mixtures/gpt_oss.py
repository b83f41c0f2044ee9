"""gpt-oss (OpenAI 2025, arXiv:2508.10925): experts with biases and a gate that is limited, windows in every other
layer, and in each head a score that takes its part of the softmax (a sink)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.files.quantised.mxfp4 import TURNED
from MNN.llm.models.blocks import attend, head, with_sinks
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, choose, routed, weighted
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Array, ordered


@family("gpt_oss")
def gpt_oss(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    windows = config.windows(lambda i: i % 2 == 0)
    routing = Routing.of(config, normal=True)
    angles = net.angles(config.rotary(heads.size, theta=150000.0))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = with_sinks(net, replace(heads, window=windows[i]), f"{at}.self_attn.sinks")
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, _experts(config, net, y, f"{at}.mlp", routing))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _experts(config: Config, net: Layers, y: Value, at: str, routing: Routing) -> Value:
    weights, index = choose(net, y, f"{at}.router", routing)
    rows, count = net.op("Unsqueeze", y, squeezeDims=[2]), routing.count
    both, both_bias = _gates(net, f"{at}.experts", count)
    inner = both_bias.shape[1] // 2
    hidden = net.add(routed(net, rows, index, [both], count), net.gather(net.const(both_bias), index))
    gate, up = net.split(hidden, [inner, inner])
    alpha, limit = config.number("swiglu_alpha", 1.702), config.positive("swiglu_limit", 7.0)
    gate = binary(net, "MINIMUM", gate, net.const(np.float32(limit)))
    up = net.op("ReLU6", up, minValue=-limit, maxValue=limit)
    share = net.op("Sigmoid", net.multiply(gate, alpha))
    hidden = net.multiply(net.add(up, net.const(np.float32(1))), net.multiply(gate, share))
    down, bias = _down(net, f"{at}.experts", count)
    return weighted(
        net, net.add(routed(net, hidden, index, [down], count), net.gather(net.const(bias), index)), weights
    )


def _gates(net: Layers, at: str, count: int) -> tuple[Array, np.ndarray]:
    """All experts' gates and what they let through, one above the other, ``[experts * 2 inner, in]``, and their biases
    ``[experts, 2 inner]``. Checkpoints have them in turns."""
    if f"{at}.0.gate_proj.weight" in net.weights:  # GGUF
        names = [f"{at}.{i}.{part}" for i in range(count) for part in ("gate_proj", "up_proj")]
        biases = [net.weight(f"{name}.bias") for name in names]
        return net.stack([net.weights[f"{name}.weight"] for name in names]), np.stack(biases).reshape(count, -1)
    bias = net.weight(f"{at}.gate_up_proj_bias")
    flat = _flat(net, f"{at}.gate_up_proj", bias)
    order = np.arange(bias.size).reshape(count, -1, 2).swapaxes(1, 2).reshape(-1)
    return ordered(flat, order), np.ascontiguousarray(bias.reshape(-1)[order].reshape(count, -1))


def _down(net: Layers, at: str, count: int) -> tuple[Array, np.ndarray]:
    if f"{at}.0.down_proj.weight" in net.weights:
        names = [f"{at}.{i}.down_proj" for i in range(count)]
        return net.stack([net.weights[f"{n}.weight"] for n in names]), np.stack(
            [net.weight(f"{n}.bias") for n in names]
        )
    bias = net.weight(f"{at}.down_proj_bias")
    return _flat(net, f"{at}.down_proj", bias), bias


def _flat(net: Layers, name: str, bias: np.ndarray) -> Array:
    """The matrices of all experts, one above the other, ``[rows, in]``."""
    if name + TURNED in net.weights:
        found = net.weights[name + TURNED]
        whole = found if isinstance(found, QuantizedArray) else np.asarray(found, np.float32)
        flat = net.stack([whole])
    else:
        held = net.weight(name)
        flat = np.ascontiguousarray(held.swapaxes(1, 2)).reshape(-1, held.shape[1])
    if flat.shape[0] != bias.size:
        raise FormatError(f"'{name}' has {flat.shape[0]} rows; its biases are {bias.size}")
    return flat
