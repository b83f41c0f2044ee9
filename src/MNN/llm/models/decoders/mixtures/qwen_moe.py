"""Mixtures of Qwen: Qwen1.5-MoE and Qwen2-57B-A14B (``qwen2_moe``, with an expert that all tokens share), Qwen3-30B-A3B
and its like (``qwen3_moe``, arXiv:2505.09388); Mellum 2 (``mellum``, JetBrains 2026), with windows whose positions turn
by themselves."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Experts, Routing, mixture, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("qwen2_moe", "qwen3_moe", "mellum")
def qwen_moe(config: Config, net: Layers) -> Graph:
    heads, third, mellum = config.heads(), config.family == "qwen3_moe", config.family == "mellum"
    first = int(config.number("max_window_layers", 28))
    windows = config.windows(lambda i: config.flag("use_sliding_window") and (third or (i % 2 == 0 and i < first)))
    routing = Routing.of(config, config.flag("norm_topk_prob", mellum))
    angles = net.angles(config.rotary(heads.size, "full_attention", 5e5 if mellum else 1e4))
    local = net.angles(config.local(heads.size)) if mellum else angles
    norms = (config.epsilon, 0.0) if third or mellum else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own, turned = replace(heads, window=windows[i]), local if windows[i] else angles
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, turned, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, feed_forward(config, net, y, f"{at}.mlp", i, routing))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def feed_forward(config: Config, net: Layers, y: Value, at: str, layer: int, routing: Routing) -> Value:
    """What stands behind attention in a layer: experts, or none in some."""
    dense = config.listed("mlp_only_layers") or ()
    step, told = max(int(config.number("decoder_sparse_step", 1)), 1), config.each("mlp_layer_types")
    if (layer + 1) % step or layer in dense or (told is not None and told[layer] == "dense"):
        return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)
    whole = f"{at}.experts.gate_up_proj"
    names = Experts(f"{at}.experts.down_proj", both=whole) if whole in net.weights else usual(f"{at}.experts")
    routed = mixture(net, y, f"{at}.gate", routing, names, config.activation)
    if config.family in ("qwen3_moe", "mellum"):
        return routed
    shared = f"{at}.shared_expert"
    everyone = net.gated(y, f"{shared}.gate_proj", f"{shared}.up_proj", f"{shared}.down_proj", config.activation)
    share = net.op("Sigmoid", net.product(y, net.weight(f"{at}.shared_expert_gate.weight")))
    return net.add(routed, net.multiply(everyone, share))
