"""Command R (``cohere``) and Command R7B and A (``cohere2``, arXiv:2504.00698): attention and the feed-forward layer
side by side behind one norm, neighbours are turned, and in the second layers that see all know no positions; also with
experts (``cohere2_moe``)."""

from __future__ import annotations

from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import gated
from MNN.llm.models.experts import Routing, mixture, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("cohere", "cohere2", "cohere2_moe")
def cohere(config: Config, net: Layers) -> Graph:
    if config.flag("use_qk_norm"):
        raise UnsupportedError("Cohere's models with norms of queries and keys (use_qk_norm) are not known")
    second, mixed = config.family != "cohere", config.family == "cohere2_moe"
    period = max(int(config.number("sliding_window_pattern", 4)), 1)
    first = int(config.number("first_k_dense_replace", 0)) if mixed else 0
    dense_period = max(int(config.number("prefix_dense_sliding_window_pattern", 1)), 1)
    windows = [0] * config.layers
    if second:
        windows = config.windows(lambda i: (i + 1) % dense_period != 0 if i < first else (i - first + 1) % period != 0)
    kinds = config.each("mlp_layer_types") if mixed else None
    dense = [not mixed or i < first for i in range(config.layers)] if kinds is None else [k == "dense" for k in kinds]
    placed = mixed and dense_period == 1  # positions in all layers without experts
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    angles = net.angles(config.rotary(heads.size, theta=10000.0 if second else 500000.0))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = _norm(config, net, x, f"{at}.input_layernorm", epsilon)
        known = not second or windows[i] > 0 or (placed and dense[i])
        own, turned = replace(heads, window=windows[i]), angles if known else None
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, turned, interleaved=True))
        x = net.add(x, gated(config, net, y, mlp) if dense[i] else _experts(config, net, y, mlp))
    x = _norm(config, net, net.picked(x), "model.norm", epsilon)
    return head(config, net, x, scale=config.number("logit_scale", 0.0625))


def _norm(config: Config, net: Layers, x: Value, name: str, epsilon: float) -> Value:
    if config.family == "cohere2_moe" and config.get("rms_norm_eps") is not None:
        return net.rms_norm(x, name, config.epsilon)
    return net.layer_norm(x, name, epsilon)


def _experts(config: Config, net: Layers, y: Value, at: str) -> Value:
    """Those with the largest scores, and what all tokens share: both, or their mean."""
    score, together = (
        config.get(f"{key}") or usually
        for key, usually in (("expert_selection_fn", "softmax"), ("shared_expert_combination_strategy", "average"))
    )
    if score not in ("softmax", "sigmoid") or together not in ("sum", "average"):
        raise UnsupportedError(f"experts scored by {score!r:.40} and combined by {together!r:.40} are not known")
    normal = score == "softmax" or config.flag("norm_topk_prob", True)
    routing = replace(Routing.of(config, normal), sigmoid=score == "sigmoid")
    routed = mixture(net, y, f"{at}.gate", routing, usual(f"{at}.experts"), config.activation)
    if not config.number("num_shared_experts", 0):
        return routed
    both = net.add(routed, gated(config, net, y, f"{at}.shared_experts"))
    return net.multiply(both, 0.5 if together == "average" else 1.0)
