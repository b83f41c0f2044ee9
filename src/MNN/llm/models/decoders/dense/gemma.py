"""Gemma 1 to 3 (arXiv:2403.08295, 2408.00118, 2503.19786) and VaultGemma (arXiv:2510.15001): scaled embeddings, weights
of norms that are added to one, and since the second one norms on both sides of a layer (not VaultGemma), windows, and
scores and logits that are capped."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("gemma", "gemma2", "gemma3", "gemma3_text", "vaultgemma")
def gemma(config: Config, net: Layers) -> Graph:
    first, third = config.family == "gemma", config.family.startswith("gemma3")
    bare = config.family in ("gemma", "vaultgemma")  # no norms behind layers
    heads = config.heads(softcap=0.0 if first else config.number("attn_logit_softcapping", 0.0))
    if not first:
        heads = replace(heads, scale=config.positive("query_pre_attn_scalar", heads.size) ** -0.5)
    period = int(config.number("sliding_window_pattern", 6)) if third else 2
    windows = [0] * config.layers if first else config.windows(lambda i: (i + 1) % period != 0)
    if config.flag("use_bidirectional_attention"):  # half of the window on each side
        windows = [max(window // 2, 1) if window else 0 for window in windows]
    everywhere = net.angles(config.rotary(heads.size, "full_attention", 1e6 if third else 1e4))
    local = net.angles(config.local(heads.size)) if third else everywhere
    # what the first one's configurations call gelu was always its approximation
    act = "gelu_pytorch_tanh" if first and config.activation == "gelu" else config.activation
    norms = (config.epsilon, 1.0) if third else None

    def norm(x: Value, name: str) -> Value:
        return net.rms_norm(x, name, config.epsilon, plus=1.0)

    x = net.multiply(net.embed("model.embed_tokens.weight"), sqrt(config.width))
    for i in range(config.layers):
        at = f"model.layers.{i}"
        own, angles = replace(heads, window=windows[i]), local if windows[i] else everywhere
        y = attend(net, norm(x, f"{at}.input_layernorm"), f"{at}.self_attn", own, i, angles, norms=norms)
        x = net.add(x, y if bare else norm(y, f"{at}.post_attention_layernorm"))
        y = norm(x, f"{at}.post_attention_layernorm" if first else f"{at}.pre_feedforward_layernorm")
        y = net.gated(y, f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj", f"{at}.mlp.down_proj", act)
        x = net.add(x, y if bare else norm(y, f"{at}.post_feedforward_layernorm"))
    cap = 0.0 if first else config.number("final_logit_softcapping", 0.0)
    return head(config, net, norm(net.picked(x), "model.norm"), softcap=cap)
