"""MiniCPM (arXiv:2404.06395), Granite (arXiv:2405.04324), mixtures of experts and such with windows too, and HyperCLOVA
X SEED (NAVER 2025): Llama with numbers that scale embeddings, what layers add, and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, gated_of, head, with_sinks
from MNN.llm.models.config import Config
from MNN.llm.models.experts import NUMBERED, Experts, Routing, mixture, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Angles, Layers
from MNN.llm.models.weights import as_number


@dataclass(frozen=True)
class _Scales:
    embedding: float
    residual: float
    logits: float
    scores: float


@family("minicpm")
def minicpm(config: Config, net: Layers) -> Graph:
    base = config.number("dim_model_base", config.width)
    depth = config.number("scale_depth", sqrt(config.layers)) / sqrt(config.layers)
    return _scaled(config, net, _Scales(config.number("scale_emb", 1.0), depth, base / config.width, 0.0))


@family("granite", "granitemoe", "granitemoeshared", "granite_swa", "granitemoe_swa", "hyperclovax")
def granite(config: Config, net: Layers) -> Graph:
    names, clova = (
        ("embedding_multiplier", "residual_multiplier", "attention_multiplier"),
        config.family == "hyperclovax",
    )
    embedding, residual, scores = (config.number(name, 1.0) for name in names)
    logits = config.positive("logits_scaling", 1.0)
    if clova:
        scores = config.number(names[2], 0.0)
    return _scaled(config, net, _Scales(embedding, residual, logits if clova else 1.0 / logits, scores))


def _scaled(config: Config, net: Layers, scales: _Scales) -> Graph:
    heads, near = config.heads(scale=scales.scores), config.family.endswith("_swa")
    windows = config.windows(lambda i: i % 4 > 0) if near else [0] * config.layers
    angles = _turned(config, net, heads.size)
    behind = config.family == "hyperclovax" and config.flag("use_post_norm", True)
    x = net.multiply(net.embed("model.embed_tokens.weight"), scales.embedding)
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        own = with_sinks(net, own, f"{at}.self_attn.sinks") if near else own
        y = attend(net, y, f"{at}.self_attn", own, i, angles[i])
        y = net.rms_norm(y, f"{at}.post_norm1", config.epsilon) if behind else y
        x = net.add(x, net.multiply(y, scales.residual))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if config.family.startswith("granitemoe"):
            y = granite_mixture(config, net, y, at)
        else:
            mlp = f"{at}.mlp"
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        y = net.rms_norm(y, f"{at}.post_norm2", config.epsilon) if behind else y
        x = net.add(x, net.multiply(y, scales.residual))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon), scale=scales.logits)


def _turned(config: Config, net: Layers, size: int) -> list[Angles | None]:
    """Positions of each layer: where layers have bases of their own, those whose base is 0 know none."""
    told = config.each("layer_rope_theta") if config.family.endswith("_swa") else None
    if told is None:
        return [net.angles(config.rotary(size))] * config.layers
    inner = config.get("rope_parameters")
    more, found = inner if isinstance(inner, Mapping) else {}, {}
    for base in dict.fromkeys(as_number(one, "layer_rope_theta", 0.0) for one in told):
        own = Config({**config.values, "rope_parameters": {**more, "rope_theta": base}})
        found[base] = net.angles(own.rotary(size)) if base else None
    return [found[as_number(one, "layer_rope_theta", 0.0)] for one in told]


def granite_mixture(config: Config, net: Layers, y: Value, at: str) -> Value:
    """Experts of the layer ``at``, and what all tokens share, where there is such."""
    moe, shared = f"{at}.block_sparse_moe", f"{at}.shared_mlp"
    each = f"{moe}.experts.{{}}"
    places = (
        (f"{moe}.router.layer", Experts(f"{moe}.output_linear.weight", both=f"{moe}.input_linear.weight")),
        (f"{moe}.router.layer", usual(f"{moe}.experts", NUMBERED)),  # GGUF
        (f"{moe}.router", Experts(f"{moe}.experts.down_proj", both=f"{moe}.experts.gate_up_proj")),
        (f"{moe}.router", Experts(f"{each}.down_proj.weight", both=f"{each}.gate_up_proj.weight")),  # GGUF
    )
    router, names = next((one for one in places if one[1].down.format(0) in net.weights), places[0])
    routing = Routing.of(config, normal=True)
    routed = mixture(net, y, router, routing, names, config.activation)
    if f"{shared}.output_linear.weight" not in net.weights:
        return routed
    return net.add(routed, gated_of(net, y, shared, config.activation))
