"""BERT (Devlin et al. 2018, arXiv:1810.04805) and RoBERTa (Liu et al. 2019, arXiv:1907.11692), which give every token a
vector: MiniLM, BGE, GTE, E5 and other models that embed texts are such. CamemBERT is RoBERTa in French."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.blocks import absolute, attend, embedded, normalised, prefix
from MNN.llm.models.families import encoder
from MNN.llm.models.layers import Layers


@encoder("bert", "roberta", "xlm-roberta", "camembert")
def bert(config: Config, net: Layers) -> Graph:
    absolute(config, "absolute")
    before = prefix(net, "embeddings.word_embeddings.weight", "bert.", "roberta.")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-12)
    places = net.positions
    if config.family != "bert":  # the first places belong to padding
        places = net.add(places, net.const(np.array(int(config.number("pad_token_id", 1)) + 1, np.int64)))
    x = net.layer_norm(embedded(net, f"{before}embeddings", places), f"{before}embeddings.LayerNorm", epsilon)
    for i in range(config.layers):
        at = f"{before}encoder.layer.{i}"
        names = [f"{at}.attention.self.{name}" for name in ("query", "key", "value")]
        y = attend(net, x, names, f"{at}.attention.output.dense", heads)
        x = normalised(net, x, y, f"{at}.attention.output.LayerNorm", epsilon)
        y = net.activation(config.activation, net.linear(x, f"{at}.intermediate.dense"))
        x = normalised(net, x, net.linear(y, f"{at}.output.dense"), f"{at}.output.LayerNorm", epsilon)
    return net.finish(x, "vectors")
