"""MPNet (Song et al. 2020, arXiv:2004.09297): BERT with a number for how far two tokens are apart added to their score,
from buckets that grow with the distance (those of T5, Raffel et al. 2019, arXiv:1910.10683)."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.blocks import attend, biased, embedded, normalised, prefix
from MNN.llm.models.families import encoder
from MNN.llm.models.layers import Layers

_FIRST = 2
"""The place of the first token: those before belong to padding."""
_BUCKETS, _FARTHEST = 32, 128


@encoder("mpnet")
def mpnet(config: Config, net: Layers) -> Graph:
    before = prefix(net, "embeddings.word_embeddings.weight", "mpnet.")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-12)
    table = net.weight(f"{before}encoder.relative_attention_bias.weight")
    if len(table) < _BUCKETS:
        raise FormatError(f"the table of distances has {len(table)} rows; expected are {_BUCKETS}")
    mask = biased(net, np.ascontiguousarray(table[buckets()]))
    places = net.add(net.positions, net.const(np.array(_FIRST, np.int64)))
    x = net.layer_norm(embedded(net, f"{before}embeddings", places), f"{before}embeddings.LayerNorm", epsilon)
    for i in range(config.layers):
        at = f"{before}encoder.layer.{i}"
        names = [f"{at}.attention.attn.{name}" for name in "qkv"]
        y = attend(net, x, names, f"{at}.attention.attn.o", heads, mask=mask)
        x = normalised(net, x, y, f"{at}.attention.LayerNorm", epsilon)
        y = net.activation(config.activation, net.linear(x, f"{at}.intermediate.dense"))
        x = normalised(net, x, net.linear(y, f"{at}.output.dense"), f"{at}.output.LayerNorm", epsilon)
    return net.finish(x, "vectors")


def buckets() -> np.ndarray:
    """The bucket of every distance from ``-128`` to ``128``: half of them for keys that stand before a query, of which
    the nearest have one each and others share one with what is about as far away."""
    away = np.arange(-_FARTHEST, _FARTHEST + 1)
    half, exact = _BUCKETS // 2, _BUCKETS // 4
    far = np.maximum(np.abs(away), 1).astype(np.float32)
    shared = np.log(far / exact) / np.log(np.float32(_FARTHEST / exact)) * (half - exact)
    shared = np.minimum(exact + shared.astype(np.int64), half - 1)
    found: np.ndarray = np.where(np.abs(away) < exact, np.abs(away), shared) + half * (away > 0)
    return found
