"""DeepSeek-V2 (arXiv:2405.04434), V2-Lite, and V3 and R1 (arXiv:2412.19437): keys and values of all heads are made from
few numbers (multi-head latent attention), part of each head is turned, and experts are chosen from groups. Built
alike are DeepSeek-V3.2 (arXiv:2512.02556) and GLM-5 (``glm_moe_dsa``, Z.ai 2026), which choose tokens by an index once
there are more than it takes (2,048), and whose texts are limited to these here; GLM-4.7-Flash (``glm4_moe_lite``), and
without experts Youtu-LLM (arXiv:2512.24618) and MiniCPM3, which has MiniCPM's factors (arXiv:2404.06395)."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import head
from MNN.llm.models.config import Config, limited
from MNN.llm.models.experts import Routing, mixture, number_of, usual
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.rotary import yarn_mscale

_INDEXED = ("deepseek_v32", "glm_moe_dsa")
"""Families that choose tokens by an index."""
_SIGMOID = ("deepseek_v3", "glm4_moe_lite", "sarvam_mla", *_INDEXED)
"""Families whose experts have a score by themselves."""


@translates("deepseek_v32")
@translates("glm_moe_dsa")
def _indexed(values: Mapping[str, object]) -> Mapping[str, object]:
    """A text is no longer than what the index takes."""
    return {"first_k_dense_replace": 3, **limited(values, "index_topk", 2048), "rope_interleave": True}


@translates("minicpm3")
def _minicpm3(values: Mapping[str, object]) -> Mapping[str, object]:
    """Halves of heads are turned, not neighbours; values are as wide as heads would be without latents."""
    width, heads, layers = (values.get(key) for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    found = {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, **values, "rope_interleave": False}
    if found.get("v_head_dim") is None and isinstance(width, int) and isinstance(heads, int) and heads > 0:
        found["v_head_dim"] = width // heads
    depth = found["scale_depth"]
    if isinstance(depth, (int, float)) and isinstance(layers, int) and layers > 0:
        found["residual_scale"] = depth / sqrt(layers)
    return found


@family("deepseek_v2", *_SIGMOID, "youtu", "minicpm3")
def deepseek(config: Config, net: Layers) -> Graph:
    heads = latent_heads(config)
    angles = net.angles(config.rotary(config.count("qk_rope_head_dim")))
    mixed, residual = _mixed(config), config.number("residual_scale", 1.0)
    x = net.multiply(net.embed("model.embed_tokens.weight"), config.number("scale_emb", 1.0))
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, net.multiply(latent(config, net, y, f"{at}.self_attn", heads, i, angles), residual))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if not mixed[i]:
            x = net.add(x, net.multiply(_gated(config, net, y, mlp), residual))
            continue
        routed = mixture(net, y, f"{mlp}.gate", _routing(config, mlp), usual(f"{mlp}.experts"), config.activation)
        if int(config.number("n_shared_experts", 0)) or f"{mlp}.shared_experts.gate_proj.weight" in net.weights:
            routed = net.add(routed, _gated(config, net, y, f"{mlp}.shared_experts"))
        x = net.add(x, routed)
    last = net.rms_norm(net.picked(x), "model.norm", config.epsilon)
    return head(config, net, last, scale=config.number("dim_model_base", config.width) / config.width)


def _mixed(config: Config) -> list[bool]:
    """Which layers have experts."""
    told = config.each("mlp_layer_types")
    if told is not None:
        return [kind == "sparse" for kind in told]
    if config.family in ("youtu", "minicpm3"):
        return [False] * config.layers
    first = int(config.number("first_k_dense_replace", 0 if config.family.startswith("deepseek") else 1))
    every = max(int(config.number("moe_layer_freq", 1)), 1)
    return [i >= first and i % every == 0 for i in range(config.layers)]


def _gated(config: Config, net: Layers, y: Value, at: str) -> Value:
    return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)


def latent_heads(config: Config) -> Heads:
    """A head has numbers of its own, and some that are turned, of which all heads share those of keys."""
    count, size = (
        config.count("num_attention_heads"),
        config.count("qk_nope_head_dim") + config.count("qk_rope_head_dim"),
    )
    return Heads(count, count, size, _scale(config, size))


def _scale(config: Config, size: int) -> float:
    """Of the scores: they grow with the factor of lengths."""
    found: float = size**-0.5
    for key in ("rope_parameters", "rope_scaling"):
        given = config.get(key)
        if isinstance(given, Mapping) and given.get("rope_type", given.get("type", "default")) != "default":
            every, factor = given.get("mscale_all_dim"), given.get("factor")
            if every and isinstance(every, (int, float)):
                if not isinstance(factor, (int, float)):
                    raise FormatError(f"{key} of the model's configuration lacks a number 'factor'")
                found *= yarn_mscale(float(factor), float(every)) ** 2
            break
    return found


def _routing(config: Config, at: str) -> Routing:
    count, most = number_of(config), config.count("num_experts_per_tok")
    groups, kept = (max(int(config.number(key, 1)), 1) for key in ("n_group", "topk_group"))
    scale, method = config.number("routed_scaling_factor", 1.0), config.get("topk_method")
    if config.family in _SIGMOID or config.get("scoring_func") == "sigmoid":
        normal, correction = config.flag("norm_topk_prob", True), f"{at}.gate.e_score_correction_bias"
        return Routing(count, most, normal, scale, True, groups, kept, 2, True, correction).checked()
    if method not in (None, "greedy", "group_limited_greedy"):
        raise UnsupportedError(f"experts chosen by the method {method!r} are not known")
    if method != "group_limited_greedy":
        groups = kept = 1
    return Routing(count, most, False, scale, groups=groups, kept=kept).checked()


def latent(
    config: Config, net: Layers, y: Value, at: str, heads: Heads, layer: int, angles: Angles | None,
    gate: Value | None = None, output: str = "o_proj", factors: tuple[float, float] = (1.0, 1.0),
) -> Value:  # fmt: skip
    """Multi-head latent attention, with the ``output``'s layer behind it. ``angles``: None where nothing is turned;
    ``gate``: what results of heads are multiplied by, ``[batch, sequence, count]``; ``factors``: what the few numbers
    of queries, and of keys and values, are multiplied by."""
    rank, value = config.count("kv_lora_rank"), config.count("v_head_dim")
    turned = config.count("qk_rope_head_dim")
    still = heads.size - turned
    if config.get("q_lora_rank") is None:
        q = net.linear(y, f"{at}.q_proj")
    else:
        q = net.rms_norm(net.linear(y, f"{at}.q_a_proj"), f"{at}.q_a_layernorm", 1e-6)
        q = net.linear(net.multiply(q, factors[0]), f"{at}.q_b_proj")
    q = net.reshape(q, 0, 0, heads.count, heads.size)
    few, k_turned = net.split(net.linear(y, f"{at}.kv_a_proj_with_mqa"), [rank, turned])
    few = net.multiply(net.rms_norm(few, f"{at}.kv_a_layernorm", 1e-6), factors[1])
    both = net.linear(few, f"{at}.kv_b_proj")
    k_still, v = net.split(net.reshape(both, 0, 0, heads.count, still + value), [still, value])
    k_turned = net.reshape(k_turned, 0, 0, 1, turned)
    if angles is not None:
        interleaved = config.flag("rope_interleave", True)
        q_still, q_turned = net.split(q, [still, turned])
        q = net.concat([q_still, net.rotate(q_turned, angles, turned, interleaved)])
        k_turned = net.rotate(k_turned, angles, turned, interleaved)
    k = net.concat([k_still, net.repeat(k_turned, heads.count)])
    out = net.attention(q, k, v, heads, layer, value)
    if gate is not None:
        each = net.multiply(net.reshape(out, 0, 0, heads.count, value), net.op("Unsqueeze", gate, squeezeDims=[3]))
        out = net.reshape(each, 0, 0, heads.count * value)
    return net.linear(out, f"{at}.{output}")
