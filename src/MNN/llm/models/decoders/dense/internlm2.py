"""InternLM2 and 2.5 (arXiv:2403.17297): Llama whose queries, keys and values lie group by group in one layer."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, grouped, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("internlm2")
def internlm2(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size))
    x = net.embed("model.tok_embeddings.weight")
    for i in range(config.layers):
        at, ffn = f"model.layers.{i}", f"model.layers.{i}.feed_forward"
        y = net.rms_norm(x, f"{at}.attention_norm", config.epsilon)
        y = net.attention(*apart(net, grouped(net, y, f"{at}.attention.wqkv", heads), heads, angles), heads, i)
        x = net.add(x, net.linear(y, f"{at}.attention.wo"))
        y = net.rms_norm(x, f"{at}.ffn_norm", config.epsilon)
        x = net.add(x, net.gated(y, f"{ffn}.w1", f"{ffn}.w3", f"{ffn}.w2", config.activation))
    x = net.rms_norm(net.picked(x), "model.norm", config.epsilon)
    return head(config, net, x, "model.tok_embeddings", "output")
