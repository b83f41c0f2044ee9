"""OLMo 1 (arXiv:2402.00838): Llama with layer norms that have no weights."""

from __future__ import annotations

from MNN.frontends.common.expressions import clamp
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import apart, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers

_EPSILON = 1e-5


@family("olmo")
def olmo(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles, limit = net.angles(config.rotary(heads.size)), config.number("clip_qkv", 0.0)

    def norm(x: Value) -> Value:
        return net.centred(x, _EPSILON)

    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        qkv = net.linear(norm(x), *(f"{at}.{part}_proj" for part in "qkv"))
        qkv = clamp(net, qkv, -limit, limit) if limit else qkv
        y = net.attention(*apart(net, qkv, heads, angles), heads, i)
        x = net.add(x, net.linear(y, f"{at}.o_proj"))
        x = net.add(x, net.gated(norm(x), f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    return head(config, net, norm(net.picked(x)))
