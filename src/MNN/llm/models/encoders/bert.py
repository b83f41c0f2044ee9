"""BERT (Devlin et al. 2018, arXiv:1810.04805) and RoBERTa (Liu et al. 2019, arXiv:1907.11692), which give every token a
vector: MiniLM, BGE, GTE, E5 and other models that embed texts are such."""

from __future__ import annotations

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.families import Config, encoder
from MNN.llm.models.layers import Heads, Layers


@encoder("bert", "roberta", "xlm-roberta")
def bert(config: Config, net: Layers) -> Graph:
    if config.get("position_embedding_type") not in (None, "absolute"):
        raise UnsupportedError(f"positions of the kind {config.get('position_embedding_type')!r} are not known")
    first = "" if config.family == "bert" else "roberta."
    prefix = next((p for p in ("bert.", first) if f"{p}embeddings.word_embeddings.weight" in net.weights), "")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-12)
    places = net.positions
    if config.family != "bert":  # the first places belong to padding
        places = net.add(places, net.const(np.array(int(config.number("pad_token_id", 1)) + 1, np.int64)))
    at = f"{prefix}embeddings"
    x = net.add(
        net.embed(f"{at}.word_embeddings.weight"), net.rows_of(net.weights[f"{at}.position_embeddings.weight"], places)
    )
    if f"{at}.token_type_embeddings.weight" in net.weights:
        kinds = net.weight(f"{at}.token_type_embeddings.weight")
        x = net.add(x, net.const(kinds[0]) if net.types is None else net.rows_of(kinds, net.types))
    x = net.layer_norm(x, f"{at}.LayerNorm", epsilon)
    for i in range(config.layers):
        x = _layer(config, net, x, f"{prefix}encoder.layer.{i}", heads, epsilon)
    return net.finish(x, "vectors")


def _layer(config: Config, net: Layers, x: Value, at: str, heads: Heads, epsilon: float) -> Value:
    names = [f"{at}.attention.self.{name}" for name in ("query", "key", "value")]
    each = net.reshape(net.linear(x, *names), 0, 0, 3 * heads.count, heads.size)
    q, k, v = net.split(each, [heads.count] * 3, axis=2)
    y = net.linear(net.attention_at_once(q, k, v, heads, False), f"{at}.attention.output.dense")
    x = net.layer_norm(net.add(x, y), f"{at}.attention.output.LayerNorm", epsilon)
    y = net.activation(config.activation, net.linear(x, f"{at}.intermediate.dense"))
    return net.layer_norm(net.add(x, net.linear(y, f"{at}.output.dense")), f"{at}.output.LayerNorm", epsilon)
