"""Gemma 3n (Google 2025): four streams of which layers compute one and guess the others (AltUp, Baykal et al. 2023,
arXiv:2301.13310), a way of low rank around attention (LAuReL, arXiv:2411.07501), gates of which few are open, keys and
values that the last layers share, and for every layer numbers of its own that tokens bring along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import NormalDist

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, drop_axis, insert_axis
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.dense.gemma4 import FULL, LOCAL, attend, layer_kinds, with_parts
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_LEAST = 1e-5
"""Of the mean square of a stream."""


@family("gemma3n", "gemma3n_text")
def gemma3n(config: Config, net: Layers) -> Graph:
    heads, kinds = config.heads(scale=1.0), layer_kinds(config, 5)
    angles = {LOCAL: net.angles(config.local(heads.size)), FULL: net.angles(config.rotary(heads.size, FULL, 1e6))}
    streams, active = int(config.number("altup_num_inputs", 4)), int(config.number("altup_active_idx", 0))
    if not 0 <= active < streams:
        raise FormatError(f"altup_active_idx is {active} of {streams} streams")
    first = config.layers - int(config.number("num_kv_shared_layers", 15))
    x, beside = with_parts(config, net)
    if not beside:
        raise FormatError(
            "hidden_size_per_layer_input is missing; tokens of Gemma 3n bring numbers for each layer along"
        )
    size = _root(net, x)
    others = [_of_size(net, net.linear(x, f"model.altup_projections.{i}"), size) for i in range(streams - 1)]
    x = net.concat([insert_axis(net, one, 2) for one in (x, *others)], 2)
    kept: dict[str, tuple[Value, Value]] = {}

    def norm(x: Value, name: str) -> Value:
        return net.rms_norm(x, name, config.epsilon)

    for i, kind in enumerate(kinds):
        at = f"model.layers.{i}"
        modes = _modes(config, net, _stream(net, x, active, streams), at)
        guessed = net.reshape(net.linear(modes, f"{at}.altup.prediction_coefs"), 0, 0, streams, streams)
        x = net.add(x, net.matmul(guessed, x))
        own = _stream(net, x, active, streams)
        y = norm(own, f"{at}.input_layernorm")
        low = net.linear(net.linear(y, f"{at}.laurel.linear_left"), f"{at}.laurel.linear_right")
        around = net.add(y, norm(low, f"{at}.laurel.post_laurel_norm"))
        form = replace(heads, window=config.window if kind == LOCAL else 0)
        y = attend(config, net, y, f"{at}.self_attn", form, i, angles[kind], kept, kind, i >= first)
        y = net.add(net.add(own, norm(y, f"{at}.post_attention_layernorm")), around)
        y = net.multiply(y, sqrt(0.5))
        fed = _gated(config, net, norm(y, f"{at}.pre_feedforward_layernorm"), f"{at}.mlp", i)
        y = net.add(y, norm(fed, f"{at}.post_feedforward_layernorm"))
        new = insert_axis(net, binary(net, "SUB", y, own), 2)
        shares = net.linear(_modes(config, net, y, at), f"{at}.altup.correction_coefs")
        shares = insert_axis(net, net.add(shares, net.const(np.float32(1))), 3)
        x = net.add(x, net.multiply(new, shares))
        y = _stream(net, x, active, streams)
        if config.flag("altup_correct_scale", True):
            y = net.multiply(y, net.vector(f"{at}.altup.correct_output_scale"))
        y = net.activation(config.activation, net.linear(y, f"{at}.per_layer_input_gate"))
        y = net.linear(net.multiply(y, beside[i]), f"{at}.per_layer_projection")
        y = insert_axis(net, norm(y, f"{at}.post_per_layer_input_norm"), 2)
        lead, rest = net.split(x, [1, streams - 1], axis=2)
        x = net.concat([lead, net.add(rest, y)], 2)
    apart = [net.reshape(one, 0, 0, config.width) for one in net.split(x, [1] * streams, axis=2)]
    lead, size = apart[0], _root(net, apart[0])
    for i, one in enumerate(apart[1:]):
        lead = net.add(lead, _of_size(net, net.linear(one, f"model.altup_unembed_projections.{i}"), size))
    last = norm(net.picked(net.multiply(lead, 1.0 / streams)), "model.norm")
    return head(config, net, last, softcap=config.number("final_logit_softcapping", 30.0))


def _stream(net: Layers, x: Value, which: int, streams: int) -> Value:
    """One of them, ``[batch, sequence, width]``."""
    parts = [n for n in (which, 1, streams - which - 1) if n]
    return drop_axis(net, net.split(x, parts, axis=2)[1 if which else 0], 2)


def _modes(config: Config, net: Layers, x: Value, at: str) -> Value:
    """What guesses and corrections are weighed by, ``[batch, sequence, streams]``."""
    y = net.multiply(net.rms_norm(x, f"{at}.altup.router_norm", config.epsilon), 1.0 / config.width)
    return net.activation("tanh", net.linear(y, f"{at}.altup.modality_router"))


def _root(net: Layers, x: Value, least: float = 0.0) -> Value:
    """The root of the mean square of each token."""
    square = net.mean(net.multiply(x, x), 2)
    return net.unary("SQRT", binary(net, "MAXIMUM", square, net.const(np.float32(least))) if least else square)


def _of_size(net: Layers, x: Value, size: Value) -> Value:
    return net.multiply(x, binary(net, "REALDIV", size, _root(net, x, _LEAST)))


def _gated(config: Config, net: Layers, y: Value, at: str, layer: int) -> Value:
    """A gated layer. Of some layers' gates those alone are open that are far above the mean, as many as a normal
    distribution says."""
    inner, told = net.height(f"{at}.gate_proj.weight"), config.get("activation_sparsity_pattern")
    share = told[layer] if isinstance(told, Sequence) and layer < len(told) else told
    gate, up = net.split(net.linear(y, f"{at}.gate_proj", f"{at}.up_proj"), [inner, inner])
    if isinstance(share, (int, float)) and share > 0:
        if share >= 1:
            raise FormatError(f"activation_sparsity_pattern has {share!r}; expected are shares below 1")
        around = binary(net, "SUB", gate, net.mean(gate, 2))
        far = net.multiply(_root(net, around), NormalDist().inv_cdf(share))
        gate = net.activation("relu", binary(net, "SUB", around, far))
    return net.linear(net.multiply(net.activation(config.activation, gate), up), f"{at}.down_proj")
