"""GLM-4.5 and 4.6 (``glm4_moe``, arXiv:2508.06471): part of each head is turned, and every expert has a score
by itself."""

from __future__ import annotations

from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, mixture, number_of, usual
from MNN.llm.models.families import family
from MNN.llm.models.layers import Layers


@family("glm4_moe")
def glm4_moe(config: Config, net: Layers) -> Graph:
    heads = config.heads()
    angles = net.angles(config.rotary(heads.size, share=0.5))
    first = int(config.number("first_k_dense_replace", 1))
    norms = (config.epsilon, 0.0) if config.flag("use_qk_norm") else None
    x = net.embed("model.embed_tokens.weight")
    for i in range(config.layers):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        y = net.rms_norm(x, f"{at}.input_layernorm", config.epsilon)
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles, norms=norms))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", config.epsilon)
        if i < first:
            x = net.add(x, _gated(config, net, y, mlp))
            continue
        routed = mixture(net, y, f"{mlp}.gate", _routing(config, mlp), usual(f"{mlp}.experts"), config.activation)
        x = net.add(x, net.add(routed, _gated(config, net, y, f"{mlp}.shared_experts")))
    return head(config, net, net.rms_norm(net.picked(x), "model.norm", config.epsilon))


def _gated(config: Config, net: Layers, y: Value, at: str) -> Value:
    return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.down_proj", config.activation)


def _routing(config: Config, at: str) -> Routing:
    groups, kept = (max(int(config.number(key, 1)), 1) for key in ("n_group", "topk_group"))
    scale, normal = config.number("routed_scaling_factor", 1.0), config.flag("norm_topk_prob", True)
    correction, most = f"{at}.gate.e_score_correction_bias", config.count("num_experts_per_tok")
    return Routing(number_of(config), most, normal, scale, True, groups, kept, 2, True, correction).checked()
