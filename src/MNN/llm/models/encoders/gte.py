"""Encoders with rotary positions and gates: GTE 1.5 (Zhang et al. 2024, arXiv:2407.19669) and Nomic Embed (Nussbaum et
al. 2024, arXiv:2402.01613)."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.blocks import absolute, attend, embedded, normalised, prefix
from MNN.llm.models.families import encoder, translates
from MNN.llm.models.layers import Layers

_NOMIC = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "layer_norm_eps": "layer_norm_epsilon", "rope_theta": "rotary_emb_base",
    "partial_rotary_factor": "rotary_emb_fraction",
}  # fmt: skip
_GATES = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


@encoder("new", "gte")
def gte(config: Config, net: Layers) -> Graph:
    absolute(config, "rope")
    if config.flag("logn_attention_scale"):
        raise UnsupportedError("scores that grow with the length of a text (logn_attention_scale) are not known")
    before = prefix(net, "embeddings.word_embeddings.weight", "new.", "gte.")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-12)
    angles = net.angles(config.rotary(heads.size, theta=160000.0))
    x = net.layer_norm(embedded(net, f"{before}embeddings", None), f"{before}embeddings.LayerNorm", epsilon)
    for i in range(config.layers):
        at = f"{before}encoder.layer.{i}"
        y = attend(net, x, [f"{at}.attention.qkv_proj"], f"{at}.attention.o_proj", heads, angles)
        x = normalised(net, x, y, f"{at}.attn_ln", epsilon)
        inner = net.height(f"{at}.mlp.up_gate_proj.weight") // 2
        up, gate = net.split(net.linear(x, f"{at}.mlp.up_gate_proj"), [inner, inner])
        y = net.multiply(net.activation(config.activation, gate), up)
        x = normalised(net, x, net.linear(y, f"{at}.mlp.down_proj"), f"{at}.mlp_ln", epsilon)
    return net.finish(x, "vectors")


@translates("nomic_bert")
def _usual(config: Mapping[str, object]) -> Mapping[str, object]:
    """Names of the first configurations, which say how long texts were in training beside how long they may be."""
    if "n_embd" not in config:
        return config
    found = {**config, **{new: config[old] for new, old in _NOMIC.items() if old in config}}
    trained = config.get("max_trained_positions", config.get("n_positions"))
    if config.get("rotary_scaling_factor") is not None:
        found["rope_scaling"] = {"type": "dynamic", "factor": config["rotary_scaling_factor"]}
    kind = str(config.get("activation_function"))
    if kind not in _GATES:
        raise UnsupportedError(f"layers with the activation {kind!r} are not known; known are {', '.join(_GATES)}")
    return found | {"hidden_act": _GATES[kind], "max_position_embeddings": trained}


@encoder("nomic_bert")
def nomic(config: Config, net: Layers) -> Graph:
    for name in ("prenorm", "rotary_emb_interleaved", "num_experts"):
        if config.get(name):
            raise UnsupportedError(f"Nomic models with {name} = {config.get(name)!r} are not known")
    before = prefix(net, "embeddings.word_embeddings.weight", "nomic_bert.", "bert.")
    heads, epsilon = config.heads(), config.number("layer_norm_eps", 1e-12)
    angles = net.angles(config.rotary(heads.size, theta=1000.0))
    x = net.layer_norm(embedded(net, f"{before}embeddings", None), f"{before}emb_ln", epsilon)
    for i in range(config.layers):
        at = f"{before}encoder.layers.{i}"
        y = attend(net, x, [f"{at}.attn.Wqkv"], f"{at}.attn.out_proj", heads, angles)
        x = normalised(net, x, y, f"{at}.norm1", epsilon)
        y = net.gated(x, f"{at}.mlp.fc12", f"{at}.mlp.fc11", f"{at}.mlp.fc2", config.activation)
        x = normalised(net, x, y, f"{at}.norm2", epsilon)
    return net.finish(x, "vectors")
