"""BitNet b1.58 (arXiv:2504.12285): Llama whose weights are -1, 0 and 1 times a number, with norms in front of the last
layer of attention, and of what is behind it."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("bitnet")
def bitnet(config: Config, net: Layers) -> Graph:
    heads, activation = config.heads(), str(config.get("hidden_act") or "relu2")
    angles = net.angles(config.rotary(heads.size, theta=5e5))
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"model.layers.{i}.input_layernorm", config.epsilon)
        qkv = net.linear(y, f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj")
        y = net.attention(*apart(net, qkv, heads, angles), heads, i)
        x = net.add(x, net.linear(net.rms_norm(y, f"{at}.attn_sub_norm", config.epsilon), f"{at}.o_proj"))
        y = net.rms_norm(x, f"model.layers.{i}.post_attention_layernorm", config.epsilon)
        inner = net.height(f"{mlp}.gate_proj.weight")
        y = net.gate(net.linear(y, f"{mlp}.gate_proj", f"{mlp}.up_proj"), inner, activation)
        x = net.add(x, net.linear(net.rms_norm(y, f"{mlp}.ffn_sub_norm", config.epsilon), f"{mlp}.down_proj"))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))
