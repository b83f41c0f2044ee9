"""ERNIE 4.5 with experts (Baidu 2025): neighbours are turned, and what is added to scores does not weigh experts."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import gated
from MNN.llm.models.experts import Routing, mixture, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_NAMES = {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"}


@translates("ernie4_5_moe")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    return {**values, **{new: values[old] for new, old in _NAMES.items() if old in values}}


@family("ernie4_5_moe")
def ernie4_5_moe(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=5e5))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, interleaved=True))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, _experts(config, net, y, mlp) if _mixed(config, i) else gated(config, net, y, mlp))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _mixed(config: Config, layer: int) -> bool:
    """Whether a layer has experts."""
    last, every = (int(config.number(f"moe_layer_{key}", n)) for key, n in (("end_index", -1), ("interval", 1)))
    last = config.layers - 1 if last == -1 else last
    return (layer + 1) % max(every, 1) == 0 and config.number("moe_layer_start_index", 1) <= layer <= last


def _experts(config: Config, net: Layers, y: Value, at: str) -> Value:
    correction = f"{at}.moe_statics.e_score_correction_bias"
    most, count = config.count("num_experts_per_tok"), config.count("num_experts")
    routing = Routing(count, most, True, correction=correction).checked()
    routed = mixture(net, y, f"{at}.gate", routing, usual(f"{at}.experts"), config.activation)
    if f"{at}.shared_experts.gate_proj.weight" not in net.weights:
        return routed
    return net.add(routed, gated(config, net, y, f"{at}.shared_experts"))
