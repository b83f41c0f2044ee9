"""Falcon (Almazrouei et al. 2023, arXiv:2311.16867): attention and the feed-forward layer side by side, and one or few
heads of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, grouped, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers


@translates("falcon")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {
        new: values[old] for new, old in (("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"),
        ("hidden_size", "n_embed")) if values.get(old) is not None and new not in values
    }  # fmt: skip
    return {"tie_word_embeddings": True, **values, **known, "hidden_act": values.get("activation", "gelu")}


@family("falcon")
def falcon(config: Config, net: Layers) -> Graph:
    if config.flag("alibi"):
        raise UnsupportedError("Falcon models with ALiBi (falcon-rw) are not known")
    newer, beside = config.flag("new_decoder_architecture"), config.flag("parallel_attn", True)
    heads, epsilon = config.heads(), config.number("layer_norm_epsilon", 1e-5)
    groups = int(config.number("num_kv_heads", heads.count)) if newer else heads.count
    heads = replace(heads, groups=groups if newer or not config.flag("multi_query", True) else 1)
    two = newer and int(config.number("num_ln_in_parallel_attn", 2)) == 2
    angles = net.angles(config.rotary(heads.size))
    before = "transformer." if "transformer.word_embeddings.weight" in net.weights else ""
    x = net.embed(f"{before}word_embeddings.weight")
    for i in range(config.layers):
        at = f"{before}h.{i}"
        y = net.layer_norm(x, f"{at}.ln_attn" if two else f"{at}.input_layernorm", epsilon)
        q, k, v = apart(net, grouped(net, y, f"{at}.self_attention.query_key_value", heads), heads, angles)
        after = net.add(x, net.linear(net.attention(q, k, v, heads, i), f"{at}.self_attention.dense"))
        if two:
            own = f"{at}.ln_mlp"
            y = net.layer_norm(x, own if f"{own}.weight" in net.weights else f"{at}.input_layernorm", epsilon)
        elif not newer and not beside:
            y = net.layer_norm(after, f"{at}.post_attention_layernorm", epsilon)
        y = net.activation(config.activation, net.linear(y, f"{at}.mlp.dense_h_to_4h"))
        x = net.add(after, net.linear(y, f"{at}.mlp.dense_4h_to_h"))
    return head(config, net, net.layer_norm(net.picked(x), f"{before}ln_f", epsilon), f"{before}word_embeddings")
