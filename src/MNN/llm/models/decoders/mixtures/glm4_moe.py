"""GLM-4.5 and 4.6 (``glm4_moe``, arXiv:2508.06471): part of each head is turned, and every expert has a score by
itself. dots.llm1 (``dots1``, arXiv:2506.05767), Solar Open (``solar_open``, arXiv:2601.07022) and Hunyuan 3 (``hy_v3``,
Tencent 2026) choose alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import USUAL, Routing, mixture, number_of, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_DENSE = {"glm4_moe": 1, "dots1": 0, "solar_open": 0, "hy_v3": 1}
"""Layers without experts where a configuration says nothing of them."""


@dataclass(frozen=True)
class Places:
    """Where, in the room of a layer, experts are that are chosen by scores of their own: the ``router``, what is
    ``added`` to scores, if anything, what all tokens have in common (``shared``), the ``parts`` of an expert; and the
    configuration's name for what weights are multiplied by."""

    router: str = "gate"
    added: str = "gate.e_score_correction_bias"
    shared: str = "shared_experts"
    parts: Sequence[str] = USUAL
    scale: str = "routed_scaling_factor"


_USUAL = Places()
_HUNYUAN = Places("router.gate", "expert_bias", "shared_mlp", scale="router_scaling_factor")


@family(*_DENSE)
def glm4_moe(config: Config, net: Layers) -> Graph:
    heads, kind = config.heads(), config.family
    theta, share = 11158840.0 if kind == "hy_v3" else 1e4, 0.5 if kind == "glm4_moe" else 1.0
    angles = net.angles(config.rotary(heads.size, theta=theta, share=share))
    first = int(config.number("first_k_dense_replace", _DENSE[kind])) if kind != "solar_open" else 0
    dense = [i < first for i in range(config.layers)]
    if kind == "hy_v3" and (told := config.each("mlp_layer_types")) is not None:
        dense = [one == "dense" for one in told]
    places = _HUNYUAN if kind == "hy_v3" else _USUAL
    windows = [0] * config.layers
    if kind == "dots1":
        behind = int(config.number("max_window_layers", config.layers))
        windows = config.windows(lambda i: i >= behind)
    norms = (config.epsilon, 0.0) if kind in ("dots1", "hy_v3") or config.flag("use_qk_norm") else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(
            x, gated(config, net, y, mlp) if dense[i] else experts(config, net, y, mlp, places, kind != "dots1")
        )
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def gated(config: Config, net: Layers, y: Value, at: str) -> Value:
    return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)


def experts(
    config: Config, net: Layers, y: Value, at: str, places: Places = _USUAL, normal: bool = True
) -> Value:  # fmt: skip
    """Those that are chosen by scores of their own, and what all tokens share, where there is such."""
    groups, kept = (max(int(config.number(key, 1)), 1) for key in ("n_group", "topk_group"))
    scale, normal = config.number(places.scale, 1.0), config.flag("norm_topk_prob", normal)
    correction, most = f"{at}.{places.added}" if places.added else "", config.count("num_experts_per_tok")
    routing = Routing(number_of(config), most, normal, scale, True, groups, kept, 2, True, correction).checked()
    names = usual(f"{at}.experts", places.parts)
    routed = mixture(net, y, f"{at}.{places.router}", routing, names, config.activation)
    if f"{at}.{places.shared}.gate_proj.weight" not in net.weights:
        return routed
    return net.add(routed, gated(config, net, y, f"{at}.{places.shared}"))
