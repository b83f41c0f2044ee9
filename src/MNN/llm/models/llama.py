"""Llama 1 to 3 (Touvron et al. 2023, arXiv:2302.13971), and what is built like it: Mistral, Yi, SmolLM2, InternLM3; and
Mixtral (arXiv:2401.04088), with experts behind attention."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.experts import Experts, Routing, mixture
from MNN.llm.models.families import Config, attend, family, head
from MNN.llm.models.layers import Layers


@family("llama", "mistral", "internlm3", "mixtral")
def llama(config: Config, net: Layers) -> Graph:
    mixed = config.family == "mixtral"
    heads = config.heads(window=config.window if mixed or config.family == "mistral" else 0)
    routing = Routing.of(config, normal=True) if mixed else None
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if routing is None:
            mlp = f"{at}.mlp"
            y = net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation)
        else:
            moe = f"{at}.block_sparse_moe"
            names = Experts(*(f"{moe}.experts.{{}}.{part}.weight" for part in ("w2", "w1", "w3")))
            y = mixture(net, y, f"{moe}.gate", routing, names, config.activation)
        x = net.add(x, y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
