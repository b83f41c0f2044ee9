"""Families like Llama whose feed-forward layers have no gates: Arcee (AFM 2025), Jais 2 (MBZUAI 2025) and Nemotron
(Minitron, arXiv:2402.16819, 2407.14679) with the square of what is above zero (Primer, arXiv:2109.08668), and Apertus
(arXiv:2509.14233) with xIELU (Huang & Schlag 2024, arXiv:2411.13010)."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.expressions import binary, select
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_PLACES = {
    "arcee": ("input_layernorm", "post_attention_layernorm", 1e4, 1.0),
    "jais2": ("input_layernorm", "post_attention_layernorm", 1e4, 1.0),
    "nemotron": ("input_layernorm", "post_attention_layernorm", 1e4, 0.5),
    "apertus": ("attention_layernorm", "feedforward_layernorm", 12e6, 1.0),
}
"""What the norms in front of attention and of the layer behind it are called, the base of positions, and the share of
a head that is turned."""


@family(*_PLACES)
def ungated(config: Config, net: Layers) -> Graph:
    before, behind, theta, share = _PLACES[config.family]
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=theta, share=share))
    norms = (config.epsilon, 0.0) if config.family == "apertus" else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = _norm(config, net, x, f"{at}.{before}")
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, norms=norms))
        y = net.linear(_norm(config, net, x, f"{at}.{behind}"), f"{at}.mlp.up_proj")
        x = net.add(x, net.linear(_activation(config, net, y, f"{at}.mlp"), f"{at}.mlp.down_proj"))
    return head(config, net, _norm(config, net, net.picked(x), "model.norm"))


def _norm(config: Config, net: Layers, x: Value, name: str) -> Value:
    """Jais 2 has layer norms, and Nemotron such whose weights are added to one."""
    if config.family == "jais2":
        return net.layer_norm(x, name, config.number("layer_norm_eps", 1e-5))
    if config.family != "nemotron":
        return net.rms_norm(x, name, config.epsilon)
    return net.layer_norm(x, name, config.number("norm_eps", 1e-5), plus=1.0)


def _activation(config: Config, net: Layers, y: Value, at: str) -> Value:
    name = str(config.get("hidden_act") or ("xielu" if config.family == "apertus" else "relu2"))
    if name != "xielu":
        return net.activation(name, y)
    up, down = (np.logaddexp(net.weight(f"{at}.act_fn.alpha_{kind}").reshape(-1)[0], 0) for kind in "pn")
    beta, least = (_told(net, f"{at}.act_fn.{kind}", usual) for kind, usual in (("beta", 0.5), ("eps", -1e-6)))
    return xielu(net, y, float(up), float(down) + beta, beta, least)


def _told(net: Layers, name: str, usual: float) -> float:
    return float(net.weight(name).reshape(-1)[0]) if name in net.weights else usual


def xielu(net: Layers, x: Value, up: float, down: float, beta: float, least: float) -> Value:
    """``up x^2 + beta x`` above zero, ``down (exp(y) - 1 - x) + beta x`` below, where ``y`` is the lesser of ``x`` and
    ``least``."""
    power = net.unary("EXPM1", binary(net, "MINIMUM", x, net.const(np.float32(least))))
    below = net.multiply(binary(net, "SUB", power, x), down)
    above = net.multiply(net.multiply(x, x), up)
    curved = select(net, binary(net, "GREATER", x, net.const(np.float32(0))), above, below)
    return net.add(curved, net.multiply(x, beta))
