"""ModernBERT (Warner et al. 2024, arXiv:2412.13663): rotary positions, gates, and layers that see what is near only."""

from __future__ import annotations

from MNN.ir.graph import Graph
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.blocks import attend, near, prefix
from MNN.llm.models.families import encoder
from MNN.llm.models.layers import Layers
from MNN.llm.models.rotary import Rotary, rotary

_FULL, _LOCAL = "full_attention", "sliding_attention"
_THETA = {_FULL: ("global_rope_theta", 160000.0), _LOCAL: ("local_rope_theta", 10000.0)}


@encoder("modernbert")
def modernbert(config: Config, net: Layers) -> Graph:
    before = prefix(net, "embeddings.tok_embeddings.weight", "model.")
    heads, epsilon = config.heads(), config.number("norm_eps", 1e-5)
    kinds = _kinds(config)
    angles = {kind: net.angles(_turns(config, heads.size, kind)) for kind in set(kinds)}
    reach = int(config.number("local_attention", 128)) // 2
    masks = {_FULL: None, _LOCAL: near(net, reach) if _LOCAL in kinds else None}
    x = net.embed(f"{before}embeddings.tok_embeddings.weight")
    x = net.layer_norm(x, f"{before}embeddings.norm", epsilon)
    for i, kind in enumerate(kinds):
        at = f"{before}layers.{i}"
        y = net.layer_norm(x, f"{at}.attn_norm", epsilon) if f"{at}.attn_norm.weight" in net.weights else x
        x = net.add(x, attend(net, y, [f"{at}.attn.Wqkv"], f"{at}.attn.Wo", heads, angles[kind], masks[kind]))
        y = net.linear(net.layer_norm(x, f"{at}.mlp_norm", epsilon), f"{at}.mlp.Wi")
        y = net.gate(y, net.height(f"{at}.mlp.Wi.weight") // 2, str(config.get("hidden_activation") or "gelu"))
        x = net.add(x, net.linear(y, f"{at}.mlp.Wo"))
    return net.finish(net.layer_norm(x, f"{before}final_norm", epsilon), "vectors")


def _kinds(config: Config) -> list[str]:
    """Of every layer, whether it sees all."""
    told = config.each("layer_types")
    if told is not None:
        return [_LOCAL if kind == _LOCAL else _FULL for kind in told]
    every = max(int(config.number("global_attn_every_n_layers", 3)), 1)
    return [_LOCAL if i % every else _FULL for i in range(config.layers)]


def _turns(config: Config, size: int, kind: str) -> Rotary:
    name, usual = _THETA[kind]
    return rotary(config.values, size, kind, config.number(name, usual))
