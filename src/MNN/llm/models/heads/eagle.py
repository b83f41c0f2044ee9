"""EAGLE (Li et al. 2024, arXiv:2401.15077; the second one, arXiv:2406.16858, has the same network) and EAGLE-3
(arXiv:2503.01840): a layer or a few that write on from what the model makes of each token, and from the next token.

Weights have the names of published checkpoints: ``fc``, ``layers.N`` (in those of the third ``midlayer``), and in those
of the third ``norm``, ``lm_head`` and ``d2t``. What is the model's own begins with ``target.``.
"""

from __future__ import annotations

from MNN.errors import FormatError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.llm.models.blocks import attend
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.config import Config
from MNN.llm.models.heads.features import FEATURES
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Weights

GIVEN = "given"
"""The input with what the model, or the head before, made of each token, f32 ``[1, sequence, width]``."""
TABLES = ("embed_tokens.weight", "target.model.embed_tokens.weight")
"""The table of embeddings: of the head, or the model's."""


def eagle(config: Config, weights: Weights, cache: CacheForm, third: bool) -> Layers:
    """The graph of a head: a decoder that takes :data:`GIVEN` beside tokens, gives logits of the tokens that it knows,
    and :data:`~MNN.llm.models.heads.features.FEATURES` to go on from.

    ``third``: of EAGLE-3, to which the model shows what is as wide as its layer. Raises :class:`FormatError` for
    weights that do not fit.
    """
    net = Layers(weights, "eagle3" if third else "eagle", cache=cache)
    heads, epsilon = config.heads(), config.epsilon
    angles = net.angles(config.rotary(heads.size))
    words = net.embed(next((name for name in TABLES if name in weights), TABLES[1]))
    given = net.take(GIVEN, DType.F32, (1, "sequence", config.width))
    if third:
        inner = net.rms_norm(given, "layers.0.hidden_norm", epsilon)
        y = net.concat([net.rms_norm(words, "layers.0.input_layernorm", epsilon), inner])
        x = inner if config.flag("norm_before_residual") else given
    else:
        y = x = net.linear(net.concat([words, given]), "fc")
    for i in range(config.layers):
        at, mlp = f"layers.{i}", f"layers.{i}.mlp"
        if i or not third:
            # the first layer of the first EAGLE has no norm
            y = net.rms_norm(x, f"{at}.input_layernorm", epsilon) if f"{at}.input_layernorm.weight" in weights else x
        x = net.add(x, attend(net, y, f"{at}.self_attn", heads, i, angles))
        y = net.rms_norm(x, f"{at}.post_attention_layernorm", epsilon)
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    last = net.picked(x)
    if "norm.weight" in weights:
        last = net.rms_norm(last, "norm", epsilon)
    table = next((name for name in ("lm_head.weight", "target.lm_head.weight") if name in weights), TABLES[1])
    if x.shape is not None and weights.shape(table)[-1] != x.shape[-1]:
        raise FormatError(
            f"heads of {x.shape[-1]} numbers do not fit '{table}' {list(weights.shape(table))}: another model's"
        )
    graph: Graph = net.finish(net.product(last, net.matrix(table)))
    x.name, x.dtype = FEATURES, DType.F32
    graph.outputs.append(x)
    return net


__all__ = ["GIVEN", "TABLES", "eagle"]
