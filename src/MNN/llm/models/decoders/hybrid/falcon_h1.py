"""Falcon-H1 (arXiv:2507.22448): attention and Mamba-2 side by side in every layer, with a factor for nearly all that is
added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX


@keeps("falcon_h1")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(KEYS, CONVOLUTION, MATRIX)] * config.layers


@family("falcon_h1")
def falcon_h1(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    heads = replace(heads, scale=heads.size**-0.5 * config.number("key_multiplier", 1.0))
    angles = net.angles(config.rotary(heads.size, theta=1e5))
    form = Mamba.of(config, config.flag("mamba_norm_before_gate", True))
    keys = form.groups * form.state
    parts = [form.inner, form.inner, keys, keys, form.heads]
    scales = np.repeat(_factors(config, "ssm_multipliers", len(parts)), parts)
    x = net.multiply(net.embed("model.embed_tokens.weight"), config.number("embedding_multiplier", 1.0))
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = mamba2(net, net.multiply(y, config.number("ssm_in_multiplier", 1.0)), f"{at}.mamba", i, form, scales)
        seen = net.multiply(y, config.number("attention_in_multiplier", 1.0))
        seen = attend(net, seen, f"{at}.self_attn", heads, i, angles)
        own = net.multiply(own, config.number("ssm_out_multiplier", 1.0))
        x = net.add(x, net.add(own, net.multiply(seen, config.number("attention_out_multiplier", 1.0))))
        y = net.rms_norm(x, f"{at}.pre_ff_layernorm", config.epsilon)
        x = net.add(x, _feed_forward(config, net, y, f"{at}.feed_forward"))
    last = net.rms_norm(net.picked(x), "model.final_layernorm", config.epsilon)
    return head(config, net, last, scale=config.number("lm_head_multiplier", 1.0))


def _feed_forward(config: Config, net: Layers, y: Value, at: str) -> Value:
    """A gated layer whose gate, and whose result, have a factor."""
    gate, down = _factors(config, "mlp_multipliers", 2)
    inner = net.height(f"{at}.gate_proj.weight")
    left, right = net.split(net.linear(y, f"{at}.gate_proj", f"{at}.up_proj"), [inner, inner])
    hidden = net.multiply(net.activation(config.activation, net.multiply(left, float(gate))), right)
    return net.multiply(net.linear(hidden, f"{at}.down_proj"), float(down))


def _factors(config: Config, key: str, count: int) -> np.ndarray:
    found = config.get(key)
    if found is None:
        return np.ones(count, np.float32)
    if not isinstance(found, Sequence) or len(found) != count or not all(isinstance(n, (int, float)) for n in found):
        raise FormatError(f"the model's configuration has {key} = {found!r:.80}; expected are {count} numbers")
    return np.array(found, np.float32)
