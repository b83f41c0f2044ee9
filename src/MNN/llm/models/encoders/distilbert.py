"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): BERT of half as many layers, without kinds of tokens."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.blocks import attend, embedded, normalised, prefix
from MNN.llm.models.families import encoder, translates
from MNN.llm.models.layers import Layers

_NAMES = {
    "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_act": "activation",
}  # fmt: skip
_EPSILON = 1e-12


@translates("distilbert")
def _usual(config: Mapping[str, object]) -> Mapping[str, object]:
    return {**config, **{new: config.get(old) for new, old in _NAMES.items()}}


@encoder("distilbert")
def distilbert(config: Config, net: Layers) -> Graph:
    if config.flag("sinusoidal_pos_embds") and "embeddings.position_embeddings.weight" not in net.weights:
        raise UnsupportedError("the model has no table of positions; waves in their place are stored as one")
    before, heads = prefix(net, "embeddings.word_embeddings.weight", "distilbert."), config.heads()
    x = embedded(net, f"{before}embeddings", net.positions)
    x = net.layer_norm(x, f"{before}embeddings.LayerNorm", _EPSILON)
    for i in range(config.layers):
        at = f"{before}transformer.layer.{i}"
        names = [f"{at}.attention.{name}_lin" for name in "qkv"]
        x = normalised(net, x, attend(net, x, names, f"{at}.attention.out_lin", heads), f"{at}.sa_layer_norm", _EPSILON)
        y = net.activation(config.activation, net.linear(x, f"{at}.ffn.lin1"))
        x = normalised(net, x, net.linear(y, f"{at}.ffn.lin2"), f"{at}.output_layer_norm", _EPSILON)
    return net.finish(x, "vectors")
