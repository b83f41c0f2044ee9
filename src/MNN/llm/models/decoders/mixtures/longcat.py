"""LongCat-Flash (``longcat_flash``, arXiv:2509.01322): layers of two parts, each with attention of latents and a gated
layer; experts take what the first part makes, and what they give is added behind the second. Some experts give back
what they take."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, select
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.deepseek import latent, latent_heads
from MNN.llm.models.decoders.mixtures.glm4_moe import gated
from MNN.llm.models.experts import Experts, Routing, choose, mixed, number_of, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_NAMES = {"moe_topk": "num_experts_per_tok", "num_layers": "num_hidden_layers"}


@translates("longcat_flash")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    """Each part counts as a layer, which has keys and values of its own."""
    found: dict[str, object] = {"rope_theta": 1e7, "rms_norm_eps": 1e-5, "routed_scaling_factor": 6.0, **values}
    found |= {new: values[old] for old, new in _NAMES.items() if old in values}
    layers = found.get("num_hidden_layers")
    if "num_layers" in values and isinstance(layers, int):
        found["num_hidden_layers"] = 2 * layers
    return found


@family("longcat_flash")
def longcat_flash(config: Config, net: Layers) -> Graph:
    heads, angles = latent_heads(config), net.angles(config.rotary(config.count("qk_rope_head_dim")))
    factors = (sqrt(config.width / config.count("q_lora_rank")), sqrt(config.width / config.count("kv_lora_rank")))
    if config.layers % 2:
        raise FormatError(f"a model of longcat_flash has layers of two parts, not {config.layers} parts")
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, part = f"model.layers.{i // 2}", i % 2
        y = net.rms_norm(x, f"{at}.input_layernorm.{part}", config.epsilon)
        x = net.add(x, latent(config, net, y, f"{at}.self_attn.{part}", heads, i, angles, factors=factors))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm.{part}", config.epsilon)
        if not part:
            aside = _experts(config, net, y, f"{at}.mlp")
        x = net.add(x, gated(config, net, y, f"{at}.mlps.{part}"))
        x = net.add(x, aside) if part else x
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _experts(config: Config, net: Layers, y: Value, at: str) -> Value:
    """Those behind the last of ``n_routed_experts`` have no weights: of these, ``y`` itself is added by the sum of
    their shares."""
    count, scale = number_of(config), config.number("routed_scaling_factor", 6.0)
    total = count + int(config.number("zero_expert_num", 0))
    most, correction = config.count("num_experts_per_tok"), f"{at}.router.e_score_correction_bias"
    routing = Routing(total, most, scale=scale, correction=correction).checked()
    weights, index = choose(net, y, f"{at}.router.classifier", routing)
    real, nothing = binary(net, "LESS", index, net.const(np.int32(count))), net.const(np.float32(0))
    whole = f"{at}.experts.gate_up_proj"
    names = Experts(f"{at}.experts.down_proj", both=whole) if whole in net.weights else usual(f"{at}.experts")
    chosen = binary(net, "MINIMUM", index, net.const(np.int32(count - 1)))
    routed = mixed(net, y, select(net, real, weights, nothing), chosen, count, names, config.activation)
    same = net.op("Reduction", select(net, real, nothing, weights), operation="SUM", dim=[2], keepDims=True)
    return net.add(routed, net.multiply(y, same))
