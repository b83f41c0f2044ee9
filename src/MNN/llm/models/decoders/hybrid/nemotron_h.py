"""Nemotron-H (arXiv:2504.03624) and Nemotron 3 Nano (arXiv:2512.20848): layers that are one thing each, Mamba-2,
attention without positions, a layer without gates, or such experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from MNN.errors import FormatError
from MNN.frontends.common.expressions import insert_axis
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.experts import Routing, choose, routed, weighted
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import Mamba, mamba2
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX

_MAMBA, _ATTENTION, _PLAIN, _EXPERTS = range(4)
_LETTERS = {"M": _MAMBA, "*": _ATTENTION, "-": _PLAIN, "E": _EXPERTS}
_WORDS = {
    "linear_attention": _MAMBA, "mamba": _MAMBA, "full_attention": _ATTENTION, "attention": _ATTENTION, "mlp": _PLAIN,
    "moe": _EXPERTS,
}  # fmt: skip
_NAMES = {
    "rms_norm_eps": "layer_norm_epsilon", "mamba_n_heads": "mamba_num_heads", "mamba_d_head": "mamba_head_dim",
    "mamba_n_groups": "n_groups", "mamba_d_state": "ssm_state_size",
}  # fmt: skip


@translates("nemotron_h")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {"rms_norm_eps": 1e-5, **values, **{new: values[old] for new, old in _NAMES.items() if old in values}}
    kinds = next(
        (found[k] for k in ("layers_block_type", "layer_types", "hybrid_override_pattern") if found.get(k)), ()
    )
    if isinstance(kinds, Sequence):
        found["num_hidden_layers"] = len(kinds)
    steps = [values.get("time_step_min", 0.001), inf]
    # whatever configurations say, logits come from a layer of its own where there is one
    return found | {"layer_kinds": kinds, "time_step_limit": steps, "tie_word_embeddings": False}


def _kinds(config: Config) -> list[int]:
    told = config.get("layer_kinds")
    known = _LETTERS if isinstance(told, str) else _WORDS
    if not isinstance(told, Sequence) or any(kind not in list(known) for kind in told):
        raise FormatError(f"the kinds of layers are {told!r:.80}; expected are some of {', '.join(known)}")
    return [known[kind] for kind in told]


@keeps("nemotron_h")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [{_MAMBA: (CONVOLUTION, MATRIX), _ATTENTION: (KEYS,)}.get(kind, ()) for kind in _kinds(config)]


@family("nemotron_h")
def nemotron_h(config: Config, net: Layers) -> Graph:
    kinds = _kinds(config)
    form = Mamba.of(config) if _MAMBA in kinds else None
    act = str(config.get("mlp_hidden_act") or "relu2")
    x = net.embed("backbone.embeddings.weight")
    for i, kind in enumerate(kinds):
        at = f"backbone.layers.{i}.mixer"
        y = net.rms_norm(x, f"backbone.layers.{i}.norm", config.epsilon)
        if kind == _MAMBA and form is not None:
            y = mamba2(net, y, at, i, form)
        elif kind == _ATTENTION:
            y = attend(net, y, at, config.heads(window=config.window), i, None)
        else:
            y = _experts(config, net, y, at, act) if kind == _EXPERTS else _plain(net, y, at, act)
        x = net.add(x, y)
    last = net.rms_norm(net.picked(x), "backbone.norm_f", config.epsilon)
    return head(config, net, last, "backbone.embeddings")


def _plain(net: Layers, y: Value, at: str, act: str) -> Value:
    return net.linear(net.activation(act, net.linear(y, f"{at}.up_proj")), f"{at}.down_proj")


def _experts(config: Config, net: Layers, y: Value, at: str, act: str) -> Value:
    """Experts that are chosen by scores of their own, of fewer numbers in some models; and one for all tokens."""
    groups, kept = (max(int(config.number(key, 1)), 1) for key in ("n_group", "topk_group"))
    scale, normal = config.number("routed_scaling_factor", 1.0), config.flag("norm_topk_prob", True)
    count, most = config.count("n_routed_experts"), config.count("num_experts_per_tok")
    correction = f"{at}.gate.e_score_correction_bias"
    routing = Routing(count, most, normal, scale, True, groups, kept, 2, True, correction).checked()
    weights, index = choose(net, y, f"{at}.gate", routing)
    few = f"{at}.fc1_latent_proj.weight" in net.weights
    x = insert_axis(net, net.linear(y, f"{at}.fc1_latent_proj") if few else y, 2)
    up, down = ([net.weights[f"{at}.experts.{i}.{part}_proj.weight"] for i in range(count)] for part in ("up", "down"))
    each = routed(net, net.activation(act, routed(net, x, index, up, count)), index, down, count)
    made = weighted(net, each, weights)
    made = net.linear(made, f"{at}.fc2_latent_proj") if few else made
    return net.add(made, _plain(net, y, f"{at}.shared_experts", act))
