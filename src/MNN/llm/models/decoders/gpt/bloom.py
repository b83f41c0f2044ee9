"""BLOOM (arXiv:2211.05100): positions by ALiBi, and a norm behind the table of embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, grouped, head, slopes
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers


@translates("bloom")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {
        new: values[old] for new, old in (("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"),
        ("hidden_size", "n_embed"), ("max_position_embeddings", "seq_length")) if values.get(old) is not None
    }  # fmt: skip
    return {"tie_word_embeddings": True, "max_position_embeddings": 2048, **values, **known}


@family("bloom")
def bloom(config: Config, net: Layers) -> Graph:
    if config.flag("apply_residual_connection_post_layernorm"):
        raise UnsupportedError("BLOOM models with apply_residual_connection_post_layernorm are not known")
    before = "transformer." if "transformer.word_embeddings.weight" in net.weights else ""
    heads, epsilon = config.heads(), config.number("layer_norm_epsilon", 1e-5)
    heads = replace(heads, slopes=slopes(heads.count))
    x = net.embed(f"{before}word_embeddings.weight")
    x = net.layer_norm(x, f"{before}word_embeddings_layernorm", epsilon)
    for i in range(config.layers):
        at = f"{before}h.{i}"
        y = net.layer_norm(x, f"{at}.input_layernorm", epsilon)
        q, k, v = apart(net, grouped(net, y, f"{at}.self_attention.query_key_value", heads), heads, None)
        x = net.add(x, net.linear(net.attention(q, k, v, heads, i), f"{at}.self_attention.dense"))
        y = net.linear(net.layer_norm(x, f"{at}.post_attention_layernorm", epsilon), f"{at}.mlp.dense_h_to_4h")
        x = net.add(x, net.linear(net.activation("gelu_pytorch_tanh", y), f"{at}.mlp.dense_4h_to_h"))
    return head(config, net, net.layer_norm(net.picked(x), f"{before}ln_f", epsilon), f"{before}word_embeddings")
