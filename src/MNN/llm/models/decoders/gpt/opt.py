"""OPT (Zhang et al. 2022, arXiv:2205.01068): a table of positions, and a feed-forward layer with ReLU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_FIRST = 2
"""The row of the first position."""
_EPSILON = 1e-5


@translates("opt")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    return {"tie_word_embeddings": True, **values, "hidden_act": values.get("activation_function", "relu")}


@family("opt")
def opt(config: Config, net: Layers) -> Graph:
    if not config.flag("layer_norm_elementwise_affine", True):
        raise UnsupportedError("OPT models whose norms have no weights are not known")
    at = "model.decoder" if "model.decoder.embed_tokens.weight" in net.weights else "decoder"
    heads, first = config.heads(), config.flag("do_layer_norm_before", True)

    def norm(x: Value, name: str, here: bool) -> Value:
        return net.layer_norm(x, name, _EPSILON) if here else x

    x = net.embed(f"{at}.embed_tokens.weight")
    if f"{at}.project_in.weight" in net.weights:
        x = net.linear(x, f"{at}.project_in")
    places = net.add(net.positions, net.const(np.array(_FIRST, np.int64)))
    x = net.add(x, net.rows_of(net.weights[f"{at}.embed_positions.weight"], places))
    for i in range(config.layers):
        own = f"{at}.layers.{i}"
        y = norm(x, f"{own}.self_attn_layer_norm", first)
        y = attend(net, y, f"{own}.self_attn", heads, i, None, output="out_proj")
        x = norm(net.add(x, y), f"{own}.self_attn_layer_norm", not first)
        y = net.linear(norm(x, f"{own}.final_layer_norm", first), f"{own}.fc1")
        x = net.add(x, net.linear(net.activation(config.activation, y), f"{own}.fc2"))
        x = norm(x, f"{own}.final_layer_norm", not first)
    x = norm(net.picked(x), f"{at}.final_layer_norm", f"{at}.final_layer_norm.weight" in net.weights)
    if f"{at}.project_out.weight" in net.weights:
        x = net.linear(x, f"{at}.project_out")
    return head(config, net, x, f"{at}.embed_tokens")
