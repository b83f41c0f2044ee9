"""Llama 1 to 3 (Touvron et al. 2023, arXiv:2302.13971), and what is built like it: Mistral, Yi, SmolLM2, InternLM3."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.families import Config, attend, family, head
from MNN.llm.models.layers import Layers


@family("llama", "mistral", "internlm3")
def llama(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window if config.family == "mistral" else 0)
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        mlp = f"{at}.mlp"
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
