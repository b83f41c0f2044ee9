"""Granite 4 (IBM 2025): layers of Mamba-2 beside a few of attention, most without positions; experts, or none, beside a
layer that all tokens share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, gated_of, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.dense.minicpm import granite_mixture
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX

_KINDS = {"mamba": True, "linear_attention": True, "attention": False, "full_attention": False}


def recurrent_layers(config: Config) -> list[bool]:
    """Which layers are no attention. Raises :class:`FormatError` for other kinds."""
    kinds = config.get("layer_types") or config.get("layers_block_type") or ["mamba"] * config.layers
    if not isinstance(kinds, Sequence) or len(kinds) < config.layers or any(kind not in list(_KINDS) for kind in kinds):
        raise FormatError(f"layer_types is {kinds!r:.80}; expected are {config.layers} of {', '.join(_KINDS)}")
    return [_KINDS[kind] for kind in kinds[: config.layers]]


@keeps("granitemoehybrid")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in recurrent_layers(config)]


@family("granitemoehybrid")
def granite_hybrid(config: Config, net: Layers) -> Graph:
    heads = replace(config.heads(), scale=config.number("attention_multiplier", 1.0))
    turns = config.get("position_embedding_type") == "rope"
    angles = net.angles(config.rotary(heads.size)) if turns else None
    own = recurrent_layers(config)
    form = Mamba.of(config) if any(own) else None
    residual = config.number("residual_multiplier", 1.0)
    x = net.multiply(net.embed("model.embed_tokens.weight"), config.number("embedding_multiplier", 1.0))
    for i, mamba in enumerate(own):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        if mamba and form is not None:
            y = mamba2(net, y, f"{at}.mamba", i, form)
        else:
            y = attend(net, y, f"{at}.self_attn", heads, i, angles)
        x = net.add(x, net.multiply(y, residual))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, net.multiply(_feed_forward(config, net, y, at), residual))
    last = net.rms_norm(net.picked(x), "model.norm", config.epsilon)
    return head(config, net, last, scale=1.0 / config.positive("logits_scaling", 1.0))


def _feed_forward(config: Config, net: Layers, y: Value, at: str) -> Value:
    if config.number("num_local_experts", 0):
        return granite_mixture(config, net, y, at)
    return gated_of(net, y, f"{at}.shared_mlp", config.activation)
