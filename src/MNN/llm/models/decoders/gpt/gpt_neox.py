"""GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia (arXiv:2304.01373): part of each head is turned, and
attention and the feed-forward layer stand side by side."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, grouped, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers


@translates("gpt_neox")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    share, base = values.get("rotary_pct", 0.25), values.get("rotary_emb_base", 10000)
    return {"partial_rotary_factor": share, "rope_theta": base, "hidden_act": "gelu", **values}


@family("gpt_neox")
def gpt_neox(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-5)
    beside = config.flag("use_parallel_residual", True)
    told = config.get("rope_parameters")
    share = told.get("partial_rotary_factor") if isinstance(told, Mapping) else None
    if isinstance(share, (int, float)):
        config = Config({**config.values, "partial_rotary_factor": share})
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("gpt_neox.embed_in.weight")
    for i in range(config.layers):
        at = f"gpt_neox.layers.{i}"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        q, k, v = apart(net, grouped(net, y, f"{at}.attention.query_key_value", heads), heads, angles)
        after = net.add(x, net.linear(net.attention(q, k, v, heads, i), f"{at}.attention.dense"))
        y = net.layer_norm(x if beside else after, f"{at}.post_attention_layernorm", epsilon)
        y = net.activation(config.activation, net.linear(y, f"{at}.mlp.dense_h_to_4h"))
        x = net.add(after, net.linear(y, f"{at}.mlp.dense_4h_to_h"))
    x = net.layer_norm(net.picked(x), "gpt_neox.final_layer_norm", epsilon)
    own = "embed_out" if "embed_out.weight" in net.weights else "lm_head"  # GGUF's
    return head(config, net, x, "gpt_neox.embed_in", own)
