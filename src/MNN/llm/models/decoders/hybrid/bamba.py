"""Bamba (IBM 2024): layers of Mamba-2 beside a few of attention, where half of each head is turned."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.hybrid.granite import recurrent_layers
from MNN.llm.models.families import KEYS, family, keeps
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX


def _recurrent(config: Config) -> list[bool]:
    """Which layers are no attention: as the first configurations say, by the numbers of the others."""
    told = config.listed("attn_layer_indices") or ()
    if config.get("layer_types") is None and config.get("layers_block_type") is None:
        return [i not in told for i in range(config.layers)]
    return recurrent_layers(config)


@keeps("bamba")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in _recurrent(config)]


@family("bamba")
def bamba(config: Config, net: Layers) -> Graph:
    heads, form = config.heads(), Mamba.of(config)
    angles = net.angles(config.rotary(heads.size, share=0.5))
    x = net.embed("model.embed_tokens.weight")
    for i, own in enumerate(_recurrent(config)):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.feed_forward"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        y = mamba2(net, y, f"{at}.mamba", i, form) if own else attend(net, y, f"{at}.self_attn", heads, i, angles)
        x = net.add(x, y)
        y = net.rms_norm(x, f"{at}.pre_ff_layernorm", config.epsilon)
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.final_layernorm", config.epsilon))
