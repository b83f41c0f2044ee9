"""Jamba (arXiv:2403.19887): layers of Mamba-1 beside a few of attention without positions, and experts in every other
layer."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, mixture, usual
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba1 import Mamba1, mamba1
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX


def _every(config: Config, kind: str, period: int, offset: int) -> list[bool]:
    """Which layers are of a kind."""
    period, offset = (int(config.number(f"{kind}_{key}", n)) for key, n in (("period", period), ("offset", offset)))
    return [i % max(period, 1) == offset for i in range(config.layers)]


def _attention(config: Config) -> list[bool]:
    """Which layers are of attention, where they are not listed."""
    told = config.each("layers_block_type")
    if told is not None:
        return [kind == "attention" for kind in told]
    return _every(config, "attn_layer", 8, 4)


@keeps("jamba")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(KEYS,) if full else (CONVOLUTION, MATRIX) for full in _attention(config)]


@family("jamba")
def jamba(config: Config, net: Layers) -> Graph:
    heads, inner = config.heads(), int(config.number("mamba_expand", 2) * config.width)
    rank = int(config.number("mamba_dt_rank", 0)) or ceil(config.width / 16)
    names = ("dt_layernorm", "b_layernorm", "c_layernorm")
    form = Mamba1(inner, int(config.number("mamba_d_state", 16)), rank, config.epsilon, names, config.activation)
    routing = Routing.of(config, normal=False) if config.number("num_experts", 16) > 1 else None
    x = net.embed("model.embed_tokens.weight")
    for i, full in enumerate(_attention(config)):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.feed_forward"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        y = attend(net, y, f"{at}.self_attn", heads, i, None) if full else mamba1(net, y, f"{at}.mamba", i, form)
        x = net.add(x, y)
        y = net.rms_norm(x, f"{at}.pre_ff_layernorm", config.epsilon)
        if routing is not None and f"{mlp}.router.weight" in net.weights:
            y = mixture(net, y, f"{mlp}.router", routing, usual(f"{mlp}.experts"), config.activation)
        else:
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.final_layernorm", config.epsilon))
