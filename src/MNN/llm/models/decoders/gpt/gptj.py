"""GPT-J (Wang & Komatsuzaki 2021) and CodeGen (arXiv:2203.13474): neighbours of part of each head are turned, and
attention and the feed-forward layer stand side by side behind one norm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.rotary import rotary

_NAMES = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "hidden_act":
    "activation_function", "max_position_embeddings": "n_positions",
}  # fmt: skip
_SHARES = 4
"""Parts that CodeGen's layer of queries, values and keys was trained in."""


@translates("gptj")
@translates("codegen")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {new: values[old] for new, old in _NAMES.items() if old in values}
    return {"hidden_act": "gelu_new", "max_position_embeddings": 2048, **values, **known}


@family("gptj", "codegen")
def gptj(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(), config.number("layer_norm_epsilon", 1e-5)
    angles = net.angles(rotary(config.values, int(config.number("rotary_dim", heads.size))))
    if angles[2] > heads.size:
        raise FormatError(f"rotary_dim is {angles[2]}, more than the {heads.size} numbers of a head")
    x = net.embed("transformer.wte.weight")
    for i in range(config.layers):
        at = f"transformer.h.{i}"
        y = net.layer_norm(x, f"{at}.ln_1", epsilon)
        if config.family == "codegen":
            qkv = _in_parts(net, y, f"{at}.attn.qkv_proj", heads)
        else:
            qkv = net.linear(y, *(f"{at}.attn.{part}_proj" for part in "qkv"))
        seen = net.attention(*apart(net, qkv, heads, angles, interleaved=True), heads, i)
        fed = net.linear(net.activation(config.activation, net.linear(y, f"{at}.mlp.fc_in")), f"{at}.mlp.fc_out")
        x = net.add(net.add(x, net.linear(seen, f"{at}.attn.out_proj")), fed)
    return head(config, net, net.layer_norm(net.picked(x), "transformer.ln_f", epsilon), "transformer.wte")


def _in_parts(net: Layers, y: Value, name: str, heads: Heads) -> Value:
    """Queries, keys and values side by side, of a layer whose rows lie part by part: queries, values, then keys."""
    wide = heads.count * heads.size
    if net.height(f"{name}.weight") != 3 * wide or wide % _SHARES:
        raise FormatError(f"'{name}.weight' has {net.height(f'{name}.weight')} rows; expected are {3 * wide}")
    order = np.arange(3 * wide).reshape(_SHARES, 3, -1)
    rows = np.concatenate([order[:, which].reshape(-1) for which in (0, 2, 1)])
    return net.linear(y, name, order=rows)
