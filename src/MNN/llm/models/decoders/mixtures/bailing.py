"""Ling and Ring 2.0 (``bailing_moe``, inclusionAI 2025): one layer for queries, keys and values, whose heads are
normalised and turned in part; experts that have a score by themselves, and some for all tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.decoders.mixtures.glm4_moe import Places, experts, gated
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

LING = Places(added="gate.expert_bias")
"""Where experts of Ling are."""
_NORMS = ("query_layernorm", "key_layernorm")


@translates("sarvam_moe")
def _sarvam(values: Mapping[str, object]) -> Mapping[str, object]:
    """All of each head is turned."""
    names = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}
    found = {new: values[old] for new, old in names.items() if old in values}
    usual = {"partial_rotary_factor": 1.0, "rope_theta": 8e6, "first_k_dense_replace": 1, "head_dim": 64}
    return {**usual, **found, **values}


@translates("bailing_moe")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    made = values.get("architectures")
    if isinstance(made, list) and "BailingMoeForCausalLM" in made:
        raise UnsupportedError("Ling 1.x (BailingMoeForCausalLM) is not known; its successor Ling 2.0 is")
    return {"partial_rotary_factor": 0.5, **values}


@family("bailing_moe", "sarvam_moe")
def bailing(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, theta=6e5))
    first = int(config.number("first_k_dense_replace", 0))
    norms = (config.epsilon, 0.0) if config.flag("use_qk_norm", True) else None
    x = net.embed("model.word_embeddings.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        names, room = ("query_key_value",), f"{at}.attention"
        x = net.add(x, attend(net, y, room, heads, i, angles, names, "dense", norms=norms, normed=_NORMS))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        x = net.add(x, gated(config, net, y, mlp) if i < first else _experts(config, net, y, mlp))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon), "model.word_embeddings")


def _experts(config: Config, net: Layers, y: Value, at: str) -> Value:
    if config.get("score_function") not in (None, "sigmoid"):
        raise UnsupportedError(f"experts of Ling that are scored by {config.get('score_function')!r} are not known")
    return experts(config, net, y, at, LING if f"{at}.{LING.added}" in net.weights else replace(LING, added=""))
