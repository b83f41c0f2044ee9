"""MiniMax-Text-01 and M1 (arXiv:2501.08313, 2506.13585): layers of lightning attention (Qin et al. 2024,
arXiv:2401.04658), whose keys and values are summed up and fade at a rate of each head, beside a few of attention;
experts in all, and residuals that are weighed, from behind the norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import NUMBERED, Routing, mixture, usual
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.recurrent import MATRIX, summed_up

_KINDS = ("linear_attention", "full_attention")
_LITTLE = 1e-5
"""By which the rates of the last layer are more than none."""


def _linear(config: Config) -> list[bool]:
    """Which layers are of lightning attention."""
    told = config.get("layer_types")
    if told is None:
        return [i % 2 == 1 for i in range(config.layers)]
    if not isinstance(told, Sequence) or len(told) < config.layers or any(kind not in _KINDS for kind in told):
        raise FormatError(f"layer_types is {told!r:.80}; expected are {config.layers} of {', '.join(_KINDS)}")
    return [kind == _KINDS[0] for kind in told[: config.layers]]


@keeps("minimax")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(MATRIX,) if own else (KEYS,) for own in _linear(config)]


@family("minimax")
def minimax(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window)
    angles = net.angles(config.rotary(heads.size, theta=1e6))
    routing = Routing.of(config, normal=True)
    x = net.embed("model.embed_tokens.weight")
    for i, own in enumerate(_linear(config)):
        at, moe = f"model.layers.{i}", f"model.layers.{i}.block_sparse_moe"
        x = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        if own:
            y = _lightning(config, net, x, f"{at}.self_attn", replace(heads, groups=heads.count), i)
        else:
            y = attend(net, x, f"{at}.self_attn", heads, i, angles)
        x = _weighed(config, net, x, y, "linear_attn" if own else "full_attn")
        x = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        names = usual(f"{moe}.experts", NUMBERED)
        x = _weighed(config, net, x, mixture(net, x, f"{moe}.gate", routing, names, config.activation), "mlp")
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _weighed(config: Config, net: Layers, x: Value, y: Value, kind: str) -> Value:
    alpha, beta = (config.number(f"{kind}_{name}_factor", 1.0) for name in ("alpha", "beta"))
    return net.add(net.multiply(x, alpha), net.multiply(y, beta))


def _lightning(config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int) -> Value:
    """Queries, keys and values lie side by side head by head, and have an activation; results are normalised over all
    heads and have a gate."""
    count, size = heads.count, heads.size
    wide = count * size
    if net.height(f"{at}.qkv_proj.weight") != 3 * wide:
        raise FormatError(f"'{at}.qkv_proj.weight' has {net.height(f'{at}.qkv_proj.weight')} rows; expected {3 * wide}")
    order = np.arange(3 * wide).reshape(count, 3, size).swapaxes(0, 1).reshape(-1)
    qkv = net.activation(config.activation, net.linear(y, f"{at}.qkv_proj", order=order))
    q, k, v = (net.reshape(part, 0, 0, count, size) for part in net.split(qkv, [wide] * 3))
    slopes = 2.0 ** (-8.0 * np.arange(1, count + 1) / count)
    rates = slopes * (1 - layer / (config.layers - 1 + _LITTLE) + _LITTLE)
    places = net.reshape(net.floats(), 0, 0, 1)
    decay = net.add(net.multiply(places, 0.0), net.const(np.exp(-rates).astype(np.float32)))
    out = net.reshape(summed_up(net, q, k, v, decay, layer, (count, size, size)), 0, 0, wide)
    gate = net.op("Sigmoid", net.linear(y, f"{at}.output_gate"))
    return net.linear(net.multiply(gate, net.rms_norm(out, f"{at}.norm", 1e-6)), f"{at}.out_proj")
