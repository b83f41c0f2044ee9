"""MiniMax-M2 (MiniMax 2025): norms over all heads of queries and of keys, of which part is turned, and experts
that have a score by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.dense.olmo2 import attend_normal
from MNN.llm.models.experts import NUMBERED, Routing, mixture, number_of, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers


@translates("minimax_m2")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    """The first configurations tell how many numbers of a head are turned, later ones their share."""
    turned, size = values.get("rotary_dim"), values.get("head_dim", 128)
    if not isinstance(turned, int) or not isinstance(size, int) or "partial_rotary_factor" in values or size < 1:
        return values
    return {"partial_rotary_factor": turned / size, **values}


@family("minimax_m2")
def minimax_m2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=5e6))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, moe = f"model.layers.{i}", f"model.layers.{i}.block_sparse_moe"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend_normal(config, net, y, f"{at}.self_attn", heads, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        names = usual(f"{moe}.experts", NUMBERED)
        correction, most = f"{moe}.e_score_correction_bias", config.count("num_experts_per_tok")
        routing = Routing(number_of(config), most, True, sigmoid=True, correction=correction).checked()
        x = net.add(x, mixture(net, y, f"{moe}.gate", routing, names, config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
