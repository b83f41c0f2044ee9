"""Phi-3.5-MoE (arXiv:2404.14219): layer norms, and two experts of which each is weighed among those that come near it
(SparseMixer, Liu et al. 2024, arXiv:2409.12136)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.common.expressions import binary, select
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import NUMBERED, Routing, largest, mixed, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_SCALED = ("rope_parameters", "rope_scaling")


@translates("phimoe")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    """Where positions reach beyond the trained length, configurations tell what turns are multiplied by."""
    key = next((key for key in _SCALED if isinstance(values.get(key), Mapping)), "")
    told = values.get(key)
    if not isinstance(told, Mapping) or "short_mscale" not in told:
        return values
    if told["short_mscale"] != told.get("long_mscale"):
        raise UnsupportedError("Phi-3.5-MoE models whose short_mscale and long_mscale differ are not known")
    return {**values, key: {"attention_factor": told["short_mscale"], **told}}


@family("phimoe")
def phimoe(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window)
    angles = net.angles(config.rotary(heads.size, theta=1e6))
    routing = Routing.of(config, normal=False)
    if routing.most != 2:
        raise UnsupportedError(
            f"Phi-3.5-MoE models whose tokens take {routing.most} experts are not known; expected are 2"
        )
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, moe = f"model.layers.{i}", f"model.layers.{i}.block_sparse_moe"
        y = net.layer_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles))
        y = net.layer_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        scores = net.product(y, net.weight(f"{moe}.gate.weight"))
        names = usual(f"{moe}.experts", NUMBERED)
        weights, index = _chosen(net, scores, routing.count, config.number("router_jitter_noise", 0.01))
        x = net.add(x, mixed(net, y, weights, index, routing.count, names, config.activation))
    return head(config, net, net.layer_norm(net.picked(x), "model.norm", config.epsilon))


def _chosen(net: Layers, scores: Value, count: int, noise: float) -> tuple[Value, Value]:
    """The weights of two experts, and which these are, ``[batch, sequence, 2]``: the best one by its share among all
    that lie within the noise of it, and the next one among those that lie within that of itself, but for the first."""
    best, index = largest(net, scores, 2)
    tops = net.split(best, [1, 1])
    weights = []
    for top, others in zip(tops, (None, tops[0]), strict=True):
        below = binary(net, "SUB", top, scores)
        reach = net.multiply(binary(net, "MAXIMUM", net.unary("ABS", scores), top), 2 * noise)
        far = binary(net, "GREATER", below, reach)  # over what may be 0, as the quotient would be
        powers = net.unary("EXP", net.unary("NEG", below))
        nothing = net.const(np.float32(0))
        powers = select(net, far, nothing, powers)
        if others is not None:
            powers = select(net, binary(net, "LESS", scores, others), powers, nothing)
        total = net.multiply(net.mean(powers, 2), float(count))
        weights.append(binary(net, "REALDIV", net.const(np.float32(1)), total))
    return net.concat(weights), index
