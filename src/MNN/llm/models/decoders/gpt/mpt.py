"""MPT (MosaicML 2023): positions by ALiBi, and no biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, head, slopes
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import as_number

_NAMES = {
    "hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "max_position_embeddings": "max_seq_len",
}  # fmt: skip
_UNKNOWN = {"alibi": False, "prefix_lm": True, "qk_ln": True, "attn_type": "multiquery_attention"}


@translates("mpt")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {new: values[old] for new, old in _NAMES.items() if old in values}
    return {"tie_word_embeddings": True, **values, **known}


@family("mpt")
def mpt(config: Config, net: Layers) -> Graph:
    given = config.get("attn_config")
    told: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    strange = [name for name, value in _UNKNOWN.items() if told.get(name) == value]
    if strange or config.get("logit_scale") is not None:
        raise UnsupportedError(f"MPT models with {strange[0] if strange else 'logit_scale'} told so are not known")
    heads = config.heads(scale=as_number(told.get("softmax_scale"), "softmax_scale", 0.0))
    limit = as_number(told.get("clip_qkv"), "clip_qkv", 0.0)
    heads = replace(heads, slopes=slopes(heads.count, as_number(told.get("alibi_bias_max"), "alibi_bias_max", 8.0)))
    epsilon = config.number("layer_norm_epsilon", 1e-5)
    x = net.embed("transformer.wte.weight")
    for i in range(config.layers):
        at = f"transformer.blocks.{i}"
        y = net.linear(net.layer_norm(x, f"{at}.norm_1", epsilon), f"{at}.attn.Wqkv")
        y = net.op("ReLU6", y, minValue=-limit, maxValue=limit) if limit else y
        y = net.attention(*apart(net, y, heads, None), heads, i)
        x = net.add(x, net.linear(y, f"{at}.attn.out_proj"))
        y = net.activation("gelu", net.linear(net.layer_norm(x, f"{at}.norm_2", epsilon), f"{at}.ffn.up_proj"))
        x = net.add(x, net.linear(y, f"{at}.ffn.down_proj"))
    return head(config, net, net.layer_norm(net.picked(x), "transformer.norm_f", epsilon), "transformer.wte")
