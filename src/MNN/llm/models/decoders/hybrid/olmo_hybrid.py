"""OLMo Hybrid (Ai2 2026): layers of the gated delta rule with norms in front, every fourth one OLMo 3's attention with
norms behind, of which the published models know no positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.dense.olmo2 import attend_normal
from MNN.llm.models.decoders.hybrid.granite import recurrent_layers
from MNN.llm.models.decoders.mixtures.glm4_moe import gated
from MNN.llm.models.delta import delta_rule, gated_norm
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import softplus
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX, convolved
from MNN.llm.models.weights import required

_NORM_EPSILON = 1e-5
"""Of the norm behind the delta rule."""


@translates("olmo_hybrid")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {key: value for key, value in values.items() if value is not None or key == "rope_theta"}
    layers, width, heads = (required(found, f) for f in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    kinds = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]
    found.setdefault("layer_types", kinds if "full_attention" in kinds else [*kinds[1:], "full_attention"])
    for kind in ("key", "value"):
        found.setdefault(f"linear_num_{kind}_heads", heads)
    found.setdefault("linear_key_head_dim", 3 * width // (4 * required(found, "linear_num_key_heads")))
    found.setdefault("linear_value_head_dim", 2 * required(found, "linear_key_head_dim"))
    return found


@keeps("olmo_hybrid")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in recurrent_layers(config)]


@family("olmo_hybrid")
def olmo_hybrid(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size)) if _turned(config) else None
    x = net.embed("model.embed_tokens.weight")
    for i, own in enumerate(recurrent_layers(config)):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        second = _name(net, at, "feedforward_layer_norm", "post_attention_layernorm")
        if own:
            first = _name(net, at, "attention_layer_norm", "input_layernorm")
            x = net.add(x, _delta(config, net, net.rms_norm(x, first, config.epsilon), f"{at}.linear_attn", i))
            x = net.add(x, gated(config, net, net.rms_norm(x, second, config.epsilon), mlp))
            continue
        y = attend_normal(config, net, x, f"{at}.self_attn", heads, i, angles)
        x = net.add(x, net.rms_norm(y, second, config.epsilon))
        y = net.rms_norm(gated(config, net, x, mlp), f"{at}.post_feedforward_layernorm", config.epsilon)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _turned(config: Config) -> bool:
    """Whether attention knows positions: a base that is said to be null says that it does not."""
    for inner in (config.get("rope_parameters"), config.get("rope_scaling"), config.values):
        if isinstance(inner, Mapping) and "rope_theta" in inner:
            return inner["rope_theta"] is not None
    return True


def _name(net: Layers, at: str, *names: str) -> str:
    """What a norm is called: checkpoints have one name, what transformers has in memory another one."""
    return next((f"{at}.{name}" for name in names if f"{at}.{name}.weight" in net.weights), f"{at}.{names[-1]}")


def _delta(config: Config, net: Layers, y: Value, at: str, layer: int) -> Value:
    groups, heads = config.count("linear_num_key_heads"), config.count("linear_num_value_heads")
    if heads % groups:
        raise FormatError(f"{heads} heads of values cannot share {groups} heads of keys")
    mixed = net.linear(y, *(f"{at}.{part}_proj" for part in "qkv"))
    mixed = convolved(net, mixed, f"{at}.conv1d", layer, [f"{at}.{part}_conv1d" for part in "qkv"])
    share, rate = net.split(net.linear(y, f"{at}.b_proj", f"{at}.a_proj"), [heads, heads])
    share = net.multiply(net.op("Sigmoid", share), 2.0 if config.flag("linear_allow_neg_eigval", True) else 1.0)
    rate = softplus(net, net.add(rate, net.vector(f"{at}.dt_bias")))
    decay = net.unary("EXP", net.multiply(rate, net.const(-np.exp(net.weight(f"{at}.A_log")))))
    form = (heads, config.count("linear_key_head_dim"), config.count("linear_value_head_dim"))
    out = delta_rule(net, net.activation(config.activation, mixed), decay, share, layer, groups, form)
    gate = net.linear(y, f"{at}.g_proj")
    return net.linear(gated_norm(net, out, gate, f"{at}.o_norm", _NORM_EPSILON, "silu"), f"{at}.o_proj")
