"""GPT-Neo (Black et al. 2021): a table of positions, scores that are not scaled, and windows in every other layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from MNN.errors import FormatError
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import family, translates
from MNN.llm.models.layers import Layers

_NAMES = {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads", "hidden_act": "activation_function"}


@translates("gpt_neo")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    known = {new: values[old] for new, old in _NAMES.items() if old in values}
    return {"hidden_act": "gelu_new", "tie_word_embeddings": True, **values, **known}


@family("gpt_neo")
def gpt_neo(config: Config, net: Layers) -> Graph:
    heads, epsilon = config.heads(scale=1.0), config.number("layer_norm_epsilon", 1e-5)
    window = int(config.number("window_size", 256))
    x = net.add(net.embed("transformer.wte.weight"), net.rows_of(net.weights["transformer.wpe.weight"], net.positions))
    for i, kind in enumerate(_kinds(config)):
        at = f"transformer.h.{i}"
        own = replace(heads, window=window if kind == "local" else 0)
        y = net.layer_norm(x, f"{at}.ln_1", epsilon)
        x = net.add(x, attend(net, y, f"{at}.attn.attention", own, i, None, output="out_proj"))
        y = net.linear(net.layer_norm(x, f"{at}.ln_2", epsilon), f"{at}.mlp.c_fc")
        x = net.add(x, net.linear(net.activation(config.activation, y), f"{at}.mlp.c_proj"))
    return head(config, net, net.layer_norm(net.picked(x), "transformer.ln_f", epsilon), "transformer.wte")


def _kinds(config: Config) -> list[str]:
    """Of every layer, whether it sees all (``global``) or has a window (``local``)."""
    told = config.get("attention_layers")
    if not isinstance(told, Sequence):
        told = []
        types = config.get("attention_types") or [[["global", "local"], config.layers]]
        for one in types if isinstance(types, Sequence) else []:
            if not isinstance(one, Sequence) or len(one) != 2 or not isinstance(one[1], int) or one[1] > config.layers:
                raise FormatError(f"attention_types has {one!r:.80}; expected are kinds, and how often they come")
            told += [kind for _ in range(one[1]) for kind in one[0]]
    kinds = list(told[: config.layers])
    if len(kinds) < config.layers or any(kind not in ("global", "local") for kind in kinds):
        raise FormatError(f"kinds of attention are {told!r:.80}; expected are {config.layers} times global or local")
    return kinds
