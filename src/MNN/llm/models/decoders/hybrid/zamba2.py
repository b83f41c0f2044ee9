"""Zamba2 (arXiv:2411.15242): layers of Mamba-2, in front of some of which stands a block of attention that others
share, which sees the words, too, and has small matrices of its own beside those that are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX
from MNN.llm.models.weights import required

_NAMES = {"n_mamba_heads": "mamba_n_heads", "mamba_ngroups": "mamba_n_groups"}
_KINDS = {"hybrid": True, "mamba": False, "linear_attention": False}
_PUBLISHED = ["mamba", *(["mamba"] * 5 + ["hybrid"]) * 7, *["mamba"] * 4, "hybrid", *["mamba"] * 3, "hybrid"]


@translates("zamba2")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {**values, **{new: values[old] for old, new in _NAMES.items() if old in values}}
    width, heads = required(values, "hidden_size"), required(values, "num_attention_heads")
    found["head_dim"] = 2 * width // heads
    usual = {"mamba_n_heads": 8, "mamba_d_state": 64, "mamba_expand": 2, "tie_word_embeddings": True}
    return {**usual, "rms_norm_eps": 1e-5, "num_mem_blocks": 1, **found}


def _hybrid(config: Config) -> list[bool]:
    """In front of which layers a block of attention stands."""
    kinds = config.each("layers_block_type") or config.each("layer_types") or [*_PUBLISHED, "mamba", "mamba"]
    if len(kinds) < config.layers or any(kind not in list(_KINDS) for kind in kinds):
        raise FormatError(f"layers_block_type is {kinds!r:.80}; expected are {config.layers} of {', '.join(_KINDS)}")
    return [_KINDS[kind] for kind in kinds[: config.layers]]


@keeps("zamba2")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(KEYS, CONVOLUTION, MATRIX) if both else (CONVOLUTION, MATRIX) for both in _hybrid(config)]


@family("zamba2")
def zamba2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    heads = replace(heads, scale=(heads.size / 2) ** -0.5)
    low = config.number("time_step_min", 0.001)
    form = replace(Mamba.of(config), epsilon=1e-5, low=low, activation="silu")
    angles = net.angles(config.rotary(heads.size)) if config.flag("use_mem_rope") else None
    words = x = net.embed("model.embed_tokens.weight")
    blocks, number = max(int(config.number("num_mem_blocks", 1)), 1), 0
    first = [i for i, both in enumerate(_hybrid(config)) if both]
    for i, both in enumerate(_hybrid(config)):
        at, given = f"model.layers.{i}", x
        if both:
            rooms = [f"model.layers.{j}.shared_transformer" for j in (i, first[number % blocks])]
            room = next((r for r in rooms if f"{r}.input_layernorm.weight" in net.weights), rooms[-1])
            y = _shared(config, net, net.concat([x, words]), room, heads, i, angles, number)
            given, number = net.add(x, net.linear(y, f"{at}.linear")), number + 1
            at = f"{at}.mamba_decoder"
        y = mamba2(net, net.rms_norm(given, f"{at}.input_layernorm", config.epsilon), f"{at}.mamba", i, form)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.final_layernorm", config.epsilon))


def _shared(
    config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles | None, number: int
) -> Value:  # fmt: skip
    """Attention and a gated layer behind it, without what stands beside them. ``number``: of how many such blocks this
    one comes behind."""
    y, room = net.rms_norm(y, f"{at}.input_layernorm", config.epsilon), f"{at}.self_attn"
    parts = [net.linear(y, f"{room}.{part}_proj") for part in "qkv"]
    if config.flag("use_shared_attention_adapter"):
        names = (f"{room}.linear_{part}_adapter_list.{number}" for part in "qkv")
        parts = [net.add(part, _small(net, y, name)) for part, name in zip(parts, names, strict=True)]
    y = net.attention(*apart(net, net.concat(parts), heads, angles), heads, layer)
    y = net.rms_norm(net.linear(y, f"{room}.o_proj"), f"{at}.pre_ff_layernorm", config.epsilon)
    room = f"{at}.feed_forward"
    both = net.add(net.linear(y, f"{room}.gate_up_proj"), _small(net, y, f"{room}.gate_up_proj_adapter_list.{number}"))
    inner = net.height(f"{room}.gate_up_proj.weight") // 2
    return net.linear(net.gate(both, inner, str(config.get("hidden_act") or "gelu")), f"{room}.down_proj")


def _small(net: Layers, y: Value, name: str) -> Value:
    return net.linear(net.linear(y, f"{name}.0"), f"{name}.1")
