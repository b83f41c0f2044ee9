"""MiniCPM (arXiv:2404.06395) and Granite (arXiv:2405.04324), mixtures of experts too: Llama with numbers that scale
embeddings, what layers add, and logits."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, gated_of, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Experts, Routing, mixture
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


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


@family("granite", "granitemoe", "granitemoeshared")
def granite(config: Config, net: Layers) -> Graph:
    names = "embedding_multiplier", "residual_multiplier", "attention_multiplier"
    embedding, residual, scores = (config.number(name, 1.0) for name in names)
    return _scaled(config, net, _Scales(embedding, residual, 1.0 / config.positive("logits_scaling", 1.0), scores))


def _scaled(config: Config, net: Layers, scales: _Scales) -> Graph:
    heads = config.heads(scale=scales.scores)
    angles = net.angles(config.rotary(heads.size))
    x = net.multiply(net.embed("model.embed_tokens.weight"), scales.embedding)
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, net.multiply(attend(net, y, f"{at}.self_attn", heads, i, angles), scales.residual))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if config.family.startswith("granitemoe"):
            y = granite_mixture(config, net, y, at)
        else:
            mlp = f"{at}.mlp"
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        x = net.add(x, net.multiply(y, scales.residual))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon), scale=scales.logits)


def granite_mixture(config: Config, net: Layers, y: Value, at: str) -> Value:
    """Experts of the layer ``at``, and what all tokens share, where there is such."""
    moe, shared = f"{at}.block_sparse_moe", f"{at}.shared_mlp"
    names = Experts(f"{moe}.output_linear.weight", both=f"{moe}.input_linear.weight")
    if names.down not in net.weights:  # GGUF
        names = Experts(*(f"{moe}.experts.{{}}.{part}.weight" for part in ("w2", "w1", "w3")))
    routing = Routing.of(config, normal=True)
    routed = mixture(net, y, f"{moe}.router.layer", routing, names, config.activation)
    if f"{shared}.output_linear.weight" not in net.weights:
        return routed
    return net.add(routed, gated_of(net, y, shared, config.activation))
