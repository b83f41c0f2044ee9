"""LFM2 (Liquid AI 2025): short convolutions between two gates, beside a few layers of attention; also
with experts behind the first layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import NUMBERED, Routing, mixture, usual
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.recurrent import CONVOLUTION, convolved
from MNN.llm.models.weights import as_list

_NORMS, _PARTS = ("q_layernorm", "k_layernorm"), ("w1", "w3", "w2")


@translates("lfm2_moe")
@translates("lfm2")
def _usual(config: Mapping[str, object]) -> Mapping[str, object]:
    """The first configurations list the layers of attention in place of the kinds of all."""
    found, layers = dict(config), config.get("num_hidden_layers")
    listed = as_list(config.get("full_attn_idxs"), "full_attn_idxs")
    if config.get("layer_types") is None and isinstance(layers, int):
        among = range(layers) if listed is None else listed
        found["layer_types"] = ["full_attention" if i in among else "conv" for i in range(layers)]
    return found | {"rms_norm_eps": config.get("norm_eps", 1e-5)}


def _kinds(config: Config) -> list[bool]:
    """Which layers are convolutions."""
    kinds = config.get("layer_types")
    known = ("full_attention", "conv")
    if not isinstance(kinds, Sequence) or len(kinds) < config.layers or any(kind not in known for kind in kinds):
        raise FormatError(f"layer_types is {kinds!r:.80}; expected are {config.layers} times {' or '.join(known)}")
    return [kind == "conv" for kind in kinds[: config.layers]]


@keeps("lfm2", "lfm2_moe")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION,) if short else (KEYS,) for short in _kinds(config)]


@family("lfm2", "lfm2_moe")
def lfm2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=1e6))
    routing, dense = None, int(config.number("num_dense_layers", 2))
    if config.family == "lfm2_moe":
        routing = Routing.of(config, config.flag("norm_topk_prob", True))
        routing = replace(routing, sigmoid=True, scale=config.number("routed_scaling_factor", 1.0))
    biased = config.flag("use_expert_bias", True)
    x = net.embed("model.embed_tokens.weight")
    for i, short in enumerate(_kinds(config)):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.operator_norm", config.epsilon)
        if short:
            y = _short(config, net, y, f"{at}.conv", i)
        else:
            norms = (config.epsilon, 0.0)
            y = attend(net, y, f"{at}.self_attn", heads, i, angles, output="out_proj", norms=norms, normed=_NORMS)
        x = net.add(x, y)
        y = net.rms_norm(x, f"{at}.ffn_norm", config.epsilon)
        if routing is None or i < dense:
            gate, up, down = (f"{at}.feed_forward.{name}" for name in _PARTS)
            y = net.gated(y, gate, up, down, "silu")
        else:
            names = usual(f"{at}.feed_forward.experts", NUMBERED)
            own = replace(routing, correction=f"{at}.feed_forward.expert_bias" if biased else "")
            y = mixture(net, y, f"{at}.feed_forward.gate", own, names, "silu")
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.embedding_norm", config.epsilon))


def _short(config: Config, net: Layers, y: Value, at: str, layer: int) -> Value:
    """A convolution over a few tokens of what one gate lets in; another one lets it out."""
    before, after, own = net.split(net.linear(y, f"{at}.in_proj"), [config.width] * 3)
    return net.linear(
        net.multiply(after, convolved(net, net.multiply(before, own), f"{at}.conv", layer)), f"{at}.out_proj"
    )
