"""GPT-2 (Radford et al. 2019), whose checkpoints have matrices ``[in, out]``, and StarCoder 1 (``gpt_bigcode``,
arXiv:2305.06161), which shares one head of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.blocks import apart, grouped, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_NAMES = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "hidden_act":
    "activation_function", "max_position_embeddings": "n_positions",
}  # fmt: skip


@translates("gpt2")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {new: values[old] for new, old in _NAMES.items() if old in values}
    return {"hidden_act": "gelu_new", "max_position_embeddings": 1024, "tie_word_embeddings": True, **values, **known}


@translates("gpt_bigcode")
def _usual_bigcode(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {"hidden_act": "gelu_pytorch_tanh", **_usual(values)}
    if "activation_function" not in values:
        found["hidden_act"] = "gelu_pytorch_tanh"
    return found


@family("gpt2", "gpt_bigcode")
def gpt2(config: Config, net: Layers) -> Graph:
    for name in ("add_cross_attention", "scale_attn_by_inverse_layer_idx"):
        if config.flag(name):
            raise UnsupportedError(f"GPT-2 models with {name} are not known")
    before = "transformer." if "transformer.wte.weight" in net.weights else ""
    shared = config.family == "gpt_bigcode" and config.flag("multi_query", True)
    heads = config.heads(scale=0.0 if config.flag("scale_attn_weights", True) else 1.0)
    heads = replace(heads, groups=1) if shared else heads
    epsilon = config.number("layer_norm_epsilon", 1e-5)
    turned = config.family == "gpt2" and net.height(f"{before}h.0.attn.c_attn.weight") == config.width
    x = net.embed(f"{before}wte.weight")
    x = net.add(x, net.rows_of(net.weights[f"{before}wpe.weight"], net.positions))
    for i in range(config.layers):
        at = f"{before}h.{i}"
        y = net.layer_norm(x, f"{at}.ln_1", epsilon)
        if config.family == "gpt2" or shared:
            y = _linear(net, y, f"{at}.attn.c_attn", turned)
        else:
            y = grouped(net, y, f"{at}.attn.c_attn", heads)
        y = net.attention(*apart(net, y, heads, None), heads, i)
        x = net.add(x, _linear(net, y, f"{at}.attn.c_proj", turned))
        y = _linear(net, net.layer_norm(x, f"{at}.ln_2", epsilon), f"{at}.mlp.c_fc", turned)
        x = net.add(x, _linear(net, net.activation(config.activation, y), f"{at}.mlp.c_proj", turned))
    return head(config, net, net.layer_norm(net.picked(x), f"{before}ln_f", epsilon), f"{before}wte")


def _linear(net: Layers, x: Value, name: str, turned: bool) -> Value:
    """A layer whose matrix is ``[in, out]`` where it is ``turned``."""
    if not turned:
        return net.linear(x, name)
    weight = net.weights[f"{name}.weight"]
    plain = weight.dequantize() if isinstance(weight, QuantizedArray) else np.asarray(weight, np.float32)
    return net.product(x, np.ascontiguousarray(plain.T), net.weight(f"{name}.bias"))
