"""EXAONE 3 and 3.5 (arXiv:2408.03541, 2412.04862): Llama under other names."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_NAMES = {
    "num_hidden_layers": "num_layers", "rms_norm_eps": "layer_norm_epsilon", "hidden_act": "activation_function",
}  # fmt: skip


@translates("exaone")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    return {**{new: values[old] for new, old in _NAMES.items() if old in values}, **values}


@family("exaone")
def exaone(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=5e5))
    x = net.embed("transformer.wte.weight")
    for i in range(config.layers):
        at, mlp = f"transformer.h.{i}", f"transformer.h.{i}.mlp"
        y = net.rms_norm(x, f"{at}.ln_1", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.attn.attention", heads, i, angles, output="out_proj"))
        y = net.rms_norm(x, f"{at}.ln_2", config.epsilon)
        x = net.add(x, net.gated(y, f"{mlp}.c_fc_0", f"{mlp}.c_fc_1", f"{mlp}.c_proj", config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "transformer.ln_f", config.epsilon), "transformer.wte")
