"""Hunyuan, dense and with experts (Tencent 2025, arXiv:2411.02265): heads of queries and keys are normalised
after they were turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from MNN.errors import FormatError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, mixture, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import as_number, required


@translates("hunyuan_v1_moe")
@translates("hunyuan_v1_dense")
def _usual(config: Mapping[str, object]) -> Mapping[str, object]:
    """What configurations call dynamic is a larger base, the same for all texts, where they tell an ``alpha``."""
    told = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(told, Mapping) or not (alpha := as_number(told.get("alpha"), "alpha", 0.0)):
        return config
    size = int(as_number(config.get("head_dim"), "head_dim", 0.0))
    if size < 4 or alpha < 0:  # the exponent below has no meaning
        raise FormatError(f"positions of heads of {size} numbers cannot have the alpha {alpha:g}")
    base = as_number(told.get("rope_theta", config.get("rope_theta")), "rope_theta", 1e4)
    grown = {"rope_type": "default", "rope_theta": base * alpha ** (size / (size - 2))}
    return {**config, "rope_parameters": grown, "rope_scaling": None}


@family("hunyuan_v1_dense", "hunyuan_v1_moe")
def hunyuan(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y, own = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon), f"{at}.self_attn"
        q, k, v = apart(net, net.linear(y, f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj"), heads, angles)
        q = net.rms_norm(q, f"{own}.query_layernorm", config.epsilon)
        k = net.rms_norm(k, f"{own}.key_layernorm", config.epsilon)
        x = net.add(x, net.linear(net.attention(q, k, v, heads, i), f"{own}.o_proj"))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        everyone = mlp if config.family == "hunyuan_v1_dense" else f"{mlp}.shared_mlp"
        gate, up, down = (f"{everyone}.{part}_proj" for part in ("gate", "up", "down"))
        z = net.gated(y, gate, up, down, config.activation)
        if everyone != mlp:
            routing = Routing(_of_layer(config, "num_experts", i), _of_layer(config, "moe_topk", i), True).checked()
            routed = mixture(net, y, f"{mlp}.gate.wg", routing, usual(f"{mlp}.experts"), config.activation)
            z = net.add(routed, z)
        x = net.add(x, z)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _of_layer(config: Config, key: str, layer: int) -> int:
    """A number that a configuration tells for all layers, or for each."""
    told = config.get(key)
    found = told[layer] if isinstance(told, Sequence) and layer < len(told) else told
    return required({key: found}, key)
