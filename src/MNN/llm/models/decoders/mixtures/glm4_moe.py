"""GLM-4.5 and 4.6 (``glm4_moe``, arXiv:2508.06471): part of each head is turned, and every expert has a score by
itself. dots.llm1 (``dots1``, arXiv:2506.05767) and Solar Open (``solar_open``, arXiv:2601.07022) choose alike."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, mixture, number_of, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_DENSE = {"glm4_moe": 1, "dots1": 0, "solar_open": 0}
"""Layers without experts where a configuration says nothing of them."""


@family(*_DENSE)
def glm4_moe(config: Config, net: Layers) -> Graph:
    heads, kind = config.heads(), config.family
    angles = net.angles(config.rotary(heads.size, share=0.5 if kind == "glm4_moe" else 1.0))
    first = int(config.number("first_k_dense_replace", _DENSE[kind])) if kind != "solar_open" else 0
    windows = [0] * config.layers
    if kind == "dots1":
        behind = int(config.number("max_window_layers", config.layers))
        windows = config.windows(lambda i: i >= behind)
    norms = (config.epsilon, 0.0) if kind == "dots1" or config.flag("use_qk_norm") else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, gated(config, net, y, mlp) if i < first else experts(config, net, y, mlp, kind != "dots1"))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def gated(config: Config, net: Layers, y: Value, at: str) -> Value:
    return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)


def experts(config: Config, net: Layers, y: Value, at: str, normal: bool = True, room: str = ".gate") -> Value:
    """Those that are chosen by scores of their own, and what all tokens share, where there is such. ``room``: where
    what is added to scores lies."""
    groups, kept = (max(int(config.number(key, 1)), 1) for key in ("n_group", "topk_group"))
    scale, normal = config.number("routed_scaling_factor", 1.0), config.flag("norm_topk_prob", normal)
    correction, most = f"{at}{room}.e_score_correction_bias", config.count("num_experts_per_tok")
    routing = Routing(number_of(config), most, normal, scale, True, groups, kept, 2, True, correction).checked()
    routed = mixture(net, y, f"{at}.gate", routing, usual(f"{at}.experts"), config.activation)
    if f"{at}.shared_experts.gate_proj.weight" not in net.weights:
        return routed
    return net.add(routed, gated(config, net, y, f"{at}.shared_experts"))
