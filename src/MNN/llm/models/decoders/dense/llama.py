"""Llama 1 to 3 (Touvron et al. 2023, arXiv:2302.13971), and what is built like it: Mistral, Ministral, Yi, SmolLM2,
InternLM3, Seed-OSS, ERNIE 4.5, Helium, IQuest-Coder, CWM (arXiv:2510.02387); and Mixtral (arXiv:2401.04088), with
experts behind attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import NUMBERED, Routing, mixture, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import as_number

_WINDOWED = ("mistral", "mixtral", "ministral", "ministral3", "cwm")
_BETA, _TRAINED = "llama_4_scaling_beta", "original_max_position_embeddings"
_CWM = {
    "rope_type": "llama3", "rope_theta": 1e6, "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    _TRAINED: 8192,
}  # fmt: skip


@translates("cwm")
def _scaled(values: Mapping[str, object]) -> Mapping[str, object]:
    """Positions are scaled where a configuration says nothing of them."""
    told = values.get("rope_parameters") or values.get("rope_scaling")
    return values if told else {**values, "rope_parameters": _CWM}


@family("llama", "internlm3", "seed_oss", "ernie4_5", "helium", "iquestcoder", *_WINDOWED)
def llama(config: Config, net: Layers) -> Graph:
    mixed = config.family == "mixtral"
    whole = 4 if config.family == "cwm" else 0  # every fourth layer sees all, from the first one on
    windows = [0] * config.layers
    if config.family in _WINDOWED:
        windows = config.windows(lambda i: not whole or i % whole > 0)
    heads, neighbours = config.heads(), config.family in ("ernie4_5", "helium")
    routing = Routing.of(config, normal=True) if mixed else None
    angles = net.angles(
        config.rotary(heads.size, theta=1e6 if config.family == "cwm" else 1e4)
    )  # which refuses lengths that are none
    grown = _grown(config, net)
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        own = replace(heads, window=windows[i])
        x = net.add(x, attend(net, y, f"{at}.self_attn", own, i, angles, grown=grown, interleaved=neighbours))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if routing is None:
            mlp = f"{at}.mlp"
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        else:
            moe = f"{at}.block_sparse_moe"
            names = usual(f"{moe}.experts", NUMBERED)
            y = mixture(net, y, f"{moe}.gate", routing, names, config.activation)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _grown(config: Config, net: Layers) -> Value | None:
    """What queries are multiplied by, which grows with the number of trained lengths before them (Ministral 3, from
    Llama 4); None where nothing is."""
    told = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(told, Mapping) or not (beta := as_number(told.get(_BETA), _BETA, 0.0)):
        return None
    trained = as_number(told.get(_TRAINED), _TRAINED, float(config.longest))
    whole = net.unary("FLOOR", binary(net, "REALDIV", net.floats(), net.const(np.float32(trained))))
    grown = net.unary("LOG", net.add(whole, net.const(np.float32(1))))
    return net.add(net.multiply(grown, beta), net.const(np.float32(1)))
