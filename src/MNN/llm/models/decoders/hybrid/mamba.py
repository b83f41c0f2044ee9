"""Mamba (arXiv:2312.00752), Mamba-2 (arXiv:2405.21060) and Falcon Mamba (arXiv:2410.05355): recurrent layers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.mamba1 import Mamba1, mamba1
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX

_NAMES = {
    "rms_norm_eps": "layer_norm_epsilon", "mamba_n_heads": "num_heads", "mamba_d_head": "head_dim",
    "mamba_n_groups": "n_groups", "mamba_d_state": "state_size", "mamba_expand": "expand",
}  # fmt: skip
_USUAL = {"rms_norm_eps": 1e-5, "max_position_embeddings": 1 << 20}
"""Nothing but patience limits how long a text may be."""


@translates("mamba")
@translates("falcon_mamba")
@translates("mamba2")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    return {**_USUAL, **values, **{new: values[old] for new, old in _NAMES.items() if old in values}}


@keeps("mamba", "mamba2", "falcon_mamba")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX)] * config.layers


@family("mamba", "mamba2", "falcon_mamba")
def mamba(config: Config, net: Layers) -> Graph:
    second = Mamba.of(config) if config.family == "mamba2" else None
    first = None if second is not None else _first(config)
    x = net.embed("backbone.embeddings.weight")
    for i in range(config.layers):
        at = f"backbone.layers.{i}"
        y = net.rms_norm(x, f"{at}.norm", config.epsilon)
        if first is not None:
            x = net.add(x, mamba1(net, y, f"{at}.mixer", i, first))
        elif second is not None:
            x = net.add(x, mamba2(net, y, f"{at}.mixer", i, second))
    last = net.rms_norm(net.picked(x), "backbone.norm_f", config.epsilon)
    return head(config, net, last, "backbone.embeddings")


def _first(config: Config) -> Mamba1:
    inner = int(config.number("intermediate_size", 0)) or int(config.number("expand", 2) * config.width)
    rank = int(config.number("time_step_rank", 0)) or ceil(config.width / 16)
    epsilon = config.number("mixer_rms_eps", 1e-6) if config.family == "falcon_mamba" else 0.0
    return Mamba1(inner, config.count("state_size"), rank, epsilon, activation=config.activation)
