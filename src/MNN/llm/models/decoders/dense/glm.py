"""GLM-4 (arXiv:2406.12793): half of each head is turned, neighbours in pairs. ``glm`` and ``glm4`` are checkpoints in
transformers' names, ``chatglm`` those with code of their own (ChatGLM2, ChatGLM3, GLM-4-9B)."""

from __future__ import annotations

from collections.abc import Mapping

from MNN.ir.graph import Graph
from MNN.llm.models.blocks import apart, attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers


@family("glm", "glm4")
def glm(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, share=0.5))
    both_sides = config.family == "glm4"
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        y = attend(net, y, f"{at}.self_attn", heads, i, angles, interleaved=True)
        x = net.add(x, net.rms_norm(y, f"{at}.post_self_attn_layernorm", config.epsilon) if both_sides else y)
        y = net.linear(net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon), f"{at}.mlp.gate_up_proj")
        y = net.gate(y, net.height(f"{at}.mlp.gate_up_proj.weight") // 2, config.activation)
        y = net.linear(y, f"{at}.mlp.down_proj")
        x = net.add(x, net.rms_norm(y, f"{at}.post_mlp_layernorm", config.epsilon) if both_sides else y)
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


@translates("chatglm")
def usual_names(values: Mapping[str, object]) -> dict[str, object]:
    """The names that other families have for what a ChatGLM configuration says."""
    pairs = {
        "num_hidden_layers": "num_layers", "head_dim": "kv_channels", "intermediate_size": "ffn_hidden_size",
        "rms_norm_eps": "layernorm_epsilon", "max_position_embeddings": "seq_length",
    }  # fmt: skip
    found = {**values, **{new: values[old] for new, old in pairs.items() if old in values}}
    ratio = values.get("rope_ratio", 1.0)
    found["rope_theta"] = 10000.0 * (float(ratio) if isinstance(ratio, (int, float)) else 1.0)
    if values.get("multi_query_attention"):
        found["num_key_value_heads"] = values.get("multi_query_group_num")
    return found


@family("chatglm")
def chatglm(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, share=0.5))
    x = net.embed("transformer.embedding.word_embeddings.weight")
    for i in range(config.layers):
        at = f"transformer.encoder.layers.{i}"
        y = net.linear(net.rms_norm(x, f"{at}.input_layernorm", config.epsilon), f"{at}.self_attention.query_key_value")
        y = net.attention(*apart(net, y, heads, angles, interleaved=True), heads, i)
        x = net.add(x, net.linear(y, f"{at}.self_attention.dense"))
        y = net.linear(net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon), f"{at}.mlp.dense_h_to_4h")
        y = net.gate(y, net.height(f"{at}.mlp.dense_h_to_4h.weight") // 2, "silu")
        x = net.add(x, net.linear(y, f"{at}.mlp.dense_4h_to_h"))
    x = net.rms_norm(net.picked(x), "transformer.encoder.final_layernorm", config.epsilon)
    return head(config, net, x, "transformer.embedding.word_embeddings", "transformer.output_layer")
