"""K-EXAONE (LG AI Research 2026, arXiv:2601.01739): EXAONE 4's attention behind its norm, and experts that have a
score by themselves."""

from __future__ import annotations

from dataclasses import replace

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import Places, experts, gated
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_PLACES = Places(added="e_score_correction_bias")


@family("exaone_moe")
def exaone_moe(config: Config, net: Layers) -> Graph:
    heads, told = config.heads(), config.each("mlp_layer_types")
    first = int(config.number("first_k_dense_replace", 1))
    mixed = [i >= first for i in range(config.layers)]
    if told is not None:
        mixed = [kind == "sparse" for kind in told]
    windows = config.windows(lambda i: (i + 1) % 4 != 0 and i + 1 < config.layers)
    angles, norms = net.angles(config.rotary(heads.size)), (config.epsilon, 0.0)
    x = net.embed("model.embed_tokens.weight")
    for i, window in enumerate(windows):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        turned = None if config.window and not window else angles
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", replace(heads, window=window), i, turned, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, experts(config, net, y, mlp, _PLACES) if mixed[i] else gated(config, net, y, mlp))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
